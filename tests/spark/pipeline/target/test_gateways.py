"""What a gateway before OpenSearch says in its place is not taken for the word of OpenSearch."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores import access
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Status
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

PAGE = b"<html><h1>default backend</h1></html>"
PATIENCE_SECONDS = 3.0
"""Seconds for which requests are repeated; a minute in production."""


@pytest.fixture
def harness(spark: SparkSession, lake: Lake, proxy: FaultProxy, tmp_path: Path) -> Harness:
    """A pipeline with a table of two rows, behind the proxy."""
    lake.sql("create namespace if not exists lake.db")
    table = lake.create("id int, name string")
    lake.sql(f"insert into lake.{table} values (1, 'a'), (2, 'b')")
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    return Harness(spark, proxy.url, tmp_path, [entry])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("_alias", 404),
        ("icdc-state/_doc", 200),
        ("things-000001/_bulk", 400),
    ],
)
def test_a_gateway_that_has_lost_its_route_for_a_moment_makes_no_difference(
    proxy: FaultProxy, clean_indices: str, harness: Harness, path: str, status: int
) -> None:
    harness.sync()
    table = harness.resource["spec"]["tables"][0]["name"]
    readers = {"index": "things-000001", "alias": "things", "filter": {"term": {"id": 1}}}
    oracle.request(f"{clean_indices}/_aliases", "POST", {"actions": [{"add": readers}]})
    harness.spark.sql(f"update lake.{table} set name = 'x' where id = 2")

    rule = proxy.add(Status(status, body=PAGE), path=path)
    synced = harness.sync()

    assert (rule.hits, synced.rows_upserted, synced.dead_letters) == (1, 3, 0)
    aliases = oracle.request(f"{clean_indices}/things/_alias/things")
    assert aliases == {"things-000001": {"aliases": {"things": {"filter": readers["filter"]}}}}
    oracle.assert_equal(
        oracle.read_index(clean_indices, "things-000001"),
        oracle.read_expected(harness.spark, f"lake.{table}", ["id"]),
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (308, "answered 308, a redirect, which is not followed: put the address to which it leads"),
        (404, "(status 404) is not from OpenSearch: check address and path in sink.opensearch"),
        (200, "(status 200) is not from OpenSearch: check address and path in sink.opensearch"),
    ],
)
def test_an_address_that_is_not_that_of_opensearch_says_so_until_it_is(
    proxy: FaultProxy, harness: Harness, monkeypatch: pytest.MonkeyPatch, status: int, said: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Client, "patience", PATIENCE_SECONDS)
        patch.setattr(access, "StateStore", partial(StateStore, patience=PATIENCE_SECONDS))
        proxy.add(Status(status, body=PAGE), times=None)
        waiting = harness.run_to_stall()
    assert (waiting.state, waiting.reason) == ("Pending", "TargetUnavailable")
    assert said in (waiting.message or "")
    proxy.clear()
    assert harness.sync().rows_upserted == 2
