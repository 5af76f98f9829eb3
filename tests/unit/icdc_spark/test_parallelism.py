"""Work is cut so that all cores have some, and dynamic allocation a reason to add executors."""

import pytest

from icdc_spark.readers.parallelism import compute_split_bytes, compute_task_count

pytestmark = pytest.mark.unit


def dynamic(most: str = "", cores: str = "1") -> dict[str, str]:
    """Return the properties of an application with dynamic allocation."""
    given = {"spark.dynamicAllocation.maxExecutors": most} if most else {}
    return {"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": cores, **given}


@pytest.mark.parametrize(
    ("cores", "conf", "expected"),
    [
        (4, {}, 4),
        (0, {}, 1),
        (4, {"spark.dynamicAllocation.enabled": "false"}, 4),
        (2, dynamic("8"), 4),
        (4, dynamic("8"), 8),
        (8, dynamic("8"), 8),
        (2, dynamic("8", cores="2"), 4),
        (16, dynamic("8", cores="2"), 16),
        # Spark says two where there is no executor yet.
        (2, dynamic("1"), 2),
        (2, dynamic(), 4),
    ],
)
def test_more_tasks_than_cores_wait_only_where_cores_may_come(
    cores: int, conf: dict[str, str], expected: int
) -> None:
    assert compute_task_count(cores, conf) == expected


MIB = 1024 * 1024
MOST = 128 * MIB


@pytest.mark.parametrize(
    ("sizes", "tasks", "expected"),
    [
        ([], 4, MOST),
        ([MIB] * 3, 1, 3 * MIB),
        # As many files for each task as there are for the one that gets most.
        ([MIB] * 32, 16, 2 * MIB),
        ([10 * MIB] * 5, 2, 30 * MIB),
        ([MIB] * 16, 16, MIB),
        # Fewer files than tasks: the files are cut, where they have several row groups.
        ([64 * MIB], 16, 4 * MIB),
        ([100 * MIB, MIB, MIB, MIB], 2, 103 * MIB // 2),
        # Never fewer tasks than Iceberg would make: cores may come while tasks wait.
        ([MIB] * 1000, 2, 32 * MIB),
        ([MIB // 4] * 50_000, 2, 8 * MIB),
        # Never more than the table wants.
        ([64 * MIB] * 100, 2, MOST),
        ([1], 4, 1),
    ],
)
def test_files_are_shared_out_among_the_tasks(sizes: list[int], tasks: int, expected: int) -> None:
    assert compute_split_bytes(sizes, tasks, MOST) == pytest.approx(expected, abs=1)
