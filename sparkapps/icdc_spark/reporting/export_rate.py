"""Estimates when an export ends, from how fast the present run writes its chunks."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from icdc_api.status.pipeline_status import ExportProgress

MAX_LEFT_SECONDS = 365 * 86400
"""An estimate that is further away says nothing, and none is made."""


class ExportRate:
    """How fast one run writes an export.

    What earlier runs wrote does not count: how long they took is not known. The end is estimated by
    chunks, since a filter and deletes may leave few of the rows that the metadata counts.

    Example, an export of 10 chunks and 1,000 rows, half of them deleted, that this run continues at
    chunk 4:

        second   chunks, rows done   rows per second   end
        0        4, 200              unknown           unknown
        10       6, 300              10                in 20 s
        30       8, 400              7                 in 15 s
    """

    def __init__(
        self, before: ExportProgress, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`before` is what is done when the run begins; `clock` gives seconds."""
        self._before = before
        self._clock = clock
        self._started = clock()

    def measure(self, done: ExportProgress, *, now: datetime) -> ExportProgress:
        """Return `done` with the rate and the end; counting and the swap come after that."""
        seconds = self._clock() - self._started
        chunks = done.chunks_done - self._before.chunks_done
        # Before the first chunk of this run is written, nothing is measured that could be divided.
        if chunks <= 0 or seconds <= 0:
            return done
        rows = max(0, done.rows - self._before.rows)
        left = (done.chunks_total - done.chunks_done) * seconds / chunks
        end = now + timedelta(seconds=left) if left <= MAX_LEFT_SECONDS else None
        measured = {"rows_per_second": round(rows / seconds), "estimated_end": end}
        return done.model_copy(update=measured)
