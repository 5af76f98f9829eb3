"""Blocking calls beside the event loop, each with a time-out, that may hang for ever.

A thread cannot be ended from outside, so what hangs is bounded instead: every lane (one catalog)
has at most one call in its thread. While that one is overdue the lane refuses at once, its place
among the working threads is given to others, and the lane heals when the thread comes back. The
number of overdue threads is bounded over all lanes. Threads are daemons: none keeps the process
from ending. Knows nothing of catalogs.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from icdc_api.errors import SourceUnavailable

THREADS = 8
"""Calls at the same time that are not overdue."""

MAX_OVERDUE = 32
"""Overdue threads, at most; beyond that nothing is begun until one comes back."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _Outcome:
    answer: Any = None
    error: BaseException | None = None


_Begun = asyncio.Future[_Outcome]


class Threads:
    """The threads that all lanes share. For one event loop."""

    def __init__(self, count: int = THREADS, *, max_overdue: int = MAX_OVERDUE) -> None:
        self.places = asyncio.Semaphore(count)
        self.overdue: set[_Begun] = set()
        self._max_overdue = max_overdue

    @property
    def used_up(self) -> bool:
        """Whether so many calls hang that no other may be begun."""
        return len(self.overdue) >= self._max_overdue

    def note_overdue(self, outcome: _Begun) -> None:
        """Counts a thread until it comes back."""
        self.overdue.add(outcome)
        outcome.add_done_callback(self.overdue.discard)


class Lane:
    """Calls one after the other."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._order = asyncio.Lock()
        self._begun: _Begun | None = None
        self._deadline = 0.0

    @property
    def busy(self) -> bool:
        """Whether a thread works, or hangs, in this lane."""
        return self._begun is not None and not self._begun.done()

    async def call(self, work: Callable[[], Answer], seconds: float) -> Answer:
        """What `work` returns or raises; SourceUnavailable if it takes longer than `seconds`.

        The time that it waits for its turn is not counted.
        """
        async with self._order:
            await self._earlier_has_ended()
            async with self._threads.places:
                if self._threads.used_up:
                    raise SourceUnavailable("too many other catalogs do not answer")
                outcome = self._begin(work, seconds)
                await asyncio.wait({outcome}, timeout=seconds)
            if not outcome.done():
                self._threads.note_overdue(outcome)
                raise SourceUnavailable(f"the catalog does not answer within {seconds:g} s")
        found = outcome.result()
        if found.error is not None:
            raise found.error
        answer: Answer = found.answer
        return answer

    async def _earlier_has_ended(self) -> None:
        """Waits for a call that nobody waits for any more; raises if it is overdue."""
        if self._begun is None or self._begun.done():
            return
        left = self._deadline - asyncio.get_running_loop().time()
        await asyncio.wait({self._begun}, timeout=max(0.0, left))
        if not self._begun.done():
            if self._begun not in self._threads.overdue:
                self._threads.note_overdue(self._begun)
            raise SourceUnavailable("the catalog does not answer: an earlier request still waits")

    def _begin(self, work: Callable[[], Any], seconds: float) -> _Begun:
        loop = asyncio.get_running_loop()
        outcome: _Begun = loop.create_future()
        self._begun, self._deadline = outcome, loop.time() + seconds

        def run() -> None:
            try:
                found = _Outcome(work())
            except BaseException as error:  # noqa: BLE001 - raised again by who waits for it
                found = _Outcome(error=error)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(outcome.set_result, found)

        threading.Thread(target=run, name="catalog", daemon=True).start()
        return outcome
