"""Poll the current snapshots of idle pipelines, and request a reconcile when one changes.

One task for each idle pipeline, at the `pollInterval` of its spec. A reconcile never waits for a
catalog: it takes the heads that were read last. What was read before a run says nothing after it,
so each run begins a new watch. All memory is a hint: a restarted operator reads once and knows
the same.

    run 41 ends, head 7      follow(after=41): no heads yet; poll; heads {orders: 7} -> reconcile
    poll: head 7             no change, no reconcile
    commit, poll: head 8     changed -> reconcile -> a run 42 is planned -> leave()
    run 42 ends              follow(after=42): head 8 was first seen before it, so it is old
"""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from icdc_api.spec.pipeline import PipelineSpec
from icdc_operator.cluster import logs
from icdc_operator.cluster.heads import table_heads
from icdc_operator.cluster.heads.table_heads import Head, TableBranch, Unseen
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey

FAILING_SECONDS = 300.0
"""Longest wait between two polls of a pipeline whose tables all fail; or its pollInterval, if that
is longer."""

BROKEN_SECONDS = 60.0
"""Wait until a reconcile starts a watch anew that ended by an unforeseen error."""

MAX_NAMED = 3
"""Tables that a log line names."""

_log = logging.getLogger(__name__)


class TableReader(Protocol):
    """Reads heads; never raises for what a catalog does."""

    async def read(self, namespace: str, tables: Sequence[TableBranch]) -> dict[str, Head | Unseen]:
        """Return the current snapshot of each table by name, or why it could not be read."""
        ...


@dataclass(frozen=True)
class KnownHeads:
    """The heads of a pipeline as far as they were read."""

    heads: Mapping[str, str | None] | None
    """Snapshot id by table; None before the first poll has ended. See `Observed.heads`."""
    old: Set[str] = frozenset()
    """Tables whose head was first seen before the last run. See `Observed.old_heads`."""


@dataclass
class _Watch:
    """One idle pipeline since its last run."""

    after: int
    """Epoch of the last run."""
    tables: tuple[TableBranch, ...]
    """What is polled, in the order of the spec."""
    poll_seconds: float
    """Seconds from one poll to the next, as the spec says."""
    results: dict[str, Head | Unseen] | None = None
    """Of the last poll; None before the first has ended."""
    task: asyncio.Task[None] | None = None
    """Polls until it is cancelled; None before it is started."""


