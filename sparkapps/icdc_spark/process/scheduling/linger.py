"""Says how long the tables of a run that has caught up wait for the next commit.

Starting an application costs many seconds of CPU, so a table with a commit a minute is cheaper to
follow by a run that stays for a while. All tables stay or none does: a table that left alone would
not be followed until the others leave too. A run with a table that fails or hangs does not stay,
since only the next one tries that table again.

Example, a run of two tables that stays for 60 s:

    second  0   orders idle, users at its export    orders is polled
    second  9   users idle                          both are polled
    second 50   orders applies a commit             polled for 60 s more
    second 111  nothing since                       both leave; the run ends
"""

import threading
import time
from collections.abc import Callable, Iterable

MAX_ATTEMPTS = 3
"""Attempts at a step, in a row, of a table that was caught up in this run. A fault at one of
hundreds of polls must not end a run; a table that never was caught up is left to the next run."""


class Linger:
    """What the tables of one run know of each other: whether any has had work. Thread-safe."""

    def __init__(
        self,
        seconds: int,
        tables: Iterable[str],
        note_lingering: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """All `tables` count as busy. `seconds` 0: none ever stays. `clock` gives seconds.

        `note_lingering` is called once, when every table has been idle: from then on the run stays
        only for later commits.
        """
        self._seconds = seconds
        self._clock = clock
        # Guards the rest.
        self._lock = threading.Lock()
        self._busy = set(tables)
        self._never_idle = set(self._busy)
        self._note_lingering = note_lingering
        self._idle_since = clock()
        self._is_over = seconds == 0

    def mark_busy(self, table: str) -> None:
        """Record that a step of the table had something to do."""
        with self._lock:
            self._busy.add(table)

    def mark_idle(self, table: str) -> None:
        """Record that a step of the table had nothing to do, or that it is complete."""
        with self._lock:
            if table in self._busy:
                self._busy.discard(table)
                self._idle_since = self._clock()
            was_first = table in self._never_idle
            self._never_idle.discard(table)
            begins = was_first and not self._never_idle and not self._is_over
        if begins:
            # Without the lock: it writes a file and may ask the API server.
            self._note_lingering()

    def tries_again(self, table: str, failures: int) -> bool:
        """Return whether this run tries the table again after its n-th passing fault in a row.

        Otherwise that is left to the next run.
        """
        with self._lock:
            is_followed = table not in self._never_idle and not self._is_over
        return is_followed and failures < MAX_ATTEMPTS

    def end(self) -> None:
        """Let every idle table leave from now on: one has failed."""
        with self._lock:
            self._is_over = True

    def must_stay(self) -> bool:
        """Return whether an idle table is to be polled again."""
        with self._lock:
            if not self._is_over and not self._busy:
                # For good: else a commit at this moment would keep those that have not asked yet.
                self._is_over = self._clock() - self._idle_since >= self._seconds
            return not self._is_over
