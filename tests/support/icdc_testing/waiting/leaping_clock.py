"""An event loop whose clock leaps: where all that is left to do is to wait, the wait is over.

While a real server works on a request the clock stands still, so that what happens when is the
same however slow the machine is, and hours of back-off take no time. Knows nothing of clusters.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

SILENCE_SECONDS = 120.0
"""By the clock on the wall: a world that is silent for longer will not answer any more."""

Answer = TypeVar("Answer")
Ready = list[tuple[selectors.SelectorKey, int]]


class LeapingClock:
    """The time of one loop, in seconds from its start."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._held = 0
        self._walking = 0
        self._wall = 0.0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the clock still in the block: the world outside is at work."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    @contextmanager
    def walk(self) -> Iterator[None]:
        """Let the clock go with that on the wall in the block: somebody outside has his own
        time."""
        if not self._walking:
            self._wall = time.monotonic()
        self._walking += 1
        try:
            yield
        finally:
            self._walking -= 1

    def pass_time(self, select: Callable[[float | None], Ready], timeout: float | None) -> Ready:
        """Return what is ready; if nothing is, leap to the next timer."""
        if self._walking:
            ready = select(timeout)
            now = time.monotonic()
            self.seconds += now - self._wall
            self._wall = now
            return ready
        if timeout != 0 and (self._held or timeout is None):
            # No timer can be due before the world has answered.
            ready = select(SILENCE_SECONDS)
            assert ready, f"nothing has happened for {SILENCE_SECONDS} s, and nothing ever will"
            return ready
        ready = select(0)
        if not ready:
            self.seconds += timeout
        return ready


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: LeapingClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Ready:
        return self._clock.pass_time(super().select, timeout)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: LeapingClock) -> None:
        self._leaping = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        return self._leaping.seconds


def run(main: Callable[[LeapingClock], Coroutine[Any, Any, Answer]]) -> Answer:
    """Run as `asyncio.run` does, with a clock that leaps."""
    clock = LeapingClock()
    with asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
        return runner.run(main(clock))
