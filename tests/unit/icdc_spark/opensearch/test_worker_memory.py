"""A task has as many bulk requests under way as its container has memory for, and one at least."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_api.job.resources import ResourceKind
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.worker_memory import (
    LEAST_BYTES,
    MIB,
    RequestBudget,
    compute_cost,
    compute_limit,
    measure_memory,
    measure_worker,
)

pytestmark = pytest.mark.unit

GIB = 1024 * MIB
EXECUTOR = {"SPARK_EXECUTOR_MEMORY": "4g", "SPARK_EXECUTOR_CORES": "2"}


@pytest.mark.parametrize(
    ("most", "max_mib", "memory_mib", "requests"),
    [
        (2, 8, 243, 2),
        (32, 8, 243, 9),
        (32, 32, 243, 2),
        (32, 60, 243, 1),
        (4, 100, 1040, 4),
        (2, 8, LEAST_BYTES // MIB, 2),
        (2, 100, LEAST_BYTES // MIB, 1),
        (32, 100, None, 32),
    ],
)
def test_requests_are_bounded_by_number_and_by_bytes(
    most: int, max_mib: int, memory_mib: int | None, requests: int
) -> None:
    memory = None if memory_mib is None else memory_mib * MIB
    budget = RequestBudget(compute_limit(most, max_mib * MIB, memory))
    assert count_begun(budget, max_mib * MIB, most) == requests


def count_begun(budget: RequestBudget, size: int, most: int) -> int:
    """Return how many of `most` requests begin before one has to end."""
    for begun in range(most):
        if not budget.has_room(size):
            return begun
        budget.take(size)
    return most


@given(
    st.integers(1, 32),
    st.integers(MIB, 100 * MIB),
    st.none() | st.integers(LEAST_BYTES, 1 << 34),
    st.lists(st.tuples(st.integers(1, 300 * MIB), st.integers(0, 31)), max_size=50),
)
def test_whatever_the_size_of_rows_their_requests_stay_within_the_budget(
    most: int, max_bytes: int, memory: int | None, requests: list[tuple[int, int]]
) -> None:
    """Requests that are larger than `max_bytes`, because one row is, are begun alone at worst."""
    budget = RequestBudget(compute_limit(most, max_bytes, memory))
    under_way: list[int] = []
    for size, ends in requests:
        while not budget.has_room(size):
            budget.give_back(under_way.pop(ends % len(under_way)))
        budget.take(size)
        under_way.append(size)
        assert budget.used == sum(map(compute_cost, under_way))
        assert len(under_way) == 1 or budget.used <= budget.limit
        assert budget.peak >= budget.used
    assert budget.limit <= most * compute_cost(max_bytes)


@pytest.mark.parametrize(
    ("file", "limit", "memory"),
    [
        # As Spark sizes the pod of an executor with 4g: 40 % more than the heap.
        ("memory.max", str(int(4 * GIB * 1.4)), 243 * MIB),
        ("memory/memory.limit_in_bytes", str(8 * GIB), 1472 * MIB),
        # Too little for the workers alone.
        ("memory.max", str(int(4.2 * GIB)), LEAST_BYTES),
        ("memory.max", "max", None),
        ("memory/memory.limit_in_bytes", "9223372036854771712", None),
    ],
)
def test_what_the_container_has_beside_the_heap_is_shared_by_the_workers(
    tmp_path: Path, file: str, limit: str, memory: int | None
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(limit + "\n")
    measured = measure_memory(EXECUTOR, tmp_path)
    assert measured == (None if memory is None else pytest.approx(memory, abs=MIB))


def test_a_worker_shows_its_peak_beside_what_its_container_leaves_to_a_core(
    tmp_path: Path,
) -> None:
    (tmp_path / "memory.max").write_text(str(8 * GIB))
    (tmp_path / "status").write_text("VmPeak:\t 900 kB\nVmHWM:\t  150000 kB\nVmRSS:\t 1 kB\n")
    measured = measure_worker(EXECUTOR, tmp_path, tmp_path / "status")
    assert measured == {
        ResourceKind.PYTHON_WORKER: [150_000 * 1024, (8 - 4) * GIB // 2 - 192 * MIB]
    }
    assert measure_worker({}, tmp_path, tmp_path / "status") == {}


def test_a_job_shows_the_most_that_one_of_its_tasks_used() -> None:
    total = PartitionResult()
    for used in (3, 7, 5):
        total.merge(PartitionResult(resources={ResourceKind.BULK_REQUESTS: [used, 9]}))
    read = PartitionResult.from_json(total.to_json())
    assert read.resources == {"bulk_requests": [7, 9]}
    # Of an executor with less memory, and of one whose container leaves nothing.
    for most in ([6, 6], [8, 0], [7, 0], [8, 9]):
        total.merge(PartitionResult(resources={ResourceKind.BULK_REQUESTS: most}))
    assert total.resources == {"bulk_requests": [8, 0]}


def test_nobody_limits_requests_outside_of_an_executors_pod(tmp_path: Path) -> None:
    assert measure_memory(EXECUTOR, tmp_path) is None
    (tmp_path / "memory.max").write_text(str(GIB))
    assert measure_memory({}, tmp_path) is None
