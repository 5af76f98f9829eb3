"""An index that an administrator brings back to an earlier state is exported anew, or stops.

Its UUID is what it was, and later writes hide what is missing from who looks at numbers alone.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.status.pipeline_status import TableStatus
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.replication.checks import node_check
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Hold, Status
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.target.restoring import (
    empty_shard,
    put_files_back,
    restore,
    save_files,
    take_snapshot,
)
from icdc_testing.target.upgrading import forget_shards

pytestmark = pytest.mark.spark

ALIAS = "things"
INDEX = f"{ALIAS}-000001"

LOSSES: dict[str, Callable[[OpenSearchNode], None]] = {
    "restored in place": lambda node: restore(node, INDEX),
    "a shard emptied": lambda node: empty_shard(node, INDEX),
}


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


def check(spark: SparkSession, url: str, table: str) -> None:
    oracle.assert_equal(
        oracle.read_index(url, ALIAS), oracle.read_expected(spark, f"lake.{table}", ["id"])
    )


def act_amid(run: Callable[[], TableStatus], held: Hold, act: Callable[[], None]) -> TableStatus:
    """Return how a run of the table ends where `act` happens while a request of it is held."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        held.wait()
        act()
        held.release()
        return running.result(120)


@pytest.mark.sampled
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("commits", [0, 1])
def test_an_index_that_lost_writes_is_exported_anew(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    loss: str,
    commits: int,
) -> None:
    pipeline.sync()
    take_snapshot(opensearch, INDEX)
    for statement in ("update {t} set name = 'x' where id = 1", "delete from {t} where id = 2"):
        spark.sql(statement.format(t=f"lake.{table}"))
        pipeline.sync()
    LOSSES[loss](opensearch)
    for number in range(commits):
        spark.sql(f"insert into lake.{table} values ({9 + number}, 'later')")
    pipeline.sync()
    check(spark, clean_indices, table)
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000002"]
    # The new one is then followed.
    spark.sql(f"insert into lake.{table} values (20, 'new')")
    pipeline.sync()
    check(spark, clean_indices, table)
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000002"]


@pytest.mark.sampled
@pytest.mark.parametrize("loss", LOSSES)
def test_an_index_that_lost_writes_stops_the_table_where_that_is_asked_for(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    loss: str,
) -> None:
    pipeline.resource["spec"]["changelog"] = {"onGap": "Stop"}
    pipeline.sync()
    take_snapshot(opensearch, INDEX)
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")
    pipeline.sync()
    LOSSES[loss](opensearch)
    spark.sql(f"insert into lake.{table} values (9, 'later')")
    stalled = pipeline.run_to_stall()
    assert (stalled.reason, stalled.message) == (
        "Gap",
        f"Table {table}: the index {INDEX} was restored, or shards of it were allocated by force, "
        "so the changes since the last applied snapshot are unknown. Raise spec.resync.nonce to "
        "export the table again, or set changelog.onGap to Reexport.",
    )
    assert pipeline.inspect(RunMode.VERIFY)["reason"] == "Gap"
    pipeline.resource["spec"]["resync"] = {"nonce": 1}
    pipeline.sync()
    check(spark, clean_indices, table)


def test_what_is_restored_while_a_batch_is_written_is_not_advanced_over(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    proxy: FaultProxy,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline.sync()
    take_snapshot(opensearch, INDEX)
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")
    pipeline.sync()
    spark.sql(f"insert into lake.{table} values (9, 'later')")
    # The batch is written, and what it is advanced by is asked for.
    held = proxy.hold("_stats", skip=1)
    act_amid(pipeline.sync, held, lambda: restore(opensearch, INDEX))
    assert "was restored, or shards of it were allocated by force" in caplog.text
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000002"]
    check(spark, clean_indices, table)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("held_at", "skip"),
    [("_bulk", 0), ("_stats", 1)],
    ids=["of the batch before", "of the batch itself"],
)
def test_writes_that_a_disk_lost_while_a_batch_was_written_are_not_advanced_over(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    proxy: FaultProxy,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    held_at: str,
    skip: int,
) -> None:
    monkeypatch.setattr(node_check, "STALE_SECONDS", 1.0)
    pipeline.sync()
    if held_at == "_bulk":
        save_files(opensearch, INDEX, tmp_path / "saved")
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")
    pipeline.sync()
    if held_at == "_stats":
        save_files(opensearch, INDEX, tmp_path / "saved")
    spark.sql(f"insert into lake.{table} values (8, 'later'), (9, 'later'), (10, 'later')")
    held = proxy.hold(held_at, skip=skip)
    act_amid(pipeline.sync, held, lambda: put_files_back(opensearch, INDEX, tmp_path / "saved"))
    assert f"the index {INDEX} lost writes that it had acknowledged" in caplog.text
    check(spark, clean_indices, table)
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000002"]


def test_writes_that_a_disk_lost_before_a_batch_was_interrupted_are_not_advanced_over(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    proxy: FaultProxy,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_check, "STALE_SECONDS", 1.0)
    pipeline.sync()
    save_files(opensearch, INDEX, tmp_path / "saved")
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")
    pipeline.sync()
    spark.sql(f"insert into lake.{table} values (8, 'later'), (9, 'later'), (10, 'later')")
    held = proxy.hold("_bulk")
    # Written over the loss, and the run ends before it compares the numbers.
    proxy.add(Status(403), path="_stats", skip=1)
    put_back = partial(put_files_back, opensearch, INDEX, tmp_path / "saved")
    assert act_amid(pipeline.run_to_stall, held, put_back).reason == "Unauthorized"
    pipeline.sync()
    assert f"the index {INDEX} lost writes that it had acknowledged" in caplog.text
    check(spark, clean_indices, table)
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000002"]


def test_an_index_of_the_version_before_goes_on_without_an_export(
    pipeline: Harness, clean_indices: str, spark: SparkSession, table: str
) -> None:
    pipeline.sync()
    forget_shards(clean_indices, ALIAS)
    pipeline.sync()
    spark.sql(f"insert into lake.{table} values (9, 'later')")
    pipeline.sync()
    check(spark, clean_indices, table)
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [INDEX]
    state = oracle.request(f"{clean_indices}/icdc-state/_doc/{ALIAS}")["_source"]
    assert len(state["shards"]["maxSeqNos"]) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("loss", LOSSES)
def test_an_idle_table_of_the_version_before_notices_a_loss_from_its_first_run_on(
    opensearch: OpenSearchNode,
    pipeline: Harness,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    loss: str,
) -> None:
    pipeline.sync()
    take_snapshot(opensearch, INDEX)
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")
    pipeline.sync()
    forget_shards(clean_indices, ALIAS)
    # Nobody commits: only the runs themselves can record which index they found.
    pipeline.sync()
    LOSSES[loss](opensearch)
    pipeline.sync()
    check(spark, clean_indices, table)
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000002"]
