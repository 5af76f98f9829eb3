"""Lets a number of threads in at a time: by turns the one furthest behind, and the longest waiting.

`threading.Semaphore` gives no order: a thread that always has work would take its permit again
before those that wait. By lag alone, a few tables with days to catch up would keep out all others,
which then fall behind as well; by waiting time alone, a table that is hours behind would wait as
long as one that only polls. It must not know what the threads do.

Example, a semaphore of 1, with lags in seconds:

    a enters       inside: a    waiting: -
    b, c, d ask    inside: a    waiting: b (0), c (0), d (900)
    a leaves       inside: d    waiting: b, c       the permit is handed on to the furthest behind
    d leaves       inside: b    waiting: c          this permit is for the longest waiting
    d asks again   inside: b    waiting: c, d (800)
    b is stuck, `release("b")`
                   inside: d    waiting: c          b keeps running, without a permit
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_SECONDS = 5.0
"""A thread that waits checks this often whether it gives up."""


def _assume_no_lag(_name: str) -> float:
    return 0.0


def _never_gives_up() -> bool:
    return False


class FairSemaphore:
    """Admit at most `count` threads at a time, each under a name of its own."""

    def __init__(self, count: int, *, lag: Callable[[str], float] = _assume_no_lag) -> None:
        """`lag` returns how many seconds a waiting thread is behind; it must be quick.

        Without it, all threads are admitted in the order in which they asked.
        """
        self._free = count
        self._lag = lag
        self._lock = threading.Lock()
        # In the order in which they asked.
        self._waiting: dict[str, threading.Event] = {}
        self._inside: set[str] = set()
        self._is_turn_of_longest_waiting = False

    @property
    def waiting(self) -> int:
        """Number of threads that have asked and are not inside yet."""
        return len(self._waiting)

    @property
    def is_free(self) -> bool:
        """True if a thread that asks now would not wait, unless another one is quicker."""
        return self._free > 0

    @contextmanager
    def acquire(
        self, name: str, *, give_up: Callable[[], bool] = _never_gives_up
    ) -> Iterator[bool]:
        """Wait for a permit; release it at the end, unless `release` did so before.

        Yield True; False without a permit, where `give_up` said so meanwhile.
        """
        admitted = self._wait(name, give_up)
        try:
            yield admitted
        finally:
            self.release(name)

    def release(self, name: str) -> None:
        """Hand on the permit of `name`; do nothing if it has none.

        Other threads call it for one that does not come out, such as of a call that never returns.
        """
        with self._lock:
            # Once only: released twice, the permit would be given to two threads.
            if name not in self._inside:
                return
            self._inside.remove(name)
            # The permit is handed on without becoming free, so nobody who asks at this moment can
            # overtake.
            if self._waiting:
                chosen = self._choose()
                self._inside.add(chosen)
                self._waiting.pop(chosen).set()
            else:
                self._free += 1

    def _choose(self) -> str:
        """Return the name of the thread whose turn it is, of those that wait."""
        by_age = self._is_turn_of_longest_waiting
        self._is_turn_of_longest_waiting = not by_age
        # `max` returns the first of equals: where nobody is behind, the longest waiting.
        return next(iter(self._waiting)) if by_age else max(self._waiting, key=self._lag)

    def _wait(self, name: str, give_up: Callable[[], bool]) -> bool:
        with self._lock:
            if self._free > 0:
                self._free -= 1
                self._inside.add(name)
                return True
            admitted = self._waiting[name] = threading.Event()
        # Outside the lock, which `release` needs to admit this thread.
        while not admitted.wait(POLL_SECONDS):
            if give_up():
                with self._lock:
                    # It may have been admitted at this moment.
                    return self._waiting.pop(name, None) is None
        return True
