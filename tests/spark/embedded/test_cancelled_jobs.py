"""Jobs that are cancelled by their table's tag, and what is left of them."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import NoProgress
from icdc_spark.iceberg.jvm.session import mark_jobs
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.jvm.table_jobs import TableJobs
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark


def _hang(path: Path) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a task that notes its process in a file once it has all its rows, and never ends."""

    def wait_forever(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Where Spark still reads rows for it, the task ends at once when it is cancelled, and its
        # worker finds no further rows: it is killed only if the task waits for it alone.
        read = list(batches)
        path.with_suffix(".new").write_text(str(os.getpid()))
        path.with_suffix(".new").rename(path)
        threading.Event().wait()
        yield from read

    return wait_forever


def test_the_python_worker_of_a_cancelled_job_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It could go on writing while the batch is repeated, and after that."""
    path = tmp_path / "process"

    def run() -> None:
        mark_jobs(spark, "db.orders", tag="orders")
        with translate_source_errors("db.orders"):
            # One task, as there is one file.
            spark.range(0, 1, 1, 1).mapInArrow(_hang(path), "id long").collect()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            wait_until(path.exists, "the task runs")
        finally:
            TableJobs(spark).cancel("orders")
        assert type(running.exception(WAIT_SECONDS)) is NoProgress
    worker = Path("/proc", path.read_text())
    wait_until(lambda: not worker.exists(), "the worker is killed")


def test_rows_that_a_running_task_has_read_are_seen(spark: SparkSession, tmp_path: Path) -> None:
    """With the heartbeats of executors: Spark sends one every ten seconds."""
    ending = tmp_path / "ending"

    def pass_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while not ending.exists():
                threading.Event().wait(0.05)
            yield batch

    def run() -> None:
        # As a thread of a run that has worked for another table before.
        mark_jobs(spark, "db.before", tag="before")
        mark_jobs(spark, "db.orders", tag="orders")
        spark.range(0, 1, 1, 1).mapInArrow(pass_batches, "id long").collect()

    jobs = TableJobs(spark)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            wait_until(lambda: len(jobs.read("orders").running) == 1, "the job runs")
            # Before the first heartbeat Spark knows no value of any metric: "Map()".
            wait_until(lambda: "->" in "".join(jobs.read("orders").metrics), "its progress is seen")
            wait_until(lambda: not jobs.read("orders").is_waiting, "its task runs")
            during = jobs.read("orders")
            assert len(during.running) == 1
        finally:
            ending.touch()
        running.result(WAIT_SECONDS)
    assert jobs.read("orders").running == ()
    assert jobs.read("orders").newest == during.newest >= 0
    assert jobs.read("before").newest == -1
