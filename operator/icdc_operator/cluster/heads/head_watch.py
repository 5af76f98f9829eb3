"""Follows the table heads of idle pipelines, and asks for a look when something about them changed.

One task for each idle pipeline, at the pace of its spec; a look at a pipeline never waits for a
catalog. What was read before a run says nothing after it, so each run begins a new watch. What is
remembered is a hint: an operator that starts anew reads once and knows the same.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from icdc_api.spec import PipelineSpec
from icdc_operator.cluster import logs
from icdc_operator.cluster.heads import table_heads
from icdc_operator.cluster.heads.table_heads import Head, TableBranch, Unseen
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey

FAILING_SECONDS = 300.0
"""Between two looks at a pipeline of which no table can be looked at, at most; its pollInterval if
that is longer."""

BROKEN_SECONDS = 60.0
"""Until a pipeline is looked at whose watch has ended by an error that nobody foresaw."""

MAX_NAMED = 3
"""Tables that a log line names."""

_log = logging.getLogger(__name__)


class TableReader(Protocol):
    """Looks at tables; never raises for what a catalog does."""

    async def read(self, namespace: str, tables: Sequence[TableBranch]) -> dict[str, Head | Unseen]:
        """The head of each table by its name, or why there is none."""
        ...


@dataclass(frozen=True)
class KnownHeads:
    """What is known of a pipeline's heads. See `Observed` for what each field says."""

    heads: Mapping[str, str | None] | None
    old: Set[str] = frozenset()


@dataclass
class _Watch:
    """One idle pipeline since its last run."""

    after: int
    tables: tuple[TableBranch, ...]
    poll_seconds: float
    found: dict[str, Head | Unseen] | None = None
    task: asyncio.Task[None] | None = None


@dataclass
class _Memory:
    """What outlasts the runs of a pipeline."""

    read_at: float | None = None
    first_seen: dict[str, tuple[Head, int]] = field(default_factory=dict)
    """Each head, and the epoch of the last run before it was first seen."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why tables cannot be looked at, as it was last logged."""


class HeadWatch:
    """The watches of all idle pipelines. For one event loop."""

    def __init__(
        self,
        reader: TableReader,
        wake: Callable[[PipelineKey], None],
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._reader = reader
        self._wake = wake
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._watches: dict[PipelineKey, _Watch] = {}
        self._memory: dict[PipelineKey, _Memory] = {}
        self._ended: set[asyncio.Task[None]] = set()

    def follow(self, key: PipelineKey, spec: PipelineSpec, *, after: int) -> KnownHeads:
        """What is known by now of the heads of an idle pipeline, which is followed from now on.

        `after` is the epoch of its last run.
        """
        tables = table_heads.list_branches(spec)
        poll = float(spec.changelog.poll_interval_seconds)
        watch = self._watches.get(key)
        same = watch is not None and (watch.after, watch.tables, watch.poll_seconds) == (
            after,
            tables,
            poll,
        )
        if watch is None or not same or (watch.task is not None and watch.task.done()):
            self.leave(key)
            watch = self._watches[key] = _Watch(after, tables, poll)
            watch.task = asyncio.create_task(self._poll(key, watch), name=f"heads-{key}")
            watch.task.add_done_callback(functools.partial(self._note_end, key))
        return self._known(key, watch)

    def leave(self, key: PipelineKey) -> None:
        """The pipeline is not idle any more."""
        watch = self._watches.pop(key, None)
        if watch is not None and watch.task is not None and not watch.task.done():
            watch.task.cancel()
            self._ended.add(watch.task)
            watch.task.add_done_callback(self._ended.discard)

    def forget(self, key: PipelineKey) -> None:
        """The pipeline is gone, or has nothing to follow."""
        self.leave(key)
        if self._memory.pop(key, None) is not None:
            self._metrics.show_unseen(key, None)

    async def close(self) -> None:
        """Ends all watches."""
        for key in list(self._watches):
            self.leave(key)
        await asyncio.gather(*self._ended, return_exceptions=True)

    def _note_end(self, key: PipelineKey, task: asyncio.Task[None]) -> None:
        """A watch ends by itself only by an error that nobody foresaw; a later look begins anew."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("internal error; please report it", exc_info=error)
            self._metrics.unexpected_errors.inc()
            task.get_loop().call_later(BROKEN_SECONDS, self._wake, key)

    def _known(self, key: PipelineKey, watch: _Watch) -> KnownHeads:
        if watch.found is None:
            return KnownHeads(None)
        seen = {n: h.snapshot_id for n, h in watch.found.items() if isinstance(h, Head)}
        first_seen = self._memory[key].first_seen
        return KnownHeads(seen, frozenset(n for n in seen if first_seen[n][1] != watch.after))

    async def _poll(self, key: PipelineKey, watch: _Watch) -> None:
        memory = self._memory.setdefault(key, _Memory())
        if memory.read_at is not None:
            # A short run must not make the looks more frequent.
            next_at = memory.read_at + watch.poll_seconds
            await self._sleep(max(0.0, next_at - self._clock()))
        failures = 0
        with logs.about(pipeline=str(key)):
            while True:
                memory.read_at = self._clock()
                found = await self._reader.read(key.namespace, watch.tables)
                self._take(key, watch, memory, found)
                blind = not any(isinstance(each, Head) for each in found.values())
                failures = failures + 1 if blind else 0
                await self._sleep(_pace(watch.poll_seconds, failures))

    def _take(
        self, key: PipelineKey, watch: _Watch, memory: _Memory, found: dict[str, Head | Unseen]
    ) -> None:
        before, watch.found = watch.found, found
        kept = {}
        for name, head in found.items():
            if isinstance(head, Head):
                known = memory.first_seen.get(name)
                same = known is not None and known[0] == head
                kept[name] = known if known is not None and same else (head, watch.after)
        memory.first_seen = kept
        reasons = {n: each.reason for n, each in found.items() if isinstance(each, Unseen)}
        if reasons != memory.reasons:
            _tell(memory.reasons, reasons)
            memory.reasons = reasons
        self._metrics.show_unseen(key, len(reasons))
        if before is None or _visible(before) != _visible(found):
            self._wake(key)


def _visible(found: Mapping[str, Head | Unseen]) -> dict[str, Head]:
    return {name: each for name, each in found.items() if isinstance(each, Head)}


def _pace(poll: float, failures: int) -> float:
    if failures == 0:
        return poll
    return max(poll, min(FAILING_SECONDS, poll * 2.0 ** min(failures, 30)))


def _tell(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Logs what has changed: once for each reason, not for each table."""
    told: dict[str, list[str]] = {}
    for name, reason in after.items():
        if before.get(name) != reason:
            told.setdefault(reason, []).append(name)
    for reason, names in told.items():
        _log.warning(
            "the newest snapshot of %s cannot be looked at: %s; runs look instead, less often "
            "the longer nothing changes",
            _named(names),
            reason,
        )
    healed = [name for name in before if name not in after]
    if healed:
        _log.info("the newest snapshot of %s can be looked at", _named(healed))


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
