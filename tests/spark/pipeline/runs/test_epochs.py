"""Runs that another one has fenced, and clocks that were ahead: the pipeline goes on by itself."""

import threading
import time
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from icdc_api.base import MAX_COUNT
from icdc_api.errors import FailureClass
from icdc_api.job.modes import RunMode
from icdc_api.status.conditions import ConditionType
from icdc_cli.local import resource
from icdc_cli.local.runner import LocalRunner
from icdc_cli.local.state_dir import StateDir
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_spark.protocol.state_document import Owner
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.local_runner import RepeatedPipeline, RunsBeside
from icdc_testing.target import oracle
from icdc_testing.waiting import wait

pytestmark = pytest.mark.spark

YEAR_2099 = 4_070_908_800_000
RETRY = {"initialSeconds": 1, "maxSeconds": 2}


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'a'), (2,'b'), (3,'c')")
    return name


def make_harness(spark: SparkSession, url: str, folder: Path, table: str) -> Harness:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    return Harness(spark, url, folder, [entry], retry=RETRY)


def claim(url: str, epoch: int) -> None:
    """As a run of the same pipeline does that ends right after it has taken over."""
    store = StateStore(Connection(hosts=(url,)))
    stored = store.load("things")
    assert stored is not None
    owner = Owner(pipeline=stored.document.owner.pipeline, epoch=epoch, run_id="elsewhere")
    store.replace(stored, stored.document.model_copy(update={"owner": owner}))
    store.close()


def test_a_run_by_a_clock_of_the_year_2099_locks_no_table_out(
    spark: SparkSession, clean_indices: str, table: str, tmp_path: Path
) -> None:
    pipeline = RepeatedPipeline(
        spark, make_harness(spark, clean_indices, tmp_path, table), tmp_path
    )
    pipeline.run()
    claim(clean_indices, YEAR_2099)
    spark.sql(f"insert into lake.{table} values (4,'d')")
    status = pipeline.run()
    assert pipeline.names == ["e1-1", "c2-1", "c2-2"]
    assert status.holds(ConditionType.READY)
    assert (status.last_run.epoch if status.last_run else 0) == YEAR_2099 + 1
    oracle.assert_equal(
        oracle.read_index(clean_indices, "things"),
        oracle.read_expected(spark, f"lake.{table}", ["id"]),
    )


def test_an_epoch_that_no_run_can_exceed_stalls_the_table_and_says_what_to_do(
    spark: SparkSession, clean_indices: str, table: str, tmp_path: Path
) -> None:
    pipeline = RepeatedPipeline(
        spark, make_harness(spark, clean_indices, tmp_path, table), tmp_path
    )
    pipeline.run()
    claim(clean_indices, 2**63 - 1)
    spark.sql(f"insert into lake.{table} values (4,'d')")
    (table_status,) = pipeline.run().tables
    assert table_status.reason == "StateCorrupt"
    assert "no run can have a higher epoch than" in (table_status.message or "")
    assert MAX_COUNT < 2**63 - 1


def test_a_repair_from_a_laptop_does_not_end_a_continuous_run_for_good(
    spark: SparkSession, clean_indices: str, table: str, tmp_path: Path
) -> None:
    harness = make_harness(spark, clean_indices, tmp_path, table)
    harness.resource["spec"]["changelog"] = {"pollIntervalSeconds": 1}
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump(harness.resource))
    with StateDir(tmp_path / "state") as state:
        runs = RunsBeside(state.runs_path, spark)
        runner = LocalRunner(resource.load(path), state, runs, once=False)
        thread = threading.Thread(target=runner.run)
        thread.start()
        try:
            _wait_for_documents(clean_indices, 3)
            oracle.request(f"{clean_indices}/things-000001/_doc/9", "PUT", {"id": 9})
            epoch = int(time.time() * 1000)
            repaired = harness.run(RunMode.REPAIR, epoch=epoch, run_id="laptop")
            assert repaired.outcome is None
            spark.sql(f"insert into lake.{table} values (4,'d')")
            _wait_for_documents(clean_indices, 4)
            wait.wait_until(lambda: runner.status.holds(ConditionType.CAUGHT_UP), "it is caught up")
        finally:
            runner.stop()
            thread.join(120)
    failed = [run.failure for run in runner.status.recent_runs if run.failure is not None]
    assert [run.failure_class for run in failed] == [FailureClass.FENCED]
    assert failed[0].rival is not None
    assert (failed[0].rival.epoch, failed[0].rival.run_id) == (epoch, "laptop")
    oracle.assert_equal(
        oracle.read_index(clean_indices, "things"),
        oracle.read_expected(spark, f"lake.{table}", ["id"]),
    )


def _wait_for_documents(url: str, count: int) -> None:
    def has_all() -> bool:
        try:
            return len(oracle.read_index(url, "things")) == count
        except OSError:
            return False  # no such index yet

    wait.wait_until(has_all, f"the index has {count} documents", seconds=120)
