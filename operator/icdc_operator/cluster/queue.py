"""Which pipeline is looked at next: keys that are due, each worked on by one worker at a time.

Level-based like the rest: a key says that something may have changed, never what. Keys that are
added while they wait are one key; a key that is added while it is worked on is worked on again
afterwards. Knows neither Kubernetes nor what a key's work is.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

_SLACK = 64
"""Outdated entries of the heap that are never worth the time to remove them."""


class PipelineKey(NamedTuple):
    """One pipeline."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class RetryBackoff:
    """How long a key waits after its n-th failure in a row: `first * 2 ** (n - 1)`, bounded."""

    first_seconds: float = 0.1
    cap_seconds: float = 120.0
    event_seconds: float = 5.0
    """A key that is added while it waits after a failure is due after at most so long: what was
    added may be what mends it, but a failure that adds its own key must not spin."""

    def seconds(self, failures: int) -> float:
        """The wait after that many failures in a row, at least one."""
        # The exponent is bounded before the power is taken: a float overflows at 2 ** 1024.
        return float(min(self.cap_seconds, self.first_seconds * 2 ** min(failures - 1, 32)))


@dataclass
class _Failing:
    """A key whose last work failed."""

    count: int
    not_before: float
    """Time before which no addition makes the key due."""


class WorkQueue:
    """Keys with the time at which each is due; the key that has been due longest comes first.

    `clock` gives seconds that never go back, such as `time.monotonic`. For one event loop.
    """

    def __init__(self, clock: Callable[[], float], backoff: RetryBackoff | None = None) -> None:
        self._clock = clock
        self._backoff = backoff or RetryBackoff()
        self._due: dict[PipelineKey, float] = {}
        self._heap: list[tuple[float, int, PipelineKey]] = []
        self._order = itertools.count()
        self._active: set[PipelineKey] = set()
        self._failing: dict[PipelineKey, _Failing] = {}
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def add(self, key: PipelineKey, *, after: float = 0.0) -> None:
        """Makes `key` due in `after` seconds, or earlier where it was due earlier anyway."""
        if self._closed:
            return
        due = self._clock() + max(0.0, after)
        failing = self._failing.get(key)
        if failing is not None:
            due = max(due, failing.not_before)
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        if key not in self._active:
            self._push(key, due)
            self._changed.set()

    def take(self) -> PipelineKey | None:
        """The key that has been due longest, now the caller's until `done` or `failed`; or None."""
        if self._closed or not self._is_due():
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._active.add(key)
        self._idle.clear()
        return key

    async def get(self) -> PipelineKey | None:
        """As `take`, but waits for a key; None once the queue is closed."""
        while not self._closed:
            key = self.take()
            if key is not None:
                return key
            # Nothing awaits between here and `wait`, so no addition is missed.
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._next_seconds()):
                    await self._changed.wait()
        return None

    def finish(self, key: PipelineKey, *, again_after: float | None = None) -> None:
        """Gives back a key whose work went well; `again_after` makes it due again."""
        self._failing.pop(key, None)
        self._give_back(key)
        if again_after is not None:
            self.add(key, after=again_after)

    def retry(self, key: PipelineKey, *, at_least: float = 0.0) -> float:
        """Gives back a key whose work failed; seconds until it is tried again.

        `at_least` seconds are waited whatever is added, such as a server asks for.
        """
        before = self._failing.get(key)
        count = 1 if before is None else before.count + 1
        delay = max(at_least, self._backoff.seconds(count))
        floor = max(at_least, min(delay, self._backoff.event_seconds))
        self._failing[key] = _Failing(count, self._clock() + floor)
        added = self._due.pop(key, None)
        self._give_back(key)
        # What was added meanwhile waits as well, but not for the whole backoff.
        wait = delay if added is None else floor
        self.add(key, after=wait)
        return wait

    def close(self) -> None:
        """Hands out no key any more. Keys that are worked on are still given back."""
        self._closed = True
        self._due.clear()
        self._heap.clear()
        self._changed.set()

    async def wait_idle(self) -> None:
        """Returns once no key is worked on."""
        await self._idle.wait()

    @property
    def depth(self) -> int:
        """Keys that are due and wait for a worker."""
        now = self._clock()
        return sum(1 for key, due in self._due.items() if due <= now and key not in self._active)

    @property
    def active(self) -> int:
        """Keys that are worked on."""
        return len(self._active)

    @property
    def oldest_seconds(self) -> float:
        """For how long the key that has been due longest waits for a worker; 0 without one."""
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
            # Outdated entries go when their time comes, which may be an hour away.
            self._heap = [(at, next(self._order), each) for each, at in self._sorted_waiting()]
        heapq.heappush(self._heap, (due, next(self._order), key))

    def _sorted_waiting(self) -> list[tuple[PipelineKey, float]]:
        waiting = [(key, due) for key, due in self._due.items() if key not in self._active]
        return sorted(waiting, key=lambda each: each[1])

    def _is_due(self) -> bool:
        self._drop_outdated()
        return bool(self._heap) and self._heap[0][0] <= self._clock()

    def _next_seconds(self) -> float | None:
        """Seconds until a key is due; None when only an addition can matter."""
        self._drop_outdated()
        return max(0.0, self._heap[0][0] - self._clock()) if self._heap else None

    def _drop_outdated(self) -> None:
        """Removes entries of keys that became due earlier, were taken or are worked on."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) == due and key not in self._active:
                return
            heapq.heappop(self._heap)
