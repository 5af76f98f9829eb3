"""A raised `spec.resync.nonce` with Verify or Repair, from the reconcile core to the index."""

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_cli import exits
from icdc_cli.exits import Exit
from icdc_operator.core.conditions.messages import AFTER_DIFFERENCES
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_spark.verification import moment
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.local_runner import RepeatedPipeline
from icdc_testing.tables.scenarios import list_operations, put, remove, select_writes
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'a'), (2,'b'), (3,'c')")
    return name


def find_condition(status: PipelineStatus) -> tuple[str, str, str]:
    (verification,) = (condition for condition in status.conditions if condition.type == "Verified")
    return verification.status.value, verification.reason, verification.message


def test_verify_finds_what_somebody_broke_and_repair_mends_it(
    spark: SparkSession, proxy: FaultProxy, clean_indices: str, table: str, tmp_path: Path
) -> None:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    pipeline = RepeatedPipeline(spark, Harness(spark, proxy.url, tmp_path, [entry]), tmp_path)
    status = pipeline.run()
    assert (find_condition(status)[:2], exits.choose_for_status(status)[0]) == (
        ("Unknown", "NotVerified"),
        Exit.DONE,
    )

    here = f"{clean_indices}/things-000001/_doc"
    oracle.request(f"{here}/1", "PUT", {"id": 1, "name": "edited"})
    oracle.request(f"{here}/9", "PUT", {"id": 9, "name": "extra"})
    spark.sql(f"insert into lake.{table} values (4,'d')")
    proxy.clear()
    status = pipeline.run(resync={"nonce": 1, "mode": "Verify", "tables": [table]})
    assert pipeline.names == ["e1-1", "c2-1", "v3-1"]
    *found, message = find_condition(status)
    assert found == ["False", "Different"]
    said = f"{table}: 0 missing, 1 extra, 1 different; the oldest comparison is of "
    assert message.startswith(said)
    assert message.endswith(f"; {AFTER_DIFFERENCES}")
    (verification,) = (table.verification for table in status.tables)
    assert verification is not None
    assert (verification.nonce, verification.rows, verification.documents) == (1, 4, 5)
    assert verification.samples == ("extra 9", "different 1")
    assert verification.snapshot_id == status.tables[0].applied_snapshot_id
    assert list_operations(select_writes(proxy.list_writes(), "things")) == [
        put("4", id=4, name="d")
    ]
    assert status.holds(status.conditions[0].type)
    assert exits.choose_for_status(status) == (Exit.STALLED, message)
    assert "DifferencesFound" in pipeline.reported

    proxy.clear()
    status = pipeline.run(resync={"nonce": 2, "mode": "Repair"})
    assert find_condition(status)[:2] == ("True", "Repaired")
    assert list_operations(select_writes(proxy.list_writes(), "things")) == [
        put("1", id=1, name="a"),
        remove("9"),
    ]
    assert pipeline.names[3:] == ["c4-1", "r5-1"]
    oracle.assert_equal(
        oracle.read_index(clean_indices, "things"),
        oracle.read_expected(spark, f"lake.{table}", ["id"]),
    )


def test_a_planned_comparison_finishes_first_what_it_finds_under_way(
    spark: SparkSession,
    clean_indices: str,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moment, "QUIET_SECONDS", 0.0)
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    harness.sync()
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")
    block = f"{clean_indices}/things-000001/_settings"
    oracle.request(block, "PUT", {"index.blocks.write": True})
    assert harness.run_to_stall().reason == "TargetReadOnly"
    oracle.request(block, "PUT", {"index.blocks.write": None})
    # As the batch writes it: the document is right as before the batch, and as after it.
    here = f"{clean_indices}/things-000001/_doc"
    oracle.request(f"{here}/1", "PUT", {"id": 1, "name": "x"})
    answer = harness.inspect(RunMode.VERIFY)
    assert (answer["equal"], answer["underWay"], answer["rows"]) == (True, True, 3)
    oracle.request(f"{here}/2", "PUT", {"id": 2, "name": "edited"})
    answer = harness.inspect(RunMode.REPAIR)
    assert (answer["equal"], answer["reason"], answer["repaired"]) == (None, "BatchUnderWay", None)
    assert answer["message"].startswith("not settled: the pipeline wrote meanwhile (1 documents)")
    assert "different" not in answer
    oracle.request(f"{here}/2", "PUT", {"id": 2, "name": "b"})

    stop = threading.Event()
    stop.set()
    stopped = PipelineRun(harness.make_request(RunMode.VERIFY, tables=[]), spark, stop).run()
    assert stopped.result == {"tables": []}
    (entry,) = (harness.run(RunMode.VERIFY, tables=[table]).result or {})["tables"]
    assert (entry["equal"], "underWay" in entry) == (True, False)
    head = spark.sql(f"select snapshot_id from lake.{table}.refs where name = 'main'").collect()
    assert entry["snapshotId"] == str(head[0][0])