@dataclass
class _PollMemory:
    """State of a pipeline that outlasts its runs."""

    read_at: float | None = None
    """When its heads were polled last, by the clock of `HeadWatch`."""
    first_seen: dict[str, tuple[Head, int]] = field(default_factory=dict)
    """Each head, and the epoch of the last run before it was first seen."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why heads cannot be read, by table, as it was last logged."""


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
        self._memory: dict[PipelineKey, _PollMemory] = {}
        self._ended: set[asyncio.Task[None]] = set()

    def follow(self, key: PipelineKey, spec: PipelineSpec, *, after: int) -> KnownHeads:
        """Return the heads of an idle pipeline as they are known now, and poll them from now on.

        `after` is the epoch of its last run. A changed run, spec or interval begins a new watch.
        """
        tables = table_heads.list_branches(spec)
        poll = float(spec.changelog.poll_interval_seconds)
        watch = self._watches.get(key)
        same = watch is not None and (watch.after, watch.tables, watch.poll_seconds) == (
            after,
            tables,
            poll,
        )
        # A task that has ended met an unforeseen error, see `_note_end`.
        if watch is None or not same or (watch.task is not None and watch.task.done()):
            self.leave(key)
            watch = self._watches[key] = _Watch(after, tables, poll)
            watch.task = asyncio.create_task(self._poll(key, watch), name=f"heads-{key}")
            watch.task.add_done_callback(functools.partial(self._note_end, key))
        return self._build_heads(key, watch)

    def leave(self, key: PipelineKey) -> None:
        """Stop polling a pipeline that is not idle any more; `close` waits for its task."""
        watch = self._watches.pop(key, None)
        if watch is not None and watch.task is not None and not watch.task.done():
            watch.task.cancel()
            self._ended.add(watch.task)
            watch.task.add_done_callback(self._ended.discard)

    def forget(self, key: PipelineKey) -> None:
        """Drop all memory of a pipeline that is deleted or has no heads to poll."""
        self.leave(key)
        if self._memory.pop(key, None) is not None:
            self._metrics.show_unseen(key, None)

    async def close(self) -> None:
        """Stop all watches and wait for their tasks."""
        for key in list(self._watches):
            self.leave(key)
        await asyncio.gather(*self._ended, return_exceptions=True)

    def _note_end(self, key: PipelineKey, task: asyncio.Task[None]) -> None:
        """Log the unforeseen error that ended a watch, and request a reconcile that starts anew."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("internal error; please report it", exc_info=error)
            self._metrics.unexpected_errors.inc()
            # Not at once: an error that stays would start tasks and fill the log without end.
            task.get_loop().call_later(BROKEN_SECONDS, self._wake, key)

    def _build_heads(self, key: PipelineKey, watch: _Watch) -> KnownHeads:
        if watch.results is None:
            return KnownHeads(None)
        seen = {n: h.snapshot_id for n, h in watch.results.items() if isinstance(h, Head)}
        # A head that was first seen before the last run began is old: that run had its chance.
        first_seen = self._memory[key].first_seen
        return KnownHeads(seen, frozenset(n for n in seen if first_seen[n][1] != watch.after))

    async def _poll(self, key: PipelineKey, watch: _Watch) -> None:
        memory = self._memory.setdefault(key, _PollMemory())
        if memory.read_at is not None:
            # Short runs must not make polls more frequent than the spec says.
            next_at = memory.read_at + watch.poll_seconds
            await self._sleep(max(0.0, next_at - self._clock()))
        failures = 0
        with logs.label_lines(pipeline=str(key)):
            while True:
                memory.read_at = self._clock()
                results = await self._reader.read(key.namespace, watch.tables)
                self._take(key, watch, memory, results)
                # Backoff only where nothing at all can be read: one broken table must not delay
                # the news about the others.
                blind = not any(isinstance(result, Head) for result in results.values())
                failures = failures + 1 if blind else 0
                await self._sleep(_compute_poll_wait(watch.poll_seconds, failures))

    def _take(
        self,
        key: PipelineKey,
        watch: _Watch,
        memory: _PollMemory,
        results: dict[str, Head | Unseen],
    ) -> None:
        before, watch.results = watch.results, results
        first_seen = {}
        for name, head in results.items():
            if isinstance(head, Head):
                earlier = memory.first_seen.get(name)
                same = earlier is not None and earlier[0] == head
                first_seen[name] = earlier if earlier is not None and same else (head, watch.after)
        memory.first_seen = first_seen
        reasons = {n: result.reason for n, result in results.items() if isinstance(result, Unseen)}
        if reasons != memory.reasons:
            _log_changes(memory.reasons, reasons)
            memory.reasons = reasons
        self._metrics.show_unseen(key, len(reasons))
        # The first result is news too: until then the reconcile knew no heads at all.
        if before is None or _select_visible(before) != _select_visible(results):
            self._wake(key)


def _select_visible(results: Mapping[str, Head | Unseen]) -> dict[str, Head]:
    return {name: result for name, result in results.items() if isinstance(result, Head)}


def _compute_poll_wait(poll: float, failures: int) -> float:
    if failures == 0:
        return poll
    # The exponent is bounded because a float overflows at 2 ** 1024, and failures go on for days.
    return max(poll, min(FAILING_SECONDS, poll * 2.0 ** min(failures, 30)))


def _log_changes(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Log new reasons once each, not once per table, and tables that can be read again."""
    tables: dict[str, list[str]] = {}
    for name, reason in after.items():
        if before.get(name) != reason:
            tables.setdefault(reason, []).append(name)
    for reason, names in tables.items():
        _log.warning(
            "the newest snapshot of %s cannot be read: %s; runs poll it instead, less often "
            "while nothing changes",
            _name_some(names),
            reason,
        )
    healed = [name for name in before if name not in after]
    if healed:
        _log.info("the newest snapshot of %s can be read again", _name_some(healed))


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
