"""How many tables work at a time, and which of those that wait is the furthest behind."""

import math

import pytest

from icdc_api.spec.spark import Driver
from icdc_api.status.pipeline_status import TableReason, TableStatus
from icdc_spark.iceberg.scan.ordered_scan import WINDOW_FILES
from icdc_spark.process.scheduling.permits import HEAP_PER_PERMIT, count_permits, measure_lag
from icdc_spark.readers.parallelism import MOST_FILES
from icdc_spark.replication.batches import BATCH_FILES

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


def test_what_a_table_plans_at_a_time_is_a_part_of_the_heap_of_its_permit() -> None:
    """Files and deletes as in docs/architecture.md: 0.4 KB of heap for a file, 0.6 for a delete."""
    of_export = 400 * (WINDOW_FILES + MOST_FILES) + 600 * WINDOW_FILES
    of_batch = 400 * BATCH_FILES
    assert max(of_export, of_batch) < HEAP_PER_PERMIT / 4


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
