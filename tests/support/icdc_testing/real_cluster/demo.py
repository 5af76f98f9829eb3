"""The operator on a cluster, for a person who wants to see it: `make cluster-demo`.

Both charts, three tables in a REST catalog on S3, an export, three kinds of changes, and the proof
that every index equals its table. The cluster is one made for it, or the one that ICDC_TEST_CLUSTER
or ICDC_TEST_KUBECONFIG names, in which it takes a namespace of its own. Knows no test.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from icdc_api import naming
from icdc_api.errors import IcdcError
from icdc_testing.kube import binaries
from icdc_testing.kube.api_server import GIVEN
from icdc_testing.kube.charts.files import OPERATOR, PIPELINES
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.real_cluster import command, used
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.real_cluster.services import product
from icdc_testing.real_cluster.shop import RUN_SECONDS, Resource, Shop, make_rows
from icdc_testing.real_cluster.used import CLUSTER, UsedCluster

NAMESPACE = "icdc-demo"
"""Of the demo's operator, its pipeline, and its Helm release."""
NAME = "shop"
PIPELINES_RELEASE = "pipelines"
KEYS: dict[str, tuple[str, ...]] = {"orders": ("id",), "customers": ("id",), "events": ()}
"""The tables; the last one is only appended to, and has no key."""
_HELM_SECONDS = 300.0
_HELM_TIME = f"{_HELM_SECONDS:.0f}s"
_CRD = naming.CRD_NAME


def main(argv: Sequence[str] | None = None) -> int:
    """Play the demo; return 0 when every index equals its table, else 1 with a sentence about what
    went wrong."""
    options = _build_parser().parse_args(argv)
    given = os.environ.get(CLUSTER) or os.environ.get(GIVEN)
    if not given and not options.keep:
        # It takes down what it brought up, whatever happens in between.
        again = [sys.executable, "-m", "icdc_testing.real_cluster.demo", "--as-it-is"]
        return command.main(["run", *_build_image_flags(options), "--", *again])
    if not given:
        code = command.main(["up", *_build_image_flags(options)])
        if code != 0:
            return code
    os.environ[CLUSTER] = given or str(ClusterPaths.find_usual().kubeconfig)
    try:
        return _play(options, down="" if given else "make cluster-down")
    except (AssertionError, IcdcError) as exc:
        sys.stderr.write(f"error: {exc}\n")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    return 1


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster-demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave all of it to look at")
    parser.add_argument(
        "--images", type=Path, metavar="FOLDER", help="for a new cluster: load each *.tar in it"
    )
    # Of a cluster that goes as a whole nothing need be removed.
    parser.add_argument("--as-it-is", action="store_true", help=argparse.SUPPRESS)
    return parser


def _build_image_flags(options: argparse.Namespace) -> list[str]:
    return [] if options.images is None else ["--images", str(options.images)]


def _play(options: argparse.Namespace, *, down: str) -> int:
    program = binaries.ensure_program("helm")
    with used.open_cluster() as cluster, tempfile.TemporaryDirectory(prefix="icdc-helm-") as home:
        kubeconfig = cluster.kubectl.kubeconfig
        helm = Helm(program, Path(home), kubeconfig, seconds=_HELM_SECONDS + 60)
        demo = _ClusterDemo(cluster, helm)
        try:
            demo.play()
        finally:
            if not (options.keep or options.as_it_is):
                demo.remove("Deleting the pipeline with its indices, the tables, and the operator")
        if options.keep:
            demo.print_farewell(down)
    return 0


