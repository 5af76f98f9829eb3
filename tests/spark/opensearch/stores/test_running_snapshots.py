"""Indices of which a snapshot is being taken: OpenSearch deletes none of them before its end."""

import pytest

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores import indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.restoring import take_slowly

pytestmark = pytest.mark.spark


def test_what_nobody_needs_any_more_is_deleted_after_the_end_of_a_snapshot(
    opensearch: OpenSearchNode, admin: Client, index: PhysicalIndex
) -> None:
    lines = [sink.upsert("a", {"v": 1}), sink.upsert("bad", {"v": "x"})]
    assert sink.write(opensearch.url, lines).error is None
    refused = "orders-dead-letters"
    with take_slowly(opensearch, index.name, refused):
        assert not indices.delete(admin, index.name)
        assert indices.drop_orphans(admin, sink.OWNER, keep=frozenset(), below=9) == []
        assert not indices.delete(admin, refused)
        assert admin.indices.exists(index=f"{index.name},{refused}")
    assert indices.drop_orphans(admin, sink.OWNER, keep=frozenset(), below=9) == [index.name]
    assert indices.delete(admin, refused)
    assert indices.delete(admin, index.name), "one that does not exist"
