"""How many tables work at a time, and which of those that wait is the furthest behind."""

import math

import pytest

from icdc_api.spec.spark import Driver
from icdc_api.status.pipeline_status import TableReason, TableStatus
from icdc_spark.process.scheduling.permits import count_permits, measure_lag

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("cores", "memory", "permits"),
    [
        (1, "1g", 8),
        (1, "4g", 8),
        (1, "1024M", 8),
        (4, "1g", 8),
        (4, "4g", 32),
        (2, "1536m", 12),
        (1, "100m", 2),
        (1, "1000k", 2),
        (64, "1t", 512),
    ],
)
def test_cores_and_heap_of_the_driver_bound_the_tables_at_work(
    cores: int, memory: str, permits: int
) -> None:
    assert count_permits(Driver(cores=cores, memory=memory)) == permits


def test_the_driver_that_nobody_configured_has_eight_places() -> None:
    assert count_permits(Driver()) == 8


@pytest.mark.parametrize(
    ("lag", "reason", "seconds"),
    [
        (None, None, math.inf),
        (0, None, 0.0),
        (900, None, 900.0),
        (900, TableReason.SOURCE_UNAVAILABLE, 0.0),
        (None, TableReason.TABLE_NOT_FOUND, 0.0),
    ],
)
def test_a_table_that_fails_counts_as_not_behind_and_an_unknown_one_as_the_furthest(
    lag: int | None, reason: TableReason | None, seconds: float
) -> None:
    status = TableStatus(name="shop.orders", index="orders", lag_seconds=lag, reason=reason)
    assert measure_lag(status) == seconds
