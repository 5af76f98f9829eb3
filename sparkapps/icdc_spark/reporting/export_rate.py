"""Estimates when an export ends, from how fast the present run writes its rows."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from icdc_api.status.pipeline_status import ExportProgress

MAX_LEFT_SECONDS = 365 * 86400
"""An estimate that is further away says nothing, and none is made."""


class ExportRate:
    """How fast one run writes the rows of one export.

    What earlier runs wrote does not count: how long they took is not known.

    Example, an export of 1,000 rows that this run continues at row 400:

        second   rows done   rows per second   end
        0        400         unknown           unknown
        10       600         20                in 20 s
        20       700         15                in 20 s
    """

    def __init__(
        self, *, rows_total: int, rows_done: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`rows_done` of earlier runs; `clock` gives seconds."""
        self._rows_total = rows_total
        self._rows_before = rows_done
        self._clock = clock
        self._started = clock()

    def measure(self, rows_done: int, *, now: datetime) -> ExportProgress:
        """Return the progress in rows, without the chunks; counting and the swap come after it."""
        rate = self._compute(rows_done)
        progress = ExportProgress(rows=rows_done, rows_total=self._rows_total, rows_per_second=rate)
        left = None if rate is None else max(0, self._rows_total - rows_done) / rate
        if left is None or left > MAX_LEFT_SECONDS:
            return progress
        return progress.model_copy(update={"estimated_end": now + timedelta(seconds=left)})

    def _compute(self, rows_done: int) -> int | None:
        """Return the rows that a second takes, at least 1; None before this run has written any."""
        seconds, rows = self._clock() - self._started, rows_done - self._rows_before
        if rows <= 0 or seconds <= 0:
            return None
        return max(1, round(rows / seconds))
