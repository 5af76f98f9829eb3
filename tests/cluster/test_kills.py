"""Pods that are killed while a pipeline works: the run ends right, once, and so does the index."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from icdc_testing import SOURCES
from icdc_testing.real_cluster.host.layout import FIRST
from icdc_testing.real_cluster.shop import RUN_SECONDS, Resource, Shop, make_rows
from icdc_testing.real_cluster.used import UsedCluster
from icdc_testing.waiting import wait

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

BATCH = 1_500
FORCED = ("--grace-period=0", "--force")
OPERATORS = ("pods", "-l", "app.kubernetes.io/name=iceberg-cdc-operator")


class Killing:
    """A pipeline of one table that grows by a batch at a time."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.last = 0
        self.table: Table = shop.create_table("orders", self.make_batch())
        self.runs: set[str] = set()

    def make_batch(self) -> pa.Table:
        """Return the next rows."""
        first, self.last = self.last + 1, self.last + BATCH
        return make_rows(first, self.last, status=lambda n: f"state {n % 7}")

    def append(self) -> None:
        """Commit them."""
        self.table.append(self.make_batch())

    def run(self) -> Resource:
        """Return the run that is at work, once its application is there."""
        before = set(self.runs)

        def has_begun(status: Resource) -> bool:
            now = status.get("currentRun") or {}
            return now.get("name") not in before and now.get("state") in ("Submitted", "Running")

        begun_run: Resource = self.shop.wait_until(has_begun, "the next run begins")["currentRun"]
        self.runs.add(begun_run["name"])
        return begun_run

    def wait_for_end(self, run: Resource) -> Resource:
        """Wait until the run has ended; return its record in the status."""

        def is_recorded(status: Resource) -> bool:
            return any(record["name"] == run["name"] for record in status.get("recentRuns", []))

        status = self.shop.wait_until(is_recorded, f"{run['name']} has ended")
        return next(record for record in status["recentRuns"] if record["name"] == run["name"])

    def check(self) -> None:
        """Require that all is applied, and the index is the table."""
        self.shop.wait_until_applied(self.table)
        status = self.shop.wait_until(lambda status: not status.get("currentRun"), "all is quiet")
        self.runs |= {record["name"] for record in status["recentRuns"]}
        self.shop.assert_equal(self.table, "id")


@pytest.fixture(scope="module")
def killing(cluster: UsedCluster, installed: list[str]) -> Iterator[Killing]:
    """The pipeline of this file; each test leaves it with everything applied."""
    shop = Shop(cluster, "shops", "kills")
    made = Killing(shop)
    retry = {"maxAttempts": 8, "initialSeconds": 1, "maxSeconds": 5}
    shop.apply(shop.make_resource([shop.make_entry("orders", "id")], retry=retry))
    yield made
    shop.run_kubectl("delete", "icdc", shop.name)


def test_an_executor_that_is_killed_is_replaced_within_the_run(killing: Killing) -> None:
    run = killing.run()
    executor = killing.shop.wait_until_pod_runs("executor", run["name"])
    killing.shop.run_kubectl("delete", "pod", executor, *FORCED)
    killing.check()
    assert killing.wait_for_end(run)["state"] == "Succeeded"


def test_a_driver_that_is_killed_is_followed_by_another_attempt(killing: Killing) -> None:
    killing.append()
    run = killing.run()
    driver = killing.shop.wait_until_pod_runs("driver", run["name"])
    killing.shop.wait_until_pod_runs("executor", run["name"])
    killing.shop.run_kubectl("delete", "pod", driver, *FORCED)
    ended = killing.wait_for_end(run)
    assert ended["state"] == "Failed"
    assert ended["failure"]["class"] == "NodeLost", ended
    killing.check()


def test_an_operator_that_is_killed_finds_its_run_again(killing: Killing) -> None:
    killing.append()
    run = killing.run()
    kubectl = killing.shop.cluster.kubectl
    kubectl.run_ok("delete", *OPERATORS, "-n", "icdc-system", "--wait=false", *FORCED)
    killing.check()
    assert killing.wait_for_end(run)["state"] == "Succeeded"
    recent = killing.shop.read_status()["recentRuns"]
    assert [record["sequence"] for record in recent].count(run["sequence"]) == 1, (
        "no run is doubled"
    )


def test_a_spark_operator_that_dies_between_submission_and_status_does_no_harm(
    killing: Killing,
) -> None:
    killing.append()
    run = killing.run()
    shop = killing.shop

    def is_submitted() -> bool:
        return bool(shop.list_pods("driver", run["name"]))

    wait.wait_until(is_submitted, "the driver's pod is made", seconds=RUN_SECONDS, pause=0.1)
    # In a process of its own: what it starts outlives the tests, as the rest of the cluster does.
    command = [sys.executable, "-m", "icdc_testing.real_cluster.command", "restart"]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": SOURCES}, check=True, timeout=300)
    killing.check()
    assert run["name"] in {record["name"] for record in shop.read_status()["recentRuns"]}


def test_a_node_that_is_drained_ends_the_run_in_order(killing: Killing) -> None:
    killing.append()
    run = killing.run()
    shop = killing.shop
    shop.wait_until_pod_runs("executor", run["name"])
    kubectl = shop.cluster.kubectl
    chosen = f"--pod-selector=icebergcdc.dev/pipeline={shop.name}"
    try:
        kubectl.run_ok(
            "drain", FIRST.name, chosen, "--force", "--delete-emptydir-data", "--timeout=300s"
        )
    finally:
        kubectl.run_ok("uncordon", FIRST.name)
    killing.check()
    assert killing.wait_for_end(run)["name"] == run["name"]
