"""Work is cut so that dynamic allocation has a reason to add executors, and no finer."""

import pytest

from icdc_spark.diff.parallelism import compute_task_count

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
