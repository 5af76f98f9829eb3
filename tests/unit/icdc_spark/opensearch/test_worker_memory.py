"""A task has as many bulk requests under way as its container has memory for, and one at least."""

from pathlib import Path

import pytest

from icdc_spark.opensearch.bulk.worker_memory import (
    LEAST_BYTES,
    MIB,
    count_requests,
    measure_budget,
)

pytestmark = pytest.mark.unit

GIB = 1024 * MIB
EXECUTOR = {"SPARK_EXECUTOR_MEMORY": "4g", "SPARK_EXECUTOR_CORES": "2"}


@pytest.mark.parametrize(
    ("most", "max_mib", "budget_mib", "requests"),
    [
        (2, 8, 435, 2),
        (32, 8, 435, 17),
        (32, 32, 435, 5),
        (32, 100, 435, 1),
        (4, 100, 1040, 4),
        (2, 8, LEAST_BYTES // MIB, 2),
        (2, 100, LEAST_BYTES // MIB, 1),
        (32, 100, None, 32),
    ],
)
def test_requests_are_bounded_by_number_and_by_bytes(
    most: int, max_mib: int, budget_mib: int | None, requests: int
) -> None:
    budget = None if budget_mib is None else budget_mib * MIB
    assert count_requests(most=most, max_bytes=max_mib * MIB, budget=budget) == requests


@pytest.mark.parametrize(
    ("file", "limit", "budget"),
    [
        # As Spark sizes the pod of an executor with 4g: 40 % more than the heap.
        ("memory.max", str(int(4 * GIB * 1.4)), 435 * MIB),
        ("memory/memory.limit_in_bytes", str(8 * GIB), 1664 * MIB),
        # Too little for the workers alone.
        ("memory.max", str(int(4.2 * GIB)), LEAST_BYTES),
        ("memory.max", "max", None),
        ("memory/memory.limit_in_bytes", "9223372036854771712", None),
    ],
)
def test_what_the_container_has_beside_the_heap_is_shared_by_the_workers(
    tmp_path: Path, file: str, limit: str, budget: int | None
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(limit + "\n")
    measured = measure_budget(EXECUTOR, tmp_path)
    assert measured == (None if budget is None else pytest.approx(budget, abs=MIB))


def test_nobody_limits_requests_outside_of_an_executors_pod(tmp_path: Path) -> None:
    assert measure_budget(EXECUTOR, tmp_path) is None
    (tmp_path / "memory.max").write_text(str(GIB))
    assert measure_budget({}, tmp_path) is None
