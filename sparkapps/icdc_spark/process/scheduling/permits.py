"""Choose how many tables of a run work at the same time, and which waiting one comes first.

    driver                    permits
    1 core, 1g (default)      8
    1 core, 4g                8: more tables at a time would only share the core
    4 cores, 1g               8: planning holds lists of files
    4 cores, 4g               32

It must know neither threads nor Spark.
"""

import math

from icdc_api.spec.spark import Driver, parse_memory
from icdc_api.status.pipeline_status import TableStatus

PERMITS_PER_CORE = 8
"""Tables for each core of the driver: a step mostly waits, for catalog, executors and index."""
HEAP_PER_PERMIT = 128 * 1024 * 1024
"""Bytes of heap for each permit: its table's plan, with what Spark keeps of its queries."""
QUESTION_PERMITS = 2
"""Tables that answer a person at the same time, beside the others: a question waits for no export
of another table, which may take hours, and takes little from them."""
MIN_PERMITS = 2
"""Even a tiny driver: one table with days to export must not be all that is done."""


def count_permits(driver: Driver) -> int:
    """Return how many tables may work at the same time on such a driver."""
    by_heap = parse_memory(driver.memory) // HEAP_PER_PERMIT
    return max(MIN_PERMITS, min(driver.cores * PERMITS_PER_CORE, by_heap))


def measure_lag(status: TableStatus) -> float:
    """Return how many seconds a waiting table is behind, as of its last report.

    A table that was not observed yet counts as the furthest behind: nobody knows better. One that
    fails counts as not behind: what it waits for is no permit, and it must not keep others out.
    """
    if status.reason is not None:
        return 0.0
    return math.inf if status.lag_seconds is None else float(status.lag_seconds)
