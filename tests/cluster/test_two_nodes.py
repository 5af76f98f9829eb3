"""A second node: it is drained, then lost, and runs go on elsewhere."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.table import Table

from icdc_operator.manifests.pods.pod_paths import APPLICATION_FILE
from icdc_testing import SOURCES
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.real_cluster.host import cgroups, programs
from icdc_testing.real_cluster.host.layout import FIRST, SECOND, ClusterPaths
from icdc_testing.real_cluster.second_node import TAINT
from icdc_testing.real_cluster.shop import RUN_SECONDS, SMALL, Resource, Shop, make_rows
from icdc_testing.real_cluster.used import UsedCluster
from icdc_testing.waiting import wait

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

FILES, ROWS = 4, 2_000
"""Data files of a table whose rows are shuffled, and the rows of each."""
SPLIT_BYTES = 4 * 1024 * 1024
"""What Iceberg counts for opening a file: each is read by a task of its own."""
DRAIN_SECONDS = 300
LOSS_SECONDS = 5
"""Less than our default, so that the test is short; a user's value is what counts."""
TOLERATIONS: list[Resource] = [
    {"key": TAINT["key"], "operator": "Exists"},
    *(
        {
            "key": f"node.kubernetes.io/{taint}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": LOSS_SECONDS,
        }
        for taint in ("not-ready", "unreachable")
    ),
]


def run_command(*arguments: str) -> None:
    """In a process of its own: what it starts outlives the tests, as the rest of a cluster does."""
    call = [sys.executable, "-m", "icdc_testing.real_cluster.command", *arguments]
    subprocess.run(call, env={**os.environ, "PYTHONPATH": SOURCES}, check=True, timeout=400)


def prefer_node(node: str) -> Resource:
    """Return a pod template that goes to that node while it can."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    preference = {"weight": 100, "preference": {"matchExpressions": [term]}}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
    return {"spec": {"affinity": {"nodeAffinity": affinity}, "tolerations": TOLERATIONS}}


def make_spark(site: Shop, *, driver: str, executor: str) -> Resource:
    """Return a `spec.spark` whose pods go to these nodes while they can."""
    small = {"cores": 1, "memory": "512m"}
    return {
        "driver": {**small, "template": prefer_node(driver)},
        "executor": {**small, "instances": 1, "template": prefer_node(executor)},
        "localVolumes": [{"hostPath": {"path": str(site.scratch)}}],
        "conf": SMALL,
    }


@pytest.fixture(scope="module")
def second(cluster: UsedCluster, installed: list[str]) -> Iterator[ClusterPaths]:
    """The cluster's files, while a second node is attached."""
    (image,) = {image for image in cluster.facts["images"] if "/spark:" in image}
    run_command("attach-node", image)
    yield cluster.starter.paths
    run_command("detach-node")


def list_nodes(pods: list[Resource]) -> set[str]:
    """Return the nodes that the pods are bound to."""
    return {pod["spec"].get("nodeName", "") for pod in pods}


