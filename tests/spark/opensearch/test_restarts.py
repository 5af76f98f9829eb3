"""A node that starts, as OpenSearch answers then: what passes by itself needs no person."""

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.stores import identity, indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import ItemErrors, Status
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import read_documents

pytestmark = pytest.mark.spark


def test_a_node_that_has_not_recovered_yet_is_unavailable_and_not_read_only(
    starting_node: str,
) -> None:
    admin = open_client(Connection(hosts=(starting_node,)))
    admin.patience = 0.1
    store = StateStore(Connection(hosts=(starting_node,)), patience=0.1)
    for call_it in (
        lambda: identity.check_identity(admin, sink.INDEX, "uuid"),
        lambda: indices.read_mapping(admin, sink.INDEX),
        lambda: store.load("orders"),
    ):
        with pytest.raises(TargetUnavailable, match=r"503 \(cluster_block_exception\)"):
            call_it()
    store.close()
    admin.close()


def test_an_index_that_comes_back_is_no_gap(proxy: FaultProxy, index: PhysicalIndex) -> None:
    """As when the node recovers between two questions."""
    through = open_client(Connection(hosts=(proxy.url,)))
    unknown = Status(404, kind="index_not_found_exception")
    for path, ask in (
        ("_stats", lambda: identity.check_identity(through, index.name, index.uuid)),
        ("_mapping", lambda: indices.read_mapping(through, index.name)),
    ):
        rule = proxy.add(unknown, path=path)
        ask()
        assert rule.hits == 1
    through.close()


def test_a_batch_goes_on_after_a_block_that_passes(proxy: FaultProxy, index: PhysicalIndex) -> None:
    block = "cluster_block_exception"
    whole = proxy.add(Status(503, kind=block), path="_bulk")
    item = proxy.add(ItemErrors(lambda w: w.id == "a", status=503, kind=block), path="_bulk")
    lines = [sink.upsert("a", {"v": 1}), sink.upsert("b", {"v": 2})]
    result = sink.run_task(sink.make_batches(lines), sink.make_target(proxy.url))
    assert (result.error, result.upserted, whole.hits, item.hits) == (None, 2, 1, 1)
    assert set(read_documents(proxy.upstream, index.name)) == {"a", "b"}
