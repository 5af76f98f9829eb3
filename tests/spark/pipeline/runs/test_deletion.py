"""The last run of a deleted pipeline: it takes away what is the pipeline's, and nothing else."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import FailureClass
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing import ROOT
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target.node_calls import call
from icdc_testing.target.restoring import take_slowly
from icdc_testing.user_programs import pages

pytestmark = pytest.mark.spark

PAGE = ROOT / "docs" / "uninstalling.md"
OURS = Ownership(pipeline="default/test", alias="people")
FOREIGN = ["people-000041", "people-archive"]
"""Indices of such a name that nobody's mark is on."""


def list_names(url: str) -> list[str]:
    listed = json.loads(call(url, "GET", "/_cat/indices?format=json&expand_wildcards=all").body)
    return sorted(index["index"] for index in listed if index["index"] != "icdc-state")


def has_state(url: str, alias: str = "people") -> bool:
    return call(url, "GET", f"/icdc-state/_doc/{alias}").status == 200


def list_tags(lake: Lake, table: str) -> list[str]:
    rows = lake.sql(f"select name from lake.{table}.refs where type = 'TAG' order by name")
    return [row[0] for row in rows]


def type_commands(block: str, url: str) -> str:
    """Run the lines as somebody does for whom SEARCH is the address of OpenSearch."""
    failing = block.replace("curl", "curl --silent --fail-with-body")
    return pages.type_commands(failing, {**os.environ, "SEARCH": url}, seconds=60)


def delete(harness: Harness) -> RunReport:
    report = harness.run(RunMode.DELETE)
    assert report.outcome is None, report.outcome
    return report


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'one'), (2, 'two')")
    return name


@pytest.fixture
def people(spark: SparkSession, table: str, clean_indices: str, tmp_path: Path) -> Harness:
    """A pipeline that was exported, with what else it may leave behind."""
    harness = Harness(
        spark,
        clean_indices,
        tmp_path,
        [{"name": table, "identifierColumns": ["id"], "index": "people"}],
    )
    harness.sync()
    return harness


def test_everything_of_the_pipeline_goes_whenever_the_run_before_died(
    people: Harness, lake: Lake, table: str, clean_indices: str
) -> None:
    admin = open_client(Connection(hosts=(clean_indices,)))
    indices.create(admin, OURS, {}, {})  # half-filled by an export that was cut off
    dead_letters.ensure_index(admin, OURS)
    for name in FOREIGN:
        admin.indices.create(index=name)
    assert [tag[:12] for tag in list_tags(lake, table)] == ["icdc-people-"]
    indices.delete(admin, "people-000001")  # as far as a run came that died
    admin.close()

    report = delete(people)
    assert list_names(clean_indices) == FOREIGN
    assert not has_state(clean_indices)
    assert list_tags(lake, table) == []
    assert report.tables[0].message == (
        "people: deleted people-000002, people-dead-letters; "
        "not made by this pipeline, and left: people-000041"
    )

    again = delete(people)
    assert list_names(clean_indices) == FOREIGN
    assert again.result is not None
    assert again.result["tables"][0]["deleted"] == []
    people.sync()
    assert "people-000042" in list_names(clean_indices), "it can be made anew"


def test_a_pipeline_of_whose_index_a_snapshot_is_being_taken_is_deleted_after_its_end(
    opensearch: OpenSearchNode, people: Harness, clean_indices: str
) -> None:
    client = open_client(Connection(hosts=(clean_indices,)))
    indices.create(client, OURS, {}, {})
    client.close()
    with take_slowly(opensearch, "people-000001"):
        outcome = people.run(RunMode.DELETE).outcome
        assert outcome is not None
        assert outcome.failure_class == FailureClass.TARGET_UNAVAILABLE
        assert "people-000001 cannot be deleted before the end of a snapshot" in outcome.message
        assert list_names(clean_indices) == ["people-000001"], "all others are deleted"
        assert has_state(clean_indices)
    delete(people)
    assert list_names(clean_indices) == []


def test_a_pipeline_that_is_created_again_and_deleted_leaves_what_the_page_says(
    spark: SparkSession, people: Harness, lake: Lake, table: str, tmp_path: Path, clean_indices: str
) -> None:
    (tags,) = pages.list_blocks(PAGE, "sql tags")
    query = tags.replace("lake.shop.orders", f"lake.{table}")
    assert len(lake.sql(query)) == 1
    entry = {"name": table, "identifierColumns": ["id"], "index": "people"}
    again = tmp_path / "again"
    again.mkdir()
    delete(Harness(spark, clean_indices, again, [entry]))
    assert list_tags(lake, table) == []
    assert lake.sql(query) == []
    (listing,) = pages.list_blocks(PAGE, "sh indices")
    assert "icdc-state" in type_commands(listing.replace("orders", "people"), clean_indices)
    (state,) = pages.list_blocks(PAGE, "sh state")
    assert '"count":0' in type_commands(state, clean_indices)
    assert type_commands(listing.replace("orders", "people"), clean_indices) == ""


def test_the_index_of_another_pipeline_is_left_alone(
    spark: SparkSession, people: Harness, lake: Lake, table: str, tmp_path: Path, clean_indices: str
) -> None:
    entry: dict[str, Any] = {"name": table, "identifierColumns": ["id"], "index": "people"}
    report = delete(Harness(spark, clean_indices, tmp_path, [entry], name="other"))
    assert report.tables[0].reason == "AliasTaken"
    assert "'default/test'" in (report.tables[0].message or "")
    assert (list_names(clean_indices), has_state(clean_indices)) == (["people-000001"], True)
    assert [tag[:12] for tag in list_tags(lake, table)] == ["icdc-people-"]


@pytest.mark.parametrize("missing", ["table", "catalog"])
def test_a_source_that_is_gone_keeps_no_index(
    missing: str, people: Harness, lake: Lake, table: str, clean_indices: str
) -> None:
    if missing == "table":
        lake.sql(f"drop table lake.{table}")
    else:
        people.resource["spec"]["catalog"]["properties"] = {"type": "rest", "uri": "http://[::1]:1"}
    # Somebody took our mark off the index; the state document still knows it.
    assert call(clean_indices, "PUT", "/people-000001/_mapping", {"_meta": {}}).status == 200
    message = delete(people).tables[0].message or ""
    assert (list_names(clean_indices), has_state(clean_indices)) == ([], False)
    assert ("may be left until it expires" in message) == (missing == "catalog"), message


def test_a_run_that_is_asked_to_end_or_outranked_is_not_done(
    spark: SparkSession, people: Harness, clean_indices: str
) -> None:
    stop = threading.Event()
    stop.set()
    ended = PipelineRun(people.make_request(RunMode.DELETE), spark, stop).run()
    assert ended.outcome is not None
    assert ended.outcome.failure_class == FailureClass.NODE_LOST
    late = people.run(RunMode.DELETE, epoch=0)
    assert late.outcome is not None
    assert late.outcome.failure_class == FailureClass.FENCED
    assert (list_names(clean_indices), has_state(clean_indices)) == (["people-000001"], True)
