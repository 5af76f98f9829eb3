"""How many requests a task may have under way: halved when the server is overloaded, then regrown.

It must not know why a server pushes back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

GROWTH = 0.1
"""Added for each good answer, so that a halved limit is back after about ten."""


class Gate:
    """Admits up to `most` requests at a time, at least one."""

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._limit = float(most)
        self._inside = 0
        self._changed = Condition()

    @property
    def limit(self) -> int:
        """How many are admitted now."""
        return max(1, int(self._limit))

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Waits for a place and holds it."""
        with self._changed:
            self._changed.wait_for(lambda: self._inside < self.limit)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def overloaded(self) -> None:
        """The server pushed back."""
        with self._changed:
            self._limit = max(1.0, self._limit / 2)

    def went_well(self) -> None:
        """The server took a request whole."""
        with self._changed:
            self._limit = min(self._most, self._limit + GROWTH)
            self._changed.notify_all()
