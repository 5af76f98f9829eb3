"""A run that has caught up stays for the next commit, and then ends by itself."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.status.pipeline_status import TableState
from icdc_spark.process.pipeline_run import PipelineRun, RunResult
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

ALIAS = "lingering"
LONG = 3600
"""Seconds that no test waits for."""


@pytest.fixture
def table(lake: Lake) -> str:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a')")
    return name


@pytest.fixture
def pipeline(spark: SparkSession, proxy: FaultProxy, table: str, tmp_path: Path) -> Harness:
    entries: list[dict[str, Any]] = [
        {"name": table, "index": ALIAS, "identifierColumns": ["id"]},
    ]
    return Harness(spark, proxy.url, tmp_path, entries)


@contextmanager
def start(
    pipeline: Harness, seconds: int, stop: threading.Event
) -> Iterator[tuple[RunRequest, Future[RunResult]]]:
    """Run the pipeline in the background; end it whatever happens."""
    request = pipeline.make_request(linger_seconds=seconds)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(request, pipeline.spark, stop).run)
        try:
            yield request, running
        finally:
            stop.set()


def wait_until_followed(request: RunRequest) -> None:
    def is_followed() -> bool:
        path = Path(request.report_path)
        return path.exists() and RunReport.read(path).tables[0].state is TableState.STREAMING

    wait_until(is_followed, "the table is followed", seconds=120)


def test_commits_that_come_while_a_run_lingers_are_applied_by_it(
    lake: Lake, pipeline: Harness, table: str, clean_indices: str
) -> None:
    with start(pipeline, 4, threading.Event()) as (request, running):
        wait_until_followed(request)
        for number in (2, 3):
            lake.sql(f"insert into lake.{table} values ({number}, 'later')")
            wait_until(
                lambda wanted=number: len(oracle.read_index(clean_indices, ALIAS)) == wanted,  # type: ignore[misc]
                "it is applied",
            )
            assert not running.done()
        assert RunReport.read(Path(request.report_path)).lingers
        # Nobody commits any more, and nobody asks it to end.
        assert running.result(WAIT_SECONDS).outcome is None
    report = RunReport.read(Path(request.report_path))
    assert report.finished
    assert report.tables[0].state is TableState.STREAMING


def test_a_run_that_lingers_ends_at_once_when_it_is_asked_to(
    pipeline: Harness, clean_indices: str
) -> None:
    stop = threading.Event()
    with start(pipeline, LONG, stop) as (request, running):
        wait_until_followed(request)
        assert not running.done()
        stop.set()
        assert running.result(WAIT_SECONDS).outcome is None
    assert len(oracle.read_index(clean_indices, ALIAS)) == 1


def test_a_run_with_a_failed_table_does_not_linger(pipeline: Harness, clean_indices: str) -> None:
    """Only the next run tries that table again."""
    missing = {"name": "db.missing", "index": "missing", "identifierColumns": ["id"]}
    pipeline.resource["spec"]["tables"].append(missing)
    report = pipeline.run(linger_seconds=LONG)
    assert [table.reason for table in report.tables] == [None, "TableNotFound"]
    assert not report.lingers
    assert len(oracle.read_index(clean_indices, ALIAS)) == 1
