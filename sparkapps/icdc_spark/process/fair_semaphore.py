"""Lets many threads work, but only some at the same time, in the order in which they asked.

A semaphore would let a thread that always has work take its turn again before those that wait.
Knows nothing of tables.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """For any number of threads, each under a name of its own: at most `count` are inside."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._inside: set[str] = set()

    @property
    def waiting(self) -> int:
        """Threads that have asked and are not inside yet."""
        return len(self._waiting)

    @contextmanager
    def take(self, name: str) -> Iterator[None]:
        """Waits for a turn, and gives it back at the end unless it was given away."""
        self._wait()
        with self._lock:
            self._inside.add(name)
        try:
            yield
        finally:
            self.give_away(name)

    def give_away(self, name: str) -> None:
        """Lets somebody else in for a thread that is inside and does not come out, such as for a
        call that never returns. Nothing happens where it is not inside."""
        with self._lock:
            if name not in self._inside:
                return
            self._inside.remove(name)
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    def _wait(self) -> None:
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()
