"""Executors come with the work and go without it, while one application follows a table."""

from collections.abc import Callable

import pytest

from icdc_testing.real_cluster.shop import SMALL, Shop, make_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

FILES = 4
ROWS = 100_000
"""In each file; each is a chunk of its own. Spark asks for another executor only when a task has
waited a second for one, so each must be more work than that."""
QUICK = {
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
}


def test_executors_come_with_the_work_and_go_without_it(shop: Callable[..., Shop]) -> None:
    site = shop("elastic", "nodes")
    table = site.create_table("orders", make_rows(1, ROWS, status=lambda n: f"state {n % 7}"))
    for number in range(1, FILES):
        first = number * ROWS + 1
        table.append(make_rows(first, first + ROWS - 1, status=lambda n: f"state {n % 7}"))
    small = {"cores": 1, "memory": "512m"}
    elastic = {
        "driver": small,
        "executor": {**small, "instances": 1},
        "dynamicAllocation": {"minExecutors": 0, "maxExecutors": 2},
        "localVolumes": [{"hostPath": {"path": str(site.scratch)}}],
        "conf": {**SMALL, **QUICK},
    }
    changelog = {"trigger": "Continuous", "pollIntervalSeconds": 1}
    site.apply(
        site.make_resource([site.make_entry("orders", "id")], spark=elastic, changelog=changelog)
    )
    run = site.wait_until(lambda status: "currentRun" in status, "a run begins")["currentRun"][
        "name"
    ]

    most: set[str] = set()

    def has_grown() -> bool:
        most.update(pod["metadata"]["name"] for pod in site.list_pods("executor", run))
        return len(most) > 1

    site.wait_until(lambda _: has_grown(), "a second executor comes")
    site.wait_until_applied(table)
    site.wait_until(
        lambda _: not [pod for pod in site.list_pods("executor", run) if is_running(pod)],
        "no executor is left",
    )
    assert all(is_running(pod) for pod in site.list_pods("driver", run))

    # Most rows go, so that what is left can be compared.
    table.delete(f"id <= {ROWS * FILES - 5_000}")
    site.wait_until_applied(table)
    site.assert_equal(table, "id")
    assert site.read_status()["currentRun"]["name"] == run, "one application did it all"
    site.run_kubectl("delete", "icdc", site.name)


def is_running(pod: dict[str, dict[str, object]]) -> bool:
    """True if the pod runs or may still start."""
    return pod["status"]["phase"] in ("Pending", "Running")
