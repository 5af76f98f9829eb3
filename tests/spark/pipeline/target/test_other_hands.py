"""Other hands on the target of a pipeline: what they change is put back, or stalls and says so."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport
from icdc_api.naming import STATE_INDEX
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Status
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

ALIAS, FIRST = "things", "things-000001"
ROWS = 300


class ExportedPipeline:
    """A pipeline that has exported a table of 300 rows."""

    def __init__(self, spark: SparkSession, lake: Lake, proxy: FaultProxy, folder: Path) -> None:
        lake.sql("create namespace if not exists lake.db")
        self.lake, self.url = lake, proxy.upstream
        self.table = lake.create("id int, name string")
        lake.sql(f"insert into lake.{self.table} select id, 'a' from range({ROWS})")
        entry = {"name": self.table, "identifierColumns": ["id"], "index": ALIAS}
        self.harness = Harness(spark, proxy.url, folder, [entry])
        self.harness.sync()

    def sql(self, statement: str) -> None:
        self.lake.sql(statement.format(t=f"lake.{self.table}"))

    def call(self, path: str, method: str = "GET", body: object = None) -> dict[str, Any]:
        return oracle.request(f"{self.url}/{path}", method, body)

    def change_alias(self, *actions: dict[str, Any]) -> None:
        self.call("_aliases", "POST", {"actions": list(actions)})

    def list_served(self) -> list[str]:
        """Return the indices that readers see."""
        aliases = self.call("*/_alias")
        return sorted(name for name, body in aliases.items() if ALIAS in body["aliases"])

    def check(self) -> None:
        """Require an equal index, for readers and by the pipeline's own comparison."""
        wanted = oracle.read_expected(self.harness.spark, f"lake.{self.table}", ["id"])
        oracle.assert_equal(oracle.read_index(self.url, ALIAS), wanted)
        compared = self.harness.inspect(RunMode.VERIFY)
        assert compared.get("equal") is True, compared


@pytest.fixture
def pipeline(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, tmp_path: Path
) -> ExportedPipeline:
    return ExportedPipeline(spark, lake, proxy, tmp_path)


REMOVED = {"remove": {"index": FIRST, "alias": ALIAS}}


def test_an_alias_that_somebody_removed_is_back_after_one_poll(pipeline: ExportedPipeline) -> None:
    request, stop = pipeline.harness.make_request(continuous=True), threading.Event()

    def read_restored() -> object:
        return RunReport.read(Path(request.report_path)).tables[0].alias_restored_at

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(request, pipeline.harness.spark, stop).run)
        try:
            wait_until(lambda: Path(request.report_path).exists(), "the run has begun")
            assert read_restored() is None
            pipeline.change_alias(REMOVED)
            wait_until(lambda: pipeline.list_served() == [FIRST], "the alias is back")
            wait_until(lambda: read_restored() is not None, "it is reported")
        finally:
            stop.set()
        assert running.result(WAIT_SECONDS).outcome is None


def test_a_comparison_says_that_readers_do_not_see_the_index(pipeline: ExportedPipeline) -> None:
    pipeline.change_alias(REMOVED)
    compared = pipeline.harness.inspect(RunMode.VERIFY)
    assert (compared["reason"], compared["message"]) == (
        "TargetInvalid",
        f"Alias '{ALIAS}' was missing, so readers do not see index {FIRST}. The next run of the "
        "pipeline restores the alias, unless it belongs to somebody else now.",
    )
    assert pipeline.list_served() == []
    assert pipeline.harness.inspect(RunMode.REPAIR)["equal"] is True
    assert pipeline.list_served() == [FIRST]


def test_an_alias_on_somebody_elses_index_stalls_the_table_and_nothing_is_written(
    pipeline: ExportedPipeline,
) -> None:
    pipeline.call("things-000002", "PUT")
    added = {"add": {"index": "things-000002", "alias": ALIAS}}
    pipeline.change_alias(REMOVED, added)
    pipeline.sql("update {t} set name = 'b' where id = 1")
    status = pipeline.harness.run_to_stall()
    assert status.reason == "AliasTaken"
    assert "'things-000002', which was not made by a pipeline" in (status.message or "")
    assert pipeline.list_served() == ["things-000002"]
    assert oracle.read_index(pipeline.url, FIRST)["1"] == {"id": 1, "name": "a"}
    pipeline.call("things-000002", "DELETE")
    pipeline.harness.sync()
    pipeline.check()