def make_spark_on_both_nodes(site: Shop) -> Resource:
    """Return a `spec.spark` of two executors on different nodes, both there from the start.

    A preference would not do: an executor of the run before, which has not quite gone, counts
    as well, and one on the first node sends both new ones to the second.
    """
    apart = {
        "labelSelector": {"matchLabels": {"spark-role": "executor"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    template = {"spec": {"affinity": affinity, "tolerations": TOLERATIONS}}
    driver_and_executor = make_spark(site, driver=FIRST.name, executor=SECOND.name)
    return {
        **driver_and_executor,
        "executor": {**driver_and_executor["executor"], "instances": 2, "template": template},
        "conf": {
            **SMALL,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{RUN_SECONDS:.0f}s",
        },
    }


def create_table(site: Shop) -> Table:
    """Return a table whose files are read by as many tasks, so that each executor has some."""
    table = site.create_table("orders", make_rows(1, ROWS, status=lambda n: f"state {n % 7}"))
    with table.transaction() as change:
        change.set_properties({"read.split.target-size": str(SPLIT_BYTES)})
    for number in range(1, FILES):
        first = number * ROWS + 1
        table.append(make_rows(first, first + ROWS - 1, status=lambda n: f"state {n % 7}"))
    return table


def find_shuffled_blocks(site: Shop) -> dict[Path, set[str]]:
    """Return the files of shuffled rows, by the folder of the executor that has them."""
    blocks: dict[Path, set[str]] = defaultdict(set)
    for file in site.scratch.rglob("shuffle_*.data"):
        blocks[file.parents[1]].add(file.name)
    return dict(blocks)


def is_elsewhere(site: Shop, before: dict[Path, set[str]]) -> bool:
    """True if an executor holds all shuffled blocks that another one held before."""
    now = find_shuffled_blocks(site)
    return any(
        names <= set().union(*(now[other] for other in now if other != folder))
        for folder, names in before.items()
    )


def test_what_an_executor_has_shuffled_moves_on_when_its_node_is_drained(
    cluster: UsedCluster, second: ClusterPaths, shop: Callable[..., Shop]
) -> None:
    site = shop("drained", "nodes")
    table = create_table(site)
    facts, kubectl = cluster.facts, cluster.kubectl
    with FaultProxy(facts["search"], host=facts["address"]) as proxy:
        sink = {"opensearch": {"hosts": [proxy.url]}}
        site.apply(
            site.make_resource(
                [site.make_entry("orders", "id")], spark=make_spark_on_both_nodes(site), sink=sink
            )
        )
        site.wait_until_applied(table)
        site.wait_until(lambda status: not status.get("currentRun"), "the export has ended")
        proxy.clear()

        held = proxy.hold("_bulk")
        missing = [number * ROWS + 1 for number in range(FILES)]
        table.delete(f"id in ({', '.join(map(str, missing))})")
        held.wait(RUN_SECONDS)
        run = site.read_status()["currentRun"]["name"]
        assert list_nodes(site.list_pods("executor", run)) == {FIRST.name, SECOND.name}
        before = find_shuffled_blocks(site)
        assert len(before) == 2, "both have shuffled, and nothing of it is in the index yet"
        chosen = f"--pod-selector=icebergcdc.dev/run={run},spark-role=executor"
        drain = ("drain", SECOND.name, chosen, "--force", "--delete-emptydir-data")
        with ThreadPoolExecutor(1) as pool:
            drained = pool.submit(kubectl.run_ok, *drain, f"--timeout={DRAIN_SECONDS}s")
            try:
                wait.wait_until(
                    lambda: is_elsewhere(site, before),
                    f"what one has shuffled is elsewhere too: {before}",
                    seconds=DRAIN_SECONDS,
                )
            finally:
                held.release()
                drained.result()
                kubectl.run_ok("uncordon", SECOND.name)

        site.wait_until_applied(table)
        status = site.wait_until(lambda status: not status.get("currentRun"), "all is quiet")
        assert status["recentRuns"][0]["name"] == run
        assert status["recentRuns"][0]["state"] == "Succeeded"
        deleted = [
            write for write in proxy.list_writes() if write.index.startswith(site.name_index(table))
        ]
        assert sorted(int(write.id) for write in deleted) == missing, "each is deleted once"
        site.assert_equal(table, "id")


def test_a_run_goes_on_elsewhere_when_its_node_is_lost(
    second: ClusterPaths, shop: Callable[..., Shop]
) -> None:
    site = shop("lost", "nodes")
    table = site.create_table("orders", make_rows(1, 2_000, status=lambda n: f"state {n % 7}"))
    there = make_spark(site, driver=SECOND.name, executor=SECOND.name)
    site.apply(site.make_resource([site.make_entry("orders", "id")], spark=there))
    run = site.wait_until(lambda status: "currentRun" in status, "a run begins")["currentRun"][
        "name"
    ]
    site.wait_until_pod_runs("executor", run)
    assert list_nodes([*site.list_pods("driver", run), *site.list_pods("executor", run)]) == {
        SECOND.name
    }

    # As lost as a node can be whose driver still lives: all of it stands still.
    processes = programs.read_record(second)
    node = [processes[name] for name in second.locate(SECOND).programs]
    programs.pause(node)
    pods = cgroups.list_processes(SECOND)
    programs.pause(pods)
    assert list_drivers(), "there is a driver to be fenced off"
    # One look at all of it: the next status may be that of another run.
    site.wait_until(
        lambda status: (
            status.get("currentRun", {}).get("name") == run
            and f"its node {SECOND.name} does not answer" in find_message(status, "RunActive")
        ),
        "the status says what is the matter",
    )

    site.wait_until_applied(table)
    status = site.wait_until(lambda status: not status.get("currentRun"), "all is quiet")
    lost = next(record for record in status["recentRuns"] if record["name"] == run)
    assert lost["failure"]["class"] == "NodeLost", lost
    site.assert_equal(table, "id")

    # The old driver wakes up with what it had in hand, and finds the target taken.
    table.delete("id <= 100")
    site.wait_until_applied(table)
    programs.resume(pods)
    wait.wait_until(
        lambda: not list_drivers(), "the driver that was lost ends by itself", seconds=RUN_SECONDS
    )
    site.assert_equal(table, "id")


def find_message(status: Resource, kind: str) -> str:
    """Return the message of the condition of that type; empty where there is none."""
    conditions = status.get("conditions", [])
    return "".join(
        str(condition.get("message")) for condition in conditions if condition["type"] == kind
    )


def list_drivers() -> list[int]:
    """Return the drivers that live on the second node, whatever the API server knows of them."""
    names = []
    for pid in cgroups.list_processes(SECOND):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if APPLICATION_FILE.encode() in line.split(b"\0"):
            names.append(pid)
    return names
