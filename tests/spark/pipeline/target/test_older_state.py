"""A state document that is older than its index is noticed: the table is exported anew.

To go on from it would write with ordinals that were used before, and take documents of later
batches for its own.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.naming import STATE_INDEX
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.target.node_calls import call
from icdc_testing.target.restoring import restore, take_snapshot
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

ALIAS = "things"
INDEX = f"{ALIAS}-000001"


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'10'), (2,'20'), (3,'none')")
    return name


@pytest.fixture
def pipeline(spark: SparkSession, proxy: FaultProxy, table: str, tmp_path: Path) -> Harness:
    entry = {"name": table, "identifierColumns": ["id"], "index": ALIAS}
    # What is no number is refused: there are dead letters of every batch.
    return Harness(spark, proxy.url, tmp_path, [{**entry, "mapping": {"name": {"type": "long"}}}])


class Copies:
    """What an administrator keeps of the state, and puts back."""

    def __init__(self, node: OpenSearchNode) -> None:
        self.node = node
        self.source: dict[str, Any] = {}

    def take(self) -> None:
        here = f"{self.node.url}/{STATE_INDEX}/_doc/{ALIAS}"
        self.source = oracle.request(here)["_source"]
        take_snapshot(self.node, STATE_INDEX, INDEX)

    def put_back(self, source: dict[str, Any] | None = None) -> None:
        path = f"/{STATE_INDEX}/_doc/{ALIAS}"
        assert call(self.node.url, "PUT", path, source or self.source).status == 200

    def put_back_after_deletion(self) -> None:
        assert call(self.node.url, "DELETE", f"/{STATE_INDEX}").status == 200
        assert call(self.node.url, "PUT", f"/{STATE_INDEX}").status == 200
        path = f"/{STATE_INDEX}/_doc/{ALIAS}"
        assert call(self.node.url, "PUT", path, self.source).status == 201

    def restore_in_place(self) -> None:
        restore(self.node, STATE_INDEX)

    def restore_after_deletion(self) -> None:
        assert call(self.node.url, "DELETE", f"/{STATE_INDEX}").status == 200
        restore(self.node, STATE_INDEX, close=False)

    def restore_both(self) -> None:
        restore(self.node, STATE_INDEX, INDEX)

    def put_back_of_the_version_before(self) -> None:
        """As one that did not record what a copy is known by."""
        unknown = {"checksum", "shards", "revision", "storeHistory"}
        content = {key: value for key, value in self.source.items() if key not in unknown}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        self.put_back(content | {"checksum": hashlib.sha256(text.encode()).hexdigest()})


WAYS: dict[str, Callable[[Copies], None]] = {
    "a document put back": Copies.put_back,
    "a document put back into a new index": Copies.put_back_after_deletion,
    "icdc-state restored in place": Copies.restore_in_place,
    "icdc-state restored after it was deleted": Copies.restore_after_deletion,
    "icdc-state and the index restored": Copies.restore_both,
    "a document that does not know what it was written into": (
        Copies.put_back_of_the_version_before
    ),
}


def change(spark: SparkSession, table: str, value: int) -> None:
    spark.sql(f"update lake.{table} set name = '{value}' where id = 1")
    spark.sql(f"update lake.{table} set name = 'none {value}' where id = 3")


def check(spark: SparkSession, url: str, table: str) -> None:
    wanted = oracle.read_expected(spark, f"lake.{table}", ["id"])
    refused = wanted.pop("3")
    oracle.assert_equal(oracle.read_index(url, ALIAS), wanted)
    dead_letters = oracle.read_index(url, f"{ALIAS}-dead-letters")
    assert [json.loads(letter["document"]) for letter in dead_letters.values()] == [refused]


def list_aliased(url: str) -> list[str]:
    return sorted(oracle.request(f"{url}/_alias/{ALIAS}"))


@pytest.mark.sampled
@pytest.mark.parametrize("way", WAYS)
def test_a_state_document_from_before_is_followed_by_an_export(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    way: str,
) -> None:
    copies = Copies(opensearch)
    pipeline.sync()
    copies.take()
    for value in (11, 12):
        change(spark, table, value)
        pipeline.sync()
    WAYS[way](copies)
    change(spark, table, 13)
    pipeline.sync()
    check(spark, clean_indices, table)
    assert list_aliased(clean_indices) == [f"{ALIAS}-000002"]
    # Then it is followed as any other, and not exported again.
    change(spark, table, 14)
    pipeline.sync()
    check(spark, clean_indices, table)
    assert list_aliased(clean_indices) == [f"{ALIAS}-000002"]


@pytest.mark.sampled
@pytest.mark.parametrize("way", ["a document put back", "icdc-state restored in place"])
def test_a_state_document_from_before_stops_the_table_where_that_is_asked_for(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    way: str,
) -> None:
    pipeline.resource["spec"]["changelog"] = {"onGap": "Stop"}
    copies = Copies(opensearch)
    pipeline.sync()
    copies.take()
    change(spark, table, 11)
    pipeline.sync()
    WAYS[way](copies)
    for _ in range(2):
        stalled = pipeline.run_to_stall()
        assert stalled.reason == "Gap"
        assert "older than the index" in str(stalled.message)
        assert "Raise spec.resync.nonce to export the table again" in str(stalled.message)
    assert list_aliased(clean_indices) == [INDEX]
    pipeline.resource["spec"]["resync"] = {"nonce": 1}
    pipeline.sync()
    check(spark, clean_indices, table)


def test_a_repair_by_a_state_document_from_before_writes_nothing(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    clean_indices: str,
    spark: SparkSession,
    table: str,
) -> None:
    copies = Copies(opensearch)
    pipeline.sync()
    copies.take()
    change(spark, table, 11)
    pipeline.sync()
    copies.put_back()
    verified = pipeline.inspect(RunMode.VERIFY)
    assert "the next run exports the table anew (gap: the state document" in verified["message"]
    repaired = pipeline.inspect(RunMode.REPAIR)
    assert repaired["reason"] == "Gap"
    assert "nothing is repaired" in repaired["message"]
    check(spark, clean_indices, table)


def test_a_continuous_run_notices_that_icdc_state_is_another_one(
    pipeline: Harness, clean_indices: str, spark: SparkSession, table: str
) -> None:
    pipeline.resource["spec"]["retry"] = {"initialSeconds": 1}
    request, stop = pipeline.make_request(continuous=True), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(request, spark, stop).run)
        try:
            here = f"/_alias/{ALIAS}"
            wait_until(
                lambda: call(clean_indices, "GET", here).status == 200, "export", seconds=120
            )
            wait_until(
                lambda: oracle.request(f"{clean_indices}/{STATE_INDEX}/_doc/{ALIAS}")["_source"][
                    "applied"
                ],
                "it is followed",
            )
            assert call(clean_indices, "DELETE", f"/{STATE_INDEX}").status == 200
            wait_until(
                lambda: list_aliased(clean_indices) == [f"{ALIAS}-000002"],
                "a new export",
                seconds=120,
            )
        finally:
            stop.set()
        assert running.result(WAIT_SECONDS).outcome is None
    check(spark, clean_indices, table)
    hidden = oracle.request(f"{clean_indices}/{STATE_INDEX}/_settings/index.hidden")
    assert hidden[STATE_INDEX]["settings"]["index"]["hidden"] == "true"
