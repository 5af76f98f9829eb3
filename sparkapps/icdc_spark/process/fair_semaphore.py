"""Lets a number of threads in at a time, in the order in which they asked.

`threading.Semaphore` gives no order: a thread that always has work would take its place again
before those that wait. It must know nothing of tables.

Example, a semaphore of 1:

    a enters       inside: a    waiting: -
    b, c ask       inside: a    waiting: b, c
    a leaves       inside: b    waiting: c        the place is handed on, it is never free
    a asks again   inside: b    waiting: c, a     not before c, which asked first
    b is stuck, `release("b")`
                   inside: c    waiting: a        b keeps running, without a place
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class FairSemaphore:
    """Admit at most `count` threads at a time, each under a name of its own."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._inside: set[str] = set()

    @property
    def waiting(self) -> int:
        """Number of threads that have asked and are not inside yet."""
        return len(self._waiting)

    @contextmanager
    def acquire(self, name: str) -> Iterator[None]:
        """Wait for a place; release it at the end, unless `release` did so before."""
        self._wait()
        with self._lock:
            self._inside.add(name)
        try:
            yield
        finally:
            self.release(name)

    def release(self, name: str) -> None:
        """Hand on the place of `name`; do nothing if it has none.

        Other threads call it for one that does not come out, such as of a call that never returns.
        """
        with self._lock:
            # Once only: released twice, the place would be given to two threads.
            if name not in self._inside:
                return
            self._inside.remove(name)
            # The place goes to the first in the queue without becoming free, so nobody who asks
            # at this moment can overtake.
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    def _wait(self) -> None:
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            admitted = threading.Event()
            self._waiting.append(admitted)
        # Outside the lock, which `release` needs to admit this thread.
        admitted.wait()