class _ClusterDemo:
    """One showing."""

    def __init__(self, cluster: UsedCluster, helm: Helm) -> None:
        self._cluster = cluster
        self._helm = helm
        self._began = time.monotonic()
        self._shown: list[str] = []
        self._tables: dict[str, Table] = {}
        self._site = Shop(cluster, NAMESPACE, NAME)

    def play(self) -> None:
        """Go from nothing to the proof; AssertionError where it does not come so far."""
        if self._cluster.kubectl.run("get", "namespace", NAMESPACE).code == 0:
            self.remove("Removing what an earlier demo left")
        self._drop_tables()
        self._install()
        self._fill()
        self._apply()
        self._follow(_is_ready)
        self._change()
        self._follow(self._is_applied)
        self._prove()

    def remove(self, why: str) -> None:
        """Take away what the demo made, its indices too; say why before."""
        self._say(why)
        kubectl = self._cluster.kubectl
        how = ("-n", NAMESPACE, "--ignore-not-found", "--wait", "--timeout", _HELM_TIME)
        if self._helm.run("uninstall", PIPELINES_RELEASE, *how).code != 0:
            # No run comes to an end: the namespace must not wait for one.
            let_go = ("--type=merge", "-p", '{"metadata": {"finalizers": null}}')
            kubectl.run("patch", "icdc", NAME, "-n", NAMESPACE, *let_go)
        self._helm.run_ok("uninstall", NAMESPACE, *how)
        self._drop_tables()
        kubectl.run_ok("delete", "namespace", NAMESPACE, "--timeout=100s")

    def print_farewell(self, down: str) -> None:
        """Print commands to try next, and `down`, which takes the cluster down."""
        kubectl = self._cluster.kubectl
        url = self._cluster.facts["search"]
        search = f"{url}/{self._site.prefix}-orders/_search?q=status:paid&size=3&pretty"
        sys.stdout.write(
            f"\nLook for yourself:\n"
            f"  export KUBECONFIG={kubectl.kubeconfig}\n"
            f"  {kubectl.program} -n {NAMESPACE} get icdc,sparkapplications,pods\n"
            f"  curl '{search}'\n"
            f"  {Path(sys.executable).parent / 'icdc'} plan {NAME} -n {NAMESPACE}\n"
            + (f"Take it down: {down}\n" if down else "")
        )

    def _install(self) -> None:
        self._say("helm upgrade --install --wait: the operator")
        metadata = {
            "name": NAMESPACE,
            "labels": {"pod-security.kubernetes.io/warn": "restricted"},
        }
        self._cluster.apply(
            "default", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
        values = product.build_operator_values(self._cluster.facts["images"], [NAMESPACE])
        values["crds"] = {"install": self._is_ours_to_define()}
        how = ("-n", NAMESPACE, "--wait", "--timeout", _HELM_TIME)
        self._helm.run_ok("upgrade", "--install", NAMESPACE, str(OPERATOR), *how, values=values)

    def _is_ours_to_define(self) -> bool:
        """Return whether the kind is missing, or is of this release: not of another, nor made by
        hand."""
        ran = self._cluster.kubectl.run("get", "crd", _CRD, "-o", "name")
        if ran.code != 0:
            return True
        definition = self._cluster.kubectl.read_object("get", "crd", _CRD)
        owner = definition["metadata"].get("annotations", {}).get("meta.helm.sh/release-namespace")
        return bool(owner == NAMESPACE)

    def _fill(self) -> None:
        self._say("Writing three tables: orders, customers, events (REST catalog, S3)")
        first = {
            "orders": make_rows(1, 3000, status=lambda _: "new", total=lambda n: n / 4),
            "customers": make_rows(1, 500, name=lambda n: f"customer {n}"),
            "events": make_rows(1, 200, kind=lambda _: "seen"),
        }
        for name, its in first.items():
            self._tables[name] = self._site.create_table(name, its)

    def _drop_tables(self) -> None:
        for name in KEYS:
            table = f"{self._site.prefix}.{name}"
            if self._site.catalog.table_exists(table):
                self._site.catalog.drop_table(table)

    def _apply(self) -> None:
        self._say("helm upgrade --install: one pipeline for the three; kubectl get icdc shows")
        entries = [
            self._site.make_entry(name, *key, appendOnly=not key) for name, key in KEYS.items()
        ]
        resource = self._site.make_resource(entries, deletionPolicy="DeleteIndices")
        self._site.give_credentials()
        values = {"pipelines": {NAME: resource["spec"]}}
        release = (PIPELINES_RELEASE, str(PIPELINES), "-n", NAMESPACE)
        self._helm.run_ok("upgrade", "--install", *release, values=values)

    def _change(self) -> None:
        self._say("Updating 100 orders, deleting 50, appending 10 events")
        changed = {
            "id": pa.array(range(101, 201), pa.int64()),
            "status": ["paid"] * 100,
            "total": [quarter / 4 for quarter in range(101, 201)],
        }
        self._tables["orders"].upsert(pa.table(changed), join_cols=["id"])
        self._tables["orders"].delete("id <= 50")
        self._tables["events"].append(make_rows(201, 210, kind=lambda _: "bought"))

    def _is_applied(self, status: Resource) -> bool:
        """Return whether the newest snapshots are in the indices and no run is at work."""
        wanted = {str(table.metadata.current_snapshot_id) for table in self._tables.values()}
        applied = {table.get("appliedSnapshotId") for table in status.get("tables", [])}
        return wanted <= applied and not status.get("currentRun")

    def _follow(self, reached: Callable[[Resource], bool]) -> None:
        """Show what kubectl shows, each time it is something else."""

        def show(status: Resource) -> bool:
            # Without the age, which is another one each time.
            shown = [
                line.rsplit(None, 1)[0]
                for line in self._site.run_kubectl("get", "icdc", NAME).splitlines()
            ]
            if shown != self._shown:
                heading, line = shown
                # kubectl makes its columns as wide as their values.
                if [heading] != self._shown[:1]:
                    sys.stdout.write(f"{'':11}{heading}\n")
                sys.stdout.write(f"[{self._measure_seconds():5.1f} s]  {line}\n")
                sys.stdout.flush()
                self._shown = shown
            return reached(status)

        self._site.wait_until(show, "the pipeline comes so far", RUN_SECONDS)

    def _prove(self) -> None:
        self._say("Comparing every document with its row, as pyiceberg reads it")
        for name, table in self._tables.items():
            self._site.assert_equal(table, *KEYS[name])
        status = self._site.read_status()
        count = sum(table.scan().count() for table in self._tables.values())
        written, deleted = (_sum(status, counter) for counter in ("rowsUpserted", "rowsDeleted"))
        sys.stdout.write(
            f"\nrows:            {count:,} in 3 tables\n"
            f"changes applied: {written:,} documents written, {deleted:,} deleted\n"
            f"equal:           yes, after {self._measure_seconds():.0f} s\n"
        )

    def _say(self, text: str) -> None:
        sys.stdout.write(f"\n[{self._measure_seconds():5.1f} s] {text}\n")
        sys.stdout.flush()

    def _measure_seconds(self) -> float:
        return time.monotonic() - self._began


def _is_ready(status: Resource) -> bool:
    conditions = {
        condition["type"]: condition["status"] for condition in status.get("conditions", [])
    }
    return conditions.get("Ready") == "True" and not status.get("currentRun")


def _sum(status: dict[str, Any], counted: str) -> int:
    return sum(int(table.get(counted, 0)) for table in status["tables"])


if __name__ == "__main__":
    sys.exit(main())
