"""Lets many threads work, but only some at the same time, in the order in which they asked.

A semaphore would let a thread that always has work take its turn again before those that wait.
Knows nothing of tables.
"""

import threading
from collections import deque
from types import TracebackType


class Turns:
    """A context manager, for any number of threads: at most `count` are inside."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        """Threads that have asked and are not inside yet."""
        return len(self._waiting)

    def __enter__(self) -> None:
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1
