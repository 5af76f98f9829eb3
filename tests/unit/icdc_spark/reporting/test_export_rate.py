"""When an export ends, from how fast the present run writes."""

from datetime import UTC, datetime, timedelta

import pytest

from icdc_spark.reporting.export_rate import MAX_LEFT_SECONDS, ExportRate
from icdc_testing.waiting.manual_clock import ManualClock

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "rows_done", "rate", "left"),
    [
        (0, 400, None, None),
        (10, 400, None, None),
        (0, 600, None, None),
        (10, 600, 20, 20),
        (20, 700, 15, 20),
        (30, 1000, 20, 0),
        # The metadata may say fewer rows than there are.
        (30, 1300, 30, 0),
        (1000, 401, 1, 599),
    ],
)
def test_the_rate_is_that_of_the_present_run(
    seconds: float, rows_done: int, rate: int | None, left: float | None
) -> None:
    clock = ManualClock()
    measured = ExportRate(rows_total=1000, rows_done=400, clock=clock)
    clock.seconds += seconds
    progress = measured.measure(rows_done, now=NOW)
    assert (progress.rows, progress.rows_total) == (rows_done, 1000)
    assert progress.rows_per_second == rate
    end = None if left is None else NOW + timedelta(seconds=left)
    assert progress.estimated_end == end


def test_an_end_that_is_further_away_than_a_year_is_not_estimated() -> None:
    clock = ManualClock()
    measured = ExportRate(rows_total=2 * MAX_LEFT_SECONDS, rows_done=0, clock=clock)
    clock.seconds += 10
    progress = measured.measure(10, now=NOW)
    assert (progress.rows_per_second, progress.estimated_end) == (1, None)
