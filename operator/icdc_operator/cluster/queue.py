"""Queue the keys of pipelines by the time at which each is due; one worker at a time for each key.

Level-based: a key says that something may have changed, never what. It must know neither
Kubernetes nor what a worker does with a key.

    add(a), add(a)                     a is due once
    add(a, after=60), add(a)           a is due now: the earlier time wins
    take() -> a, add(a), finish(a)     a is due again: the change may be newer than the work
    retry(a) for the third time        a is due in 0.4 s; add(a) meanwhile: not before that
    close()                            take() gives no key; keys in work are still given back
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

_SLACK = 64
"""Outdated heap entries that are tolerated before the heap is built anew, beside one for each
waiting key: so a rebuild comes once in many `add`s."""


class PipelineKey(NamedTuple):
    """Namespace and name of one pipeline."""

    namespace: str
    """Its namespace."""
    name: str
    """Its name in that namespace."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class RetryBackoff:
    """The wait after the n-th failure of a key in a row: `first * 2 ** (n - 1)`, bounded.

    failures    1      2      3      4    …    11     12
    seconds     0.1    0.2    0.4    0.8  …    102.4  120
    """

    first_seconds: float = 0.1
    """After the first failure."""
    cap_seconds: float = 120.0
    """Longest wait."""
    event_seconds: float = 5.0
    """Longest wait of a key that is added while it waits: the change may be what heals it. Not 0,
    because a failing reconcile that adds its own key would spin."""

    def compute_seconds(self, failures: int) -> float:
        """Return the wait after that many failures in a row, at least one."""
        # The exponent is bounded before the power is computed: a float overflows at 2 ** 1024.
        return float(min(self.cap_seconds, self.first_seconds * 2 ** min(failures - 1, 32)))


@dataclass
class _Failing:
    """A key whose last reconcile failed."""

    count: int
    """Failures in a row."""
    not_before: float
    """Time before which `add` does not make the key due."""


class WorkQueue:
    """Keys by the time at which each is due; the key that has been due longest comes first.

    `clock` gives monotonic seconds. For one event loop: nothing here is atomic between threads.
    """

    def __init__(self, clock: Callable[[], float], backoff: RetryBackoff | None = None) -> None:
        self._clock = clock
        self._backoff = backoff or RetryBackoff()
        # The truth: when each waiting key is due.
        self._due: dict[PipelineKey, float] = {}
        # An index on `_due`. Entries whose time is not the one in `_due` are outdated: to remove
        # one from the middle of a heap costs more than to skip it.
        self._heap: list[tuple[float, int, PipelineKey]] = []
        # Breaks ties in the order of arrival: equal times would otherwise be sorted by name.
        self._order = itertools.count()
        self._active: set[PipelineKey] = set()
        self._failing: dict[PipelineKey, _Failing] = {}
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def add(self, key: PipelineKey, *, after: float = 0.0) -> None:
        """Make `key` due in `after` seconds, or earlier if it was due earlier anyway."""
        if self._closed:
            return
        due = self._clock() + max(0.0, after)
        failing = self._failing.get(key)
        if failing is not None:
            due = max(due, failing.not_before)
        earlier = self._due.get(key)
        if earlier is not None and earlier <= due:
            return
        self._due[key] = due
        # An active key enters the heap when it is given back: two workers must never have it.
        if key not in self._active:
            self._push(key, due)
            self._changed.set()

    def take(self) -> PipelineKey | None:
        """Return the key that has been due longest, or None; `finish` or `retry` gives it back."""
        if self._closed or not self._is_due():
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._active.add(key)
        self._idle.clear()
        return key

    async def get(self) -> PipelineKey | None:
        """Wait for a key and return it as `take` does; None once the queue is closed."""
        while not self._closed:
            key = self.take()
            if key is not None:
                return key
            # There is no await between `take` and `wait` but this, so no `add` can be missed.
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._compute_next_seconds()):
                    await self._changed.wait()
        return None

    def finish(self, key: PipelineKey, *, again_after: float | None = None) -> None:
        """Give back a key after success; `again_after` seconds make it due again."""
        self._failing.pop(key, None)
        self._give_back(key)
        if again_after is not None:
            self.add(key, after=again_after)

    def retry(self, key: PipelineKey, *, at_least: float = 0.0) -> float:
        """Give back a key after a failure; return the seconds until it is due again.

        `at_least` is a wait that no `add` shortens, such as a server's Retry-After.
        """
        before = self._failing.get(key)
        count = 1 if before is None else before.count + 1
        delay = max(at_least, self._backoff.compute_seconds(count))
        # Two waits: `delay` if nothing happens, `floor` if an event comes that may heal it.
        floor = max(at_least, min(delay, self._backoff.event_seconds))
        self._failing[key] = _Failing(count, self._clock() + floor)
        added = self._due.pop(key, None)
        self._give_back(key)
        # A change that came during the work waits as well, but not for the whole backoff. Popped
        # above, or its earlier time would win against the wait that begins now.
        wait = delay if added is None else floor
        self.add(key, after=wait)
        return wait

    def close(self) -> None:
        """Hand out no more keys. Active keys are still given back."""
        self._closed = True
        self._due.clear()
        self._heap.clear()
        self._changed.set()

    async def wait_idle(self) -> None:
        """Wait until no key is active."""
        await self._idle.wait()

    @property
    def depth(self) -> int:
        """Return how many keys are due and wait for a worker."""
        now = self._clock()
        return sum(1 for key, due in self._due.items() if due <= now and key not in self._active)

    @property
    def active(self) -> int:
        """Return how many keys are with a worker."""
        return len(self._active)

    @property
    def oldest_seconds(self) -> float:
        """Return how long the key that has been due longest waits for a worker; 0 for none."""
        self._drop_outdated()
        return max(0.0, self._clock() - self._heap[0][0]) if self._heap else 0.0

    def _give_back(self, key: PipelineKey) -> None:
        self._active.remove(key)
        if not self._active:
            self._idle.set()
        due = self._due.get(key)
        if due is not None:
            self._push(key, due)
        self._changed.set()

    def _push(self, key: PipelineKey, due: float) -> None:
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            # Outdated entries leave when their time comes, which may be an hour away.
            self._heap = [(at, next(self._order), other) for other, at in self._sort_waiting()]
        heapq.heappush(self._heap, (due, next(self._order), key))

    def _sort_waiting(self) -> list[tuple[PipelineKey, float]]:
        waiting = [(key, due) for key, due in self._due.items() if key not in self._active]
        return sorted(waiting, key=lambda entry: entry[1])

    def _is_due(self) -> bool:
        self._drop_outdated()
        return bool(self._heap) and self._heap[0][0] <= self._clock()

    def _compute_next_seconds(self) -> float | None:
        """Return the seconds until a key is due; None if only `add` can make one due."""
        self._drop_outdated()
        return max(0.0, self._heap[0][0] - self._clock()) if self._heap else None

    def _drop_outdated(self) -> None:
        """Remove entries at the top whose key was taken, is active, or became due earlier."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) == due and key not in self._active:
                return
            heapq.heappop(self._heap)
