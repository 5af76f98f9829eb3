"""What `icdc plan` costs: a driver alone, as in a cluster it has no executor to begin with."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
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


def _count_jobs(spark: SparkSession) -> int:
    """Count the jobs that Spark has started so far."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    return int(scheduler.nextJobId())
