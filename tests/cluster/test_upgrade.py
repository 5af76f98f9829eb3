"""A release of the operator's chart that is upgraded, removed and installed again under load.

What it is upgraded from is this very code with a lower version: no older one was released.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.table import Table

from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.real_cluster.host.layout import FIRST
from icdc_testing.real_cluster.node import images
from icdc_testing.real_cluster.services import product
from icdc_testing.real_cluster.shop import Resource, Shop, make_rows
from icdc_testing.real_cluster.used import UsedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

NAMESPACE = "upgrades"
HOME = "icdc-upgrade"
RELEASE = "upgrade"
BEFORE = "0.0.1"
APART_SECONDS = 1.0


class Release:
    """The operator for one namespace, beside the one that all other tests share."""

    def __init__(self, cluster: UsedCluster, helm: Helm, folder: Path) -> None:
        self._cluster, self._helm = cluster, helm
        self._folder = folder
        for name in (HOME, NAMESPACE):
            cluster.apply(
                "default", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )

    def install_before(self) -> None:
        """Install the chart and the images with the lower version."""
        versions = ("--version", BEFORE, "--app-version", BEFORE)
        self._helm.run_ok("package", str(OPERATOR), *versions, "-d", str(self._folder))
        node = self._cluster.starter.paths.locate(FIRST)
        (package,) = self._folder.glob("*.tgz")
        loaded = [images.tag(node, image, BEFORE) for image in self._cluster.facts["images"]]
        self._upgrade(package, loaded)

    def install(self) -> None:
        """Install the chart and the images of this checkout, over whatever is there."""
        self._upgrade(OPERATOR, self._cluster.facts["images"])

    def uninstall(self) -> None:
        """Remove it, where it is."""
        self._helm.run_ok("uninstall", RELEASE, "-n", HOME, "--wait", "--ignore-not-found")

    def list_versions(self) -> set[str]:
        """Return the versions of the operators that have a pod."""
        pods = self._cluster.kubectl.read_object("get", "pods", "-n", HOME)["items"]
        return {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods}

    def _upgrade(self, chart: Path, loaded: list[str]) -> None:
        # The definition of pipelines is the other release's.
        values = {**product.build_operator_values(loaded, [NAMESPACE]), "crds": {"install": False}}
        how = ("-n", HOME, "--wait", "--timeout", "7m")
        self._helm.run_ok("upgrade", "--install", RELEASE, str(chart), *how, values=values)
        self._helm.run_ok("test", RELEASE, "-n", HOME)


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
def release(
    cluster: UsedCluster, installed: list[str], helm: Helm, tmp_path: Path
) -> Iterator[Release]:
    made = Release(cluster, helm, tmp_path)
    yield made
    made.uninstall()


def read_applied_snapshot(status: Resource) -> str:
    """Return the snapshot that is in the index."""
    (table,) = status["tables"]
    return str(table["appliedSnapshotId"])


def is_following(status: Resource) -> bool:
    """True if a driver is running and the table was exported."""
    run, tables = status.get("currentRun") or {}, status.get("tables", [])
    return run.get("state") == "Running" and bool(tables) and tables[0]["state"] == "Streaming"


def test_an_upgrade_under_load_loses_no_batch_and_doubles_no_run(
    release: Release, shop: Callable[..., Shop]
) -> None:
    site = shop("shop", NAMESPACE)
    table = site.create_table("orders", make_rows(1, 1000, state=lambda n: "new"))
    release.install_before()
    site.apply(
        site.make_resource([site.make_entry("orders", "id")], changelog={"pollIntervalSeconds": 1})
    )
    with Load(site, table) as load:
        run = site.wait_until(is_following, "a run follows the table")["currentRun"]
        assert release.list_versions() == {BEFORE}
        release.install()
        assert BEFORE not in release.list_versions()
        then = read_applied_snapshot(site.read_status())
        site.wait_until(
            lambda status: read_applied_snapshot(status) != then,
            "the new operator tells of progress",
        )
    site.wait_until_applied(table)
    site.assert_equal(table, "id")
    status = site.wait_until(lambda status: not status.get("currentRun"), "all is quiet")
    runs = status["recentRuns"]
    assert run["name"] in {run["name"] for run in runs}
    assert {(run["state"], run["attempt"]) for run in runs} == {("Succeeded", 1)}
    assert set(Counter(run["sequence"] for run in runs).values()) == {1}
    assert load.most == 1, "one driver at a time"

    index = site.find_physical_index(table)
    release.uninstall()
    assert site.read_status()["tables"] == status["tables"], "the pipeline stays as it is"
    site.assert_equal(table, "id")
    table.delete("id <= 10")
    release.install()
    site.wait_until_applied(table)
    site.assert_equal(table, "id")
    assert site.find_physical_index(table) == index, "nothing is exported anew"
    site.run_kubectl("delete", "icdc", site.name)
