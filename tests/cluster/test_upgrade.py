"""A release of the operator in a registry: installed, upgraded, rolled back, removed, under load.

As a stranger does it: Helm gets the chart from the registry, the chart names the images by digest,
and the node pulls them from there.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from icdc_testing.kube.charts.helm import Helm
from icdc_testing.kube.registry import open_registry
from icdc_testing.real_cluster.node import images
from icdc_testing.real_cluster.shop import RUN_SECONDS, Resource, Shop, make_rows
from icdc_testing.real_cluster.used import UsedCluster
from icdc_testing.waiting import wait

from . import released
from .released import BEFORE, VERSION, Released

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

NAMESPACE = "upgrades"
HOME = "icdc-upgrade"
RELEASE = "upgrade"
APART_SECONDS = 1.0
VALUES = {
    "watchNamespaces": [NAMESPACE],
    "readCatalogSecrets": True,
    # The definition of pipelines is the other release's.
    "crds": {"install": False},
}


@dataclass(frozen=True)
class Installation:
    """The operator for one namespace, beside the one that all other tests share."""

    cluster: UsedCluster
    helm: Helm
    registry: str
    versions: dict[str, Released]
    """What the registry has, by version."""

    def install(self, version: str) -> None:
        """Install that version, as docs/releasing.md says; without a value of an image."""
        self._run("install", *self._name_chart(version), values=VALUES)
        self._test()

    def upgrade(self, version: str) -> None:
        """Upgrade to that version, as the same page says."""
        self._run("upgrade", *self._name_chart(version), "--reset-then-reuse-values")
        self._test()

    def roll_back(self) -> None:
        """Return to the version before."""
        self._run("rollback", RELEASE)
        self._test()

    def uninstall(self) -> None:
        """Remove it, where it is."""
        self._run("uninstall", RELEASE, "--ignore-not-found")

    def find_version(self) -> str:
        """Return the version that runs, once no pod of another one is left."""
        wait.wait_until(
            lambda: len(self._list_images()) == 1, "one operator is left", seconds=RUN_SECONDS
        )
        (image,) = self._list_images()
        return next(name for name, made in self.versions.items() if made["operator"] == image)

    def assert_pulled(self, namespace: str, reference: str) -> None:
        """Assert that the node pulled that image for a pod of the namespace."""
        events = self.cluster.kubectl.read_object(
            "get", "events", "-n", namespace, "--field-selector", "reason=Pulled"
        )["items"]
        messages = [event["message"] for event in events]
        wanted = f'Successfully pulled image "{reference}"'
        assert any(message.startswith(wanted) for message in messages), (reference, messages)

    def _list_images(self) -> set[str]:
        pods = self.cluster.kubectl.read_object("get", "pods", "-n", HOME)["items"]
        return {container["image"] for pod in pods for container in pod["spec"]["containers"]}

    def _name_chart(self, version: str) -> tuple[str, ...]:
        chart = f"oci://{self.registry}/charts/iceberg-cdc-operator"
        return (RELEASE, chart, "--version", version, "--plain-http")

    def _test(self) -> None:
        self.helm.run_ok("test", RELEASE, "-n", HOME)

    def _run(self, *command: str, values: dict[str, Any] | None = None) -> None:
        self.helm.run_ok(*command, "-n", HOME, "--wait", "--timeout", "7m", values=values)


class Load:
    """A row a second; and how many drivers were seen at work at once."""

    def __init__(self, shop: Shop, table: Table) -> None:
        self.most = 0
        self._shop, self._table = shop, table
        self._stop = threading.Event()

    def __enter__(self) -> "Load":
        self._pool = ThreadPoolExecutor(1)
        self._work = self._pool.submit(self._go_on)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._pool:
            self._work.result()

    def _go_on(self) -> None:
        number = 1001
        while not self._stop.wait(APART_SECONDS):
            self._table.append(make_rows(number, number, state=lambda n: "load"))
            number += 1
            pods = self._shop.read_object("get", "pods", "-l", "spark-role=driver")["items"]
            self.most = max(self.most, sum(pod["status"]["phase"] == "Running" for pod in pods))


@pytest.fixture
def installation(
    cluster: UsedCluster, installed: list[str], helm: Helm, tmp_path: Path
) -> Iterator[Installation]:
    """Two releases in a registry, none of which is installed."""
    for name in (HOME, NAMESPACE):
        metadata = {"name": name}
        cluster.apply("default", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    # An empty folder: nothing comes from the checkout.
    stranger = replace(helm, folder=tmp_path)
    node, loaded = cluster.first_node, cluster.facts["images"]
    with open_registry() as address:
        registry = f"{address}/lake"
        use = Installation(cluster, stranger, registry, released.publish(node, loaded, registry))
        try:
            yield use
        finally:
            use.uninstall()
            images.remove_pulled(node, address)


def read_applied_snapshot(status: Resource) -> str:
    """Return the snapshot that is in the index."""
    (table,) = status["tables"]
    return str(table["appliedSnapshotId"])


def is_following(status: Resource) -> bool:
    """True if a driver is running and the table was exported."""
    run, tables = status.get("currentRun") or {}, status.get("tables", [])
    return run.get("state") == "Running" and bool(tables) and tables[0]["state"] == "Streaming"


def test_an_upgrade_and_a_rollback_under_load_lose_no_batch_and_double_no_run(
    installation: Installation, shop: Callable[..., Shop]
) -> None:
    site = shop("shop", NAMESPACE)
    table = site.create_table("orders", make_rows(1, 1000, state=lambda n: "new"))
    installation.install(BEFORE)
    before = installation.versions[BEFORE]
    installation.assert_pulled(HOME, before["operator"])
    site.apply(
        site.make_resource([site.make_entry("orders", "id")], changelog={"pollIntervalSeconds": 1})
    )
    with Load(site, table) as load:
        run = site.wait_until(is_following, "a run follows the table")["currentRun"]
        assert installation.find_version() == BEFORE
        assert {find_image(pod) for pod in site.list_pods("driver", run["name"])} == {
            before["spark"]
        }
        installation.assert_pulled(NAMESPACE, before["spark"])
        index = site.find_physical_index(table)
        installation.upgrade(VERSION)
        assert installation.find_version() == VERSION
        wait_for_progress(site)
        installation.roll_back()
        assert installation.find_version() == BEFORE
        wait_for_progress(site)
    site.wait_until_applied(table)
    site.assert_equal(table, "id")
    status = site.wait_until(lambda status: not status.get("currentRun"), "all is quiet")
    assert_each_run_once(status["recentRuns"], run["name"])
    assert load.most == 1, "one driver at a time"

    installation.uninstall()
    assert site.read_status()["tables"] == status["tables"], "the pipeline stays as it is"
    site.assert_equal(table, "id")
    table.delete("id <= 10")
    installation.install(VERSION)
    installation.assert_pulled(HOME, installation.versions[VERSION]["operator"])
    site.wait_until_applied(table)
    site.assert_equal(table, "id")
    assert site.find_physical_index(table) == index, "nothing is exported anew"
    installation.assert_pulled(NAMESPACE, installation.versions[VERSION]["spark"])
    site.run_kubectl("delete", "icdc", site.name)


def wait_for_progress(site: Shop) -> None:
    """Return once the status tells of a snapshot that it did not tell of."""
    then = read_applied_snapshot(site.read_status())
    site.wait_until(
        lambda status: read_applied_snapshot(status) != then, "the new operator tells of progress"
    )


def find_image(pod: Resource) -> str:
    """Return the one image of a pod."""
    (container,) = pod["spec"]["containers"]
    return str(container["image"])


def assert_each_run_once(runs: list[Resource], first: str) -> None:
    """Assert that all runs, that one among them, succeeded and none was started twice."""
    assert first in {run["name"] for run in runs}
    assert {(run["state"], run["attempt"]) for run in runs} == {("Succeeded", 1)}
    assert set(Counter(run["sequence"] for run in runs).values()) == {1}
