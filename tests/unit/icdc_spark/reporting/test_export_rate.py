"""When an export ends, from how fast the present run writes."""

from datetime import UTC, datetime, timedelta

import pytest

from icdc_api.status.pipeline_status import ExportProgress
from icdc_spark.reporting.export_rate import MAX_LEFT_SECONDS, ExportRate
from icdc_testing.waiting.manual_clock import ManualClock

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_progress(chunks: int, rows: int) -> ExportProgress:
    """Return an export of 10 chunks and 1,000 rows by its metadata."""
    return ExportProgress(chunks_total=10, chunks_done=chunks, rows=rows, rows_total=1000)


@pytest.mark.parametrize(
    ("seconds", "chunks", "rows", "rate", "left"),
    [
        (0, 4, 200, None, None),
        (10, 4, 200, None, None),
        (0, 6, 300, None, None),
        (10, 6, 300, 10, 20),
        (30, 8, 400, 7, 15),
        (30, 10, 500, 10, 0),
        # No row of the chunks has a document.
        (30, 8, 200, 0, 15),
        # A new export was begun in place of the one before.
        (30, 2, 10, None, None),
    ],
)
def test_the_rate_is_that_of_the_present_run(
    seconds: float, chunks: int, rows: int, rate: int | None, left: float | None
) -> None:
    clock = ManualClock(100)
    measured = ExportRate(make_progress(4, 200), clock=clock)
    clock.seconds += seconds
    progress = measured.measure(make_progress(chunks, rows), now=NOW)
    assert (progress.chunks_done, progress.rows, progress.rows_total) == (chunks, rows, 1000)
    end = None if left is None else NOW + timedelta(seconds=left)
    assert (progress.rows_per_second, progress.estimated_end) == (rate, end)


def test_an_end_that_is_further_away_than_a_year_is_not_estimated() -> None:
    clock = ManualClock()
    measured = ExportRate(make_progress(0, 0), clock=clock)
    clock.seconds += MAX_LEFT_SECONDS
    progress = measured.measure(make_progress(1, MAX_LEFT_SECONDS), now=NOW)
    assert (progress.rows_per_second, progress.estimated_end) == (1, None)
