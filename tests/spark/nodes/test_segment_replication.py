"""Replicas that show writes later than their primary: those of indices with segment replication.

OpenSearch copies whole segments to them after each refresh, here at a few bytes a second. By
default a search asks any copy.
"""

import pytest

from icdc_api.job.modes import RunMode
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.client.scan import (
    NamedIndex,
    close_scan,
    open_scan,
    read_documents,
    read_slice,
)
from icdc_spark.opensearch.stores import indices
from icdc_testing.target import oracle
from icdc_testing.target.nodes.three_nodes import ThreeNodes

from .conftest import Follow

pytestmark = pytest.mark.spark

COPIES = 3
FIRST_ADDED, ADDED = 100_000, 40
"""Of the first change of the table."""
SEGMENTS = {"number_of_replicas": COPIES - 1, "replication.type": "SEGMENT"}
SLOW = {
    "indices.replication.max_bytes_per_sec": "100b",
    "indices.recovery.max_bytes_per_sec": "100b",
    # Searches ask one copy after the other, not the quickest.
    "cluster.routing.use_adaptive_replica_selection": False,
}


def count(client: Client, index: str) -> int:
    """Return the number of documents as it is counted."""
    return indices.refresh_and_count(client, index)


def scan(client: Client, index: str) -> int:
    """Return the number of documents in a point in time."""
    opened = open_scan(client, index, 0)
    try:
        return sum(1 for _ in read_slice(opened, 0))
    finally:
        close_scan(client, opened)


def find(client: Client, index: str) -> int:
    """Return how many of the documents that were added last are found by their ids."""
    added = [str(number) for number in range(FIRST_ADDED, FIRST_ADDED + ADDED)]
    return sum(1 for _ in read_documents(NamedIndex(client.connection, index, shards=1), added))


def test_documents_that_replicas_do_not_show_yet_are_found(
    nodes: ThreeNodes, follow: Follow
) -> None:
    followed = follow()
    table, pipeline = followed.table, followed.pipeline
    pipeline.resource["spec"]["sink"]["opensearch"]["indexSettings"] = SEGMENTS
    followed.settle()
    nodes.wait_until_settled()
    nodes.do("PUT", "/_cluster/settings", {"persistent": SLOW})
    try:
        table.change(1)
        assert pipeline.run().outcome is None
        client, index = open_client(Connection((table.url,))), followed.index
        rows = len(oracle.read_expected(table.spark, table.table, ["id"]))
        numbers = {count: rows, scan: rows, find: ADDED}
        seen = {read: [read(client, index) for _ in range(COPIES)] for read in numbers}
        assert seen == {read: [wanted] * COPIES for read, wanted in numbers.items()}
        answer = pipeline.inspect(RunMode.VERIFY)
        assert answer["equal"], answer
    finally:
        nodes.do("PUT", "/_cluster/settings", {"persistent": dict.fromkeys(SLOW)})
    table.check()
