"""docs/quick-start.md, walked from the page alone: the lake, the writer, the pipeline, the end."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from icdc_testing.real_cluster import demo
from icdc_testing.real_cluster.quick_start import NAMESPACE, QuickStart
from icdc_testing.real_cluster.used import UsedCluster
from icdc_testing.target import node_calls
from icdc_testing.waiting import wait

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

FOLLOW_SECONDS = 240.0


@pytest.fixture
def walk(cluster: UsedCluster, installed: list[str], tmp_path: Path) -> Iterator[QuickStart]:
    """The walk; what is left of one that fails is removed."""
    walk = QuickStart(cluster, tmp_path)
    walk.clean()
    yield walk
    walk.clean()


def find_service(cluster: UsedCluster, name: str) -> str:
    """Return the address of a Service, which this host reaches as a node of the cluster."""
    service = cluster.kubectl.read_object("get", "service", name, "-n", NAMESPACE)
    return str(service["spec"]["clusterIP"])


def open_table(cluster: UsedCluster) -> Table:
    host = find_service(cluster, "demo-lake")
    catalog = load_catalog(
        "demo",
        **{
            "type": "rest",
            "uri": f"http://{host}:8181",
            "warehouse": "s3://lake",
            "oauth2-server-uri": f"http://{host}:8181/v1/oauth/tokens",
            "credential": "demo:not-a-secret",
            "s3.endpoint": f"http://{host}:8333",
            "s3.access-key-id": "demo",
            "s3.secret-access-key": "not-a-secret",
            "s3.region": "us-east-1",
        },
    )
    return catalog.load_table("shop.orders")


def read_rows(table: Table, snapshot_id: int) -> dict[str, object]:
    """Return what the documents of a snapshot must be, by id."""
    rows = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return {
        str(row["order_id"]): {
            **row,
            "total": str(row["total"]),
            "placed_at": row["placed_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        for row in rows
    }


def find_equal_snapshot(table: Table, documents: dict[str, object]) -> int | None:
    """Return the newest snapshot whose rows the documents are; None in the midst of a batch."""
    for snapshot in reversed(table.refresh().snapshots()[-20:]):
        if read_rows(table, snapshot.snapshot_id) == documents:
            return snapshot.snapshot_id
    return None


def require_following(cluster: UsedCluster) -> None:
    """Assert that the index is the table at one snapshot, and later at another."""
    table, url = open_table(cluster), f"http://{find_service(cluster, 'demo-search')}:9200"
    seen: set[int] = set()

    def has_followed() -> bool:
        documents = node_calls.read_documents(url, "orders")
        sources = {id_: source for id_, (_, source) in documents.items()}
        equal = find_equal_snapshot(table, sources)
        seen.update([] if equal is None else [equal])
        return len(seen) > 1

    wait.wait_until(
        has_followed,
        "the index equals two snapshots, one after the other",
        seconds=FOLLOW_SECONDS,
        pause=0.5,
    )


def blur(text: str) -> list[list[str]]:
    """Return the cells of each line; ages and numbers alike for all that they may be."""
    plain = re.sub(r"\b(\d+[smhd])+\b", "AGE", text)
    return [line.split() for line in re.sub(r"\b\d+\b", "N", plain).splitlines()]


def test_the_quick_start_is_walked_from_its_page_and_leaves_nothing(
    cluster: UsedCluster, walk: QuickStart, record_property: Callable[[str, object], None]
) -> None:
    *steps, deletion = walk.steps
    shown = demo.show_steps(walk, steps)
    require_following(cluster)
    walk.take(deletion)
    wait.wait_until(walk.is_removed, "nothing is left")
    for title, seconds in walk.seconds.items():
        record_property("measured", f"quick start, {title}: {seconds:.0f} s")
    for printed in shown:
        assert blur(printed.printed) == blur(printed.wanted)
