"""Pipelines that are deleted: while they export, and while nobody can delete their indices."""

from collections.abc import Callable, Iterator

import pytest
from pyiceberg.table import Table

from icdc_api import naming
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.real_cluster.shop import RUN_SECONDS, Resource, Shop, make_rows
from icdc_testing.waiting import wait

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

FILE = 13_000
"""Rows of a file; two such files are more than a chunk of the export holds."""
FILES = 4
FIRST_CHUNKS = '"phase":"Writing",[^}]*"chunksDone":[1-9]'
"""In the state document, once something of the export need not be done again."""
RETRY = {"maxAttempts": 30, "initialSeconds": 1, "maxSeconds": 5}


@pytest.fixture
def site(shop: Callable[..., Shop]) -> Shop:
    """A pipeline whose indices are to be deleted."""
    return shop("deleted")


@pytest.fixture
def proxy(site: Shop) -> Iterator[FaultProxy]:
    """OpenSearch as the pods of that pipeline see it."""
    facts = site.cluster.facts
    with FaultProxy(facts["search"], host=facts["address"]) as search_proxy:
        yield search_proxy


def make_resource(site: Shop, proxy: FaultProxy, **spec: object) -> Resource:
    """Return the pipeline, behind the proxy."""
    sink = {"opensearch": {"hosts": [proxy.url]}}
    return site.make_resource([site.make_entry("orders", "id")], sink=sink, retry=RETRY, **spec)


def delete(site: Shop) -> None:
    """As a person does who does not wait."""
    site.run_kubectl("delete", "icdc", site.name, "--wait=false")


def wait_until_deleted(site: Shop, what: str) -> None:
    """Return once there is no such pipeline, and no pod of it."""
    # Each look starts a kubectl.
    seldom = {"seconds": RUN_SECONDS, "pause": 1.0}
    wait.wait_until(site.is_deleted, f"{what}: the pipeline is gone", **seldom)
    pods = ("get", "pods", "-l", f"{naming.LABEL_PIPELINE}={site.name}", "-o", "name")
    wait.wait_until(
        lambda: not site.run_kubectl(*pods).strip(), f"{what}: no pod is left", **seldom
    )


def list_written_ids(site: Shop, proxy: FaultProxy, table: Table) -> set[str]:
    """Return the ids that were written to the table's index through the proxy."""
    return {
        write.id for write in proxy.list_writes() if write.index.startswith(site.name_index(table))
    }


def delete_while_exporting(site: Shop, proxy: FaultProxy, orders: Table) -> None:
    """In the middle; the same pipeline, made again, goes on from there."""
    held = proxy.hold("icdc-state", body=FIRST_CHUNKS, after=True)
    site.apply(make_resource(site, proxy))
    held.wait(RUN_SECONDS)
    delete(site)
    wait_until_deleted(site, "an export")
    held.drop()
    first = list_written_ids(site, proxy, orders)
    assert 0 < len(first) < FILES * FILE

    proxy.clear()
    site.apply(make_resource(site, proxy))
    site.wait_until_applied(orders)
    site.assert_equal(orders, "id")
    again = list_written_ids(site, proxy, orders)
    assert not again & first, "what was done is not done again"
    assert len(again) + len(first) == FILES * FILE


def delete_and_make_again(site: Shop, proxy: FaultProxy, orders: Table) -> None:
    """Delete the pipeline, change the table, create the pipeline again.

    The change is applied to the same index: nothing is exported anew.
    """
    index, before = site.find_physical_index(orders), site.read_documents(orders)
    delete(site)
    wait_until_deleted(site, "a pipeline at rest")
    orders.append(make_rows(FILES * FILE + 1, FILES * FILE + 10, state=lambda n: "later"))
    site.apply(make_resource(site, proxy, deletionPolicy="DeleteIndices"))
    site.wait_until_applied(orders)
    assert site.find_physical_index(orders) == index
    after = site.read_documents(orders)
    assert {name: after[name] for name in before} == before, "no document is written again"
    assert len(after) == len(before) + 10


def wait_until_reported(site: Shop, words: str) -> None:
    """Wait until the status says why the pipeline does not go."""

    def is_said(status: Resource) -> bool:
        conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
        return status.get("phase") == "Deleting" and words in conditions["Ready"]["message"]

    site.wait_until(is_said, f"the status tells of {words!r}")


def test_a_deleted_pipeline_goes_and_comes_again(site: Shop, proxy: FaultProxy) -> None:
    orders = site.create_table("orders", make_rows(1, FILE, state=lambda n: "new"))
    for number in range(1, FILES):
        first = number * FILE + 1
        orders.append(make_rows(first, first + FILE - 1, state=lambda n: "new"))
    delete_while_exporting(site, proxy, orders)
    delete_and_make_again(site, proxy, orders)

    site.wait_until(lambda status: not status.get("currentRun"), "all is quiet")
    index = site.find_physical_index(orders)
    proxy.stop()
    delete(site)
    wait_until_reported(site, "TargetUnavailable")
    site.run_kubectl("annotate", "icdc", site.name, f"{naming.ANNOTATION_RETAIN}=true")
    wait_until_deleted(site, "without OpenSearch")
    assert site.find_physical_index(orders) == index, "the indices are kept"

    proxy.start()
    site.apply(make_resource(site, proxy, deletionPolicy="DeleteIndices"))
    site.wait_until(lambda status: status.get("phase") == "Streaming", "it is taken up again")
    delete(site)
    wait_until_deleted(site, "with its indices")
    assert not site.find_physical_index(orders), "the indices are deleted"
