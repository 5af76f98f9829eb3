"""A job that no executor takes up is told from one that waits its turn, by Spark itself."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm.table_jobs import TableJobs
from icdc_testing.runs.own_executors import run_program

pytestmark = pytest.mark.spark

# Prints whether executors are missing before a job, during it, and after it.
RUN = """
import json, sys, threading, time
from pyspark.sql import SparkSession
from icdc_spark.iceberg.jvm.table_jobs import TableJobs
builder = SparkSession.builder.master("local-cluster[1,1,1024]")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
context, jobs = session.sparkContext, TableJobs(session)
tracker = context._jsc.sc().statusTracker()
def is_active():
    return len(tracker.getActiveJobIds()) > 0
def await_that(condition):
    while not condition():
        time.sleep(0.05)
said = [jobs.lack_executors()]
if sys.argv[2] == "there":
    await_that(lambda: context._jsc.sc().getExecutorIds().size() > 0)
rows = context.parallelize([1], 1).map(lambda _: time.sleep(600))
threading.Thread(target=rows.collect, daemon=True).start()
await_that(is_active)
said.append(jobs.lack_executors())
context.cancelAllJobs()
await_that(lambda: not is_active())
said.append(jobs.lack_executors())
print(json.dumps(said), flush=True)
session.stop()
"""


@pytest.mark.parametrize(
    ("cores", "executors", "missing"),
    [("1", "there", [False, False, False]), ("2", "absent", [False, True, False])],
    ids=["there is room for one", "none has room"],
)
def test_executors_are_missing_while_a_job_waits_and_none_is_there(
    tmp_path: Path, cores: str, executors: str, missing: list[bool]
) -> None:
    """The only worker has one core: it never starts an executor that wants two."""
    conf = {"spark.executor.cores": cores}
    assert run_program(RUN, conf, tmp_path, executors) == [missing]


def test_a_driver_that_runs_the_tasks_itself_lacks_no_executor(spark: SparkSession) -> None:
    assert not TableJobs(spark).lack_executors()
