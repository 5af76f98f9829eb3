"""Bounds the requests that a task has under way: halved on overload, regrown by good answers.

It must not know why a server pushes back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

GROWTH = 0.1
"""Added for each good answer, so that a halved limit is back after about ten."""


class ConcurrencyLimit:
    """Admits up to `most` requests at a time, and never fewer than one.

    Additive increase, multiplicative decrease, as in TCP. Example with `most` = 8: a 429 halves
    the limit to 4, another one to 2; after ten good answers it is 3, after sixty 8 again.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        # A fraction, because a good answer adds a tenth of a request.
        self._limit = float(most)
        self._under_way = 0
        self._changed = Condition()

    @property
    def limit(self) -> int:
        """The number of requests that are admitted at a time now."""
        return max(1, int(self._limit))

    @contextmanager
    def hold_slot(self) -> Iterator[None]:
        """Wait for a slot and hold it for one request."""
        with self._changed:
            # Re-read at each wake-up: the limit may have been halved while this thread waited.
            self._changed.wait_for(lambda: self._under_way < self.limit)
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def halve(self) -> None:
        """Admit half as many requests: the server pushed back. Those under way are not ended."""
        with self._changed:
            # Nobody is woken: fewer are admitted than before. One at least, or no answer would ever
            # come by which the limit could grow again.
            self._limit = max(1.0, self._limit / 2)

    def grow(self) -> None:
        """Admit a little more: the server took a request whole."""
        with self._changed:
            self._limit = min(self._most, self._limit + GROWTH)
            self._changed.notify_all()
