"""An export into which somebody else writes: it is begun anew once, then the table says why.

Whatever is open, a higher resync nonce wins: it is what a person can always do.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.target.disturbing import (
    Disturb,
    delete_first,
    delete_index,
    insert_foreign,
    list_aliased,
    run_disturbed,
    write_newer,
)
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark

ALIAS = "things"
INDICES = (f"{ALIAS}-000001", f"{ALIAS}-000002")


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'a'), (2,'b'), (3,'c')")
    return name


@pytest.fixture
def pipeline(spark: SparkSession, proxy: FaultProxy, table: str, tmp_path: Path) -> Harness:
    entry = {"name": table, "identifierColumns": ["id"], "index": ALIAS}
    return Harness(spark, proxy.url, tmp_path, [entry])


@pytest.mark.parametrize("disturb", [insert_foreign, delete_first])
def test_an_export_that_somebody_disturbs_is_begun_anew(
    pipeline: Harness,
    proxy: FaultProxy,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    disturb: Disturb,
) -> None:
    status = run_disturbed(pipeline, proxy, clean_indices, disturb, INDICES[:1])
    assert status.reason is None
    assert list_aliased(clean_indices, ALIAS) == [f"{ALIAS}-000002"]
    wanted = oracle.read_expected(spark, f"lake.{table}", ["id"])
    oracle.assert_equal(oracle.read_index(clean_indices, ALIAS), wanted)
    assert call(clean_indices, "GET", f"/{ALIAS}-000001").status == 404


def test_an_export_that_is_disturbed_twice_stalls_until_somebody_asks_again(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str, spark: SparkSession, table: str
) -> None:
    status = run_disturbed(pipeline, proxy, clean_indices, insert_foreign, INDICES)
    assert status.reason == "TargetInvalid"
    assert "something else writes into or deletes from indices" in str(status.message)
    assert list_aliased(clean_indices, ALIAS) == []
    proxy.clear()
    assert pipeline.run_to_stall().reason == "TargetInvalid"
    assert proxy.list_writes(f"{ALIAS}-000002") == []
    pipeline.resource["spec"]["resync"] = {"nonce": 1}
    pipeline.sync()
    assert list_aliased(clean_indices, ALIAS) == [f"{ALIAS}-000003"]
    wanted = oracle.read_expected(spark, f"lake.{table}", ["id"])
    oracle.assert_equal(oracle.read_index(clean_indices, ALIAS), wanted)


def test_an_export_into_newer_documents_says_what_was_in_the_way(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str
) -> None:
    status = run_disturbed(pipeline, proxy, clean_indices, write_newer, INDICES, before="_bulk")
    assert status.reason == "TargetInvalid"
    found = "(a document in it, or a dead letter, is newer than what was written)"
    assert found in str(status.message)
    assert "another run" not in str(status.message)
    assert list_aliased(clean_indices, ALIAS) == []


def test_an_index_that_is_deleted_twice_while_it_is_filled_stalls_and_is_not_filled_again(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str
) -> None:
    """As a policy does that deletes indices of such a name by their size or age."""
    status = run_disturbed(pipeline, proxy, clean_indices, delete_index, INDICES, before="_bulk")
    assert status.reason == "TargetInvalid"
    assert f"the index {INDICES[1]} no longer exists: it was deleted while it was filled" in str(
        status.message
    )
    assert "a policy on a wildcard" in str(status.message)
    proxy.clear()
    assert pipeline.run_to_stall().reason == "TargetInvalid"
    assert {write.index for write in proxy.list_writes()} <= {"icdc-state"}


def test_keys_that_occur_twice_hide_no_document_of_somebody_else(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str, lake: Lake, table: str
) -> None:
    lake.sql(f"insert into lake.{table} values (3,'twin'), (3,'triplet'), (4,'d'), (4,'twin')")
    status = run_disturbed(pipeline, proxy, clean_indices, insert_foreign, INDICES[:1])
    assert (status.reason, status.duplicates and status.duplicates.count) == (None, 2)
    assert list_aliased(clean_indices, ALIAS) == [f"{ALIAS}-000002"]
    assert sorted(oracle.read_index(clean_indices, ALIAS)) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("exported", [False, True], ids=["an export", "a batch"])
def test_a_higher_nonce_wins_over_what_cannot_be_finished(
    pipeline: Harness,
    proxy: FaultProxy,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    exported: bool,
) -> None:
    if exported:
        pipeline.sync()
        spark.sql(f"insert into lake.{table} values (4, 'd')")
    # The index takes no writes any more, and nobody heals it.
    held = proxy.hold("_bulk")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.run_to_stall)
        held.wait()
        block = {"index.blocks.write": True}
        assert call(clean_indices, "PUT", f"/{ALIAS}-000001/_settings", block).status == 200
        held.release()
        assert running.result(120).reason == "TargetReadOnly"
    assert pipeline.run_to_stall().reason == "TargetReadOnly"
    pipeline.resource["spec"]["resync"] = {"nonce": 1}
    for _ in range(2):
        pipeline.sync()
        assert list_aliased(clean_indices, ALIAS) == [f"{ALIAS}-000002"]
    wanted = oracle.read_expected(spark, f"lake.{table}", ["id"])
    oracle.assert_equal(oracle.read_index(clean_indices, ALIAS), wanted)
