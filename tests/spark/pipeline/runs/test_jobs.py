"""How many jobs Spark starts, and how many tasks: none for a plan, and few for an export.

A driver alone makes a plan, as in a cluster it has no executor to begin with.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_spark.readers import parallelism
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness

pytestmark = pytest.mark.spark


def test_a_plan_starts_no_job_of_spark(
    spark: SparkSession, clean_indices: str, lake: Lake, tmp_path: Path
) -> None:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'a'), (2,'b'), (3,'c')")
    entry = {"name": name, "identifierColumns": ["id"], "index": "things", "rowFilter": "id < 9"}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    begun = _count_jobs(spark)
    assert harness.inspect(RunMode.PLAN)["mode"] == "Export"
    assert _count_jobs(spark) == begun
    harness.sync()
    lake.sql(f"update lake.{name} set name = 'x' where id = 1")
    begun = _count_jobs(spark)
    planned = harness.inspect(RunMode.PLAN)
    assert planned["mode"] == "Changelog"
    assert planned["rows"] > 0
    assert _count_jobs(spark) == begun


def test_a_plan_reads_no_file_of_a_table_that_finds_columns_by_name(
    spark: SparkSession, clean_indices: str, lake: Lake, tmp_path: Path
) -> None:
    """A run reads a new column, as old files may have it; without executors it would wait."""
    lake.sql("create namespace if not exists lake.db")
    spark.sql("select 1 as id, 'a' as name").write.parquet(str(tmp_path / "plain"))
    name = lake.create("id int")
    source = f"`parquet`.`{tmp_path}/plain`"
    lake.sql(f"call lake.system.add_files(table => '{name}', source_table => '{source}')")
    entry = {"name": name, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    harness.sync()
    lake.sql(f"alter table lake.{name} add column name string")
    lake.sql(f"insert into lake.{name} values (2, 'b')")
    begun = _count_jobs(spark)
    assert harness.inspect(RunMode.PLAN)["mode"] == "Changelog"
    assert _count_jobs(spark) == begun


def test_an_export_writes_as_many_chunks_with_a_job_as_take_a_while_each_in_a_task(
    spark: SparkSession,
    clean_indices: str,
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files, cores = 8, spark.sparkContext.defaultParallelism
    name = lake.create("id bigint")
    # Two of these files are more than a chunk.
    lake.sql(f"insert into lake.{name} select id from range(0, {files * 13_000}, 1, {files})")
    entry = {"name": name, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    harness.resource["spec"]["changelog"] = {"proveBeforeSwitch": "Count"}
    # However slow this host is.
    monkeypatch.setattr(parallelism, "WAVE_SECONDS", 3600.0)
    begun = _count_jobs(spark)
    batch = harness.sync().last_batch
    tracker, tasks = spark.sparkContext.statusTracker(), list[int]()
    for number in range(begun, _count_jobs(spark)):
        job = tracker.getJobInfo(number)
        assert job is not None
        stages = [tracker.getStageInfo(stage) for stage in job.stageIds]
        tasks.append(sum(stage.numTasks for stage in stages if stage))
    assert tasks == [cores, files - cores]
    assert batch is not None
    assert batch.upserted == (files - cores) * 13_000


def _count_jobs(spark: SparkSession) -> int:
    """Count the jobs that Spark has started so far."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    return int(scheduler.nextJobId())