def test_a_pipeline_that_was_removed_below_its_index_stalls_and_no_document_vanishes(
    pipeline: ExportedPipeline,
) -> None:
    setting = f"{FIRST}/_settings"
    pipeline.call(setting, "PUT", {"index.final_pipeline": "gone"})
    before = oracle.read_index(pipeline.url, ALIAS)
    pipeline.sql("update {t} set name = 'b'")
    status = pipeline.harness.run_to_stall()
    assert status.reason == "TargetInvalid"
    assert "pipeline with id [gone] does not exist" in (status.message or "")
    assert oracle.read_index(pipeline.url, ALIAS) == before
    compared = pipeline.harness.inspect(RunMode.VERIFY)
    assert compared["reason"] == "TargetInvalid"
    assert "index.final_pipeline is gone" in compared["message"]
    pipeline.call(setting, "PUT", {"index.final_pipeline": None})
    pipeline.harness.sync()
    pipeline.check()


def test_rows_that_are_refused_by_hundreds_stall_the_table_and_no_document_vanishes(
    pipeline: ExportedPipeline,
) -> None:
    before = oracle.read_index(pipeline.url, ALIAS)
    pipeline.sql("update {t} set name = repeat('x', 33000)")
    mapping = {"properties": {"name": {"type": "keyword", "ignore_above": 40000}}}
    pipeline.call(f"{FIRST}/_mapping", "PUT", mapping)
    status = pipeline.harness.run_to_stall()
    assert status.reason == "TargetInvalid"
    assert f"refused {ROWS} of {ROWS} rows of a batch for one reason" in (status.message or "")
    assert oracle.read_index(pipeline.url, ALIAS) == before
    mapping["properties"]["name"]["ignore_above"] = 8191
    pipeline.call(f"{FIRST}/_mapping", "PUT", mapping)
    assert pipeline.harness.sync().dead_letters == 0
    pipeline.check()


def test_a_document_with_a_version_above_ours_is_left_alone_until_the_next_export(
    pipeline: ExportedPipeline,
) -> None:
    path = f"{FIRST}/_doc/7?version=1800000000000&version_type=external"
    pipeline.call(path, "PUT", {"id": 7, "name": "theirs"})
    pipeline.sql("update {t} set name = 'b' where id in (7, 8)")
    pipeline.harness.sync()
    compared = pipeline.harness.inspect(RunMode.VERIFY)
    assert (compared["equal"], compared["different"]) == (False, {"count": 1, "samples": ["7"]})
    pipeline.harness.resource["spec"]["resync"] = {"nonce": 1}
    pipeline.harness.sync()
    pipeline.check()


@pytest.mark.parametrize(
    "skipped", [pytest.param(1, id="the intent"), pytest.param(2, id="the advance")]
)
def test_a_change_of_the_state_that_was_acknowledged_and_lost_makes_no_difference(
    pipeline: ExportedPipeline, proxy: FaultProxy, skipped: int
) -> None:
    """The claim is the first change; what is lost would be done again with other rows."""
    at = pipeline.call(f"{STATE_INDEX}/_doc/{ALIAS}")
    lie = {
        "_index": STATE_INDEX,
        "_id": ALIAS,
        "_version": at["_version"] + skipped + 1,
        "_seq_no": at["_seq_no"] + skipped + 1,
        "_primary_term": at["_primary_term"],
    }
    rule = proxy.add(
        Status(200, body=json.dumps(lie).encode()), method="PUT", path=STATE_INDEX, skip=skipped
    )
    pipeline.sql("update {t} set name = 'b' where id = 1")
    pipeline.harness.sync()
    assert rule.hits == 1
    pipeline.sql("update {t} set name = 'a' where id = 1")
    pipeline.harness.sync()
    pipeline.check()


@pytest.mark.parametrize("then", ["changed once more", "rolled back"])
def test_a_batch_whose_intent_was_acknowledged_and_lost_leaves_no_trace_when_its_driver_dies(
    pipeline: ExportedPipeline, proxy: FaultProxy, then: str
) -> None:
    """The next run knows of no batch, and its ordinal is used again, for other rows."""
    lie = {"_index": STATE_INDEX, "_id": ALIAS, "_version": 99, "_seq_no": 99, "_primary_term": 1}
    begun = '"intent": ?{"kind": ?"Changelog"'
    answer = Status(200, body=json.dumps(lie).encode())
    lost = proxy.add(answer, method="PUT", path=STATE_INDEX, body=begun)
    # It dies before the advance: that is the last request of a run that has no memory after it.
    advance = '"intent": ?null.*"lastOrdinal": ?2'
    dead = proxy.add(Status(401), method="PUT", path=STATE_INDEX, body=advance, times=None)
    before = pipeline.lake.read_head(pipeline.table)
    pipeline.sql("update {t} set name = 'b' where id < 100")
    pipeline.harness.run()
    assert (lost.hits, dead.hits > 0) == (1, True)
    proxy.clear()
    if then == "rolled back":
        pipeline.sql(f"call lake.system.set_current_snapshot('{pipeline.table}', {before})")
    else:
        pipeline.sql("update {t} set name = 'c' where id < 50")
    pipeline.harness.sync()
    pipeline.check()
