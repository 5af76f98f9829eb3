"""Since when an index is behind, by the times of two commits."""

from datetime import UTC, datetime, timedelta

import pytest

from icdc_spark.replication.progress import find_lag_start

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LONG_AGO = datetime.fromtimestamp(0, UTC)


@pytest.mark.parametrize(
    ("oldest", "applied", "expected"),
    [
        pytest.param(NOW - HOUR, NOW - 2 * HOUR, NOW - HOUR, id="one after the other"),
        pytest.param(NOW - HOUR, NOW - HOUR, NOW - HOUR, id="within a millisecond"),
        pytest.param(NOW - HOUR, None, NOW - HOUR, id="the applied snapshot has expired"),
        pytest.param(NOW + HOUR, NOW - HOUR, NOW, id="dated in the future"),
        pytest.param(LONG_AGO, NOW - HOUR, None, id="dated 1970"),
        pytest.param(NOW - 2 * HOUR, NOW - HOUR, None, id="rolled back"),
    ],
)
def test_an_index_is_behind_since_the_oldest_commit_that_is_not_applied(
    oldest: datetime, applied: datetime | None, expected: datetime | None
) -> None:
    assert find_lag_start(oldest, applied, NOW) == expected
