"""Three tables, one of which fails for a reason nobody foresaw, or that passes: the rest go on."""

import logging
import threading
from pathlib import Path
from typing import Self

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Hold, Status
from icdc_testing.runs.harness import Harness
from icdc_testing.waiting.processes import find_connected, kill, list_python_workers

pytestmark = pytest.mark.spark


class WorkerKiller:
    """Ends the Python worker that sends a matching request, as the kernel does for memory, some
    times in a row."""

    def __init__(self, proxy: FaultProxy, path: str, *, times: int) -> None:
        self._proxy = proxy
        self._holds = [Hold(after=False) for _ in range(times)]
        for hold in self._holds:
            proxy.add(hold, path=path)
        self._thread = threading.Thread(target=self._work)
        self.killed = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _work(self) -> None:
        for hold in self._holds:
            hold.wait()
            (busy,) = find_connected(list_python_workers(), self._proxy.port)
            kill(busy)
            hold.drop()
            self.killed += 1


@pytest.fixture
def three(lake: Lake) -> list[str]:
    """Three tables of one row, of which the second is the poisoned one."""
    names = [lake.create("id int, name string") for _ in range(3)]
    for name in names:
        lake.sql(f"insert into lake.{name} values (1, 'a')")
    return names


def make_harness(spark: SparkSession, proxy: FaultProxy, folder: Path, three: list[str]) -> Harness:
    entries = [
        {"name": name, "identifierColumns": ["id"], "index": index}
        for name, index in zip(three, ("before", "poisoned", "after"), strict=True)
    ]
    return Harness(spark, proxy.url, folder, entries, retry={"initialSeconds": 1})


def test_pyspark_logs_no_row_that_a_filter_fails_on(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, three: list[str], tmp_path: Path
) -> None:
    lake.sql(f"insert into lake.{three[1]} values (2, 'secret-4711')")
    pipeline = make_harness(spark, proxy, tmp_path, three)
    pipeline.resource["spec"]["tables"][1]["rowFilter"] = "cast(name as int) > 0"
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(handler)
    try:
        assert pipeline.run().tables[1].reason == "FilterInvalid"
    finally:
        logger.removeHandler(handler)
    assert logged == []


def test_what_nobody_foresaw_is_tried_a_few_times_and_stalls_its_table_alone(
    spark: SparkSession, proxy: FaultProxy, three: list[str], tmp_path: Path
) -> None:
    odd = proxy.add(Status(418, kind="teapot"), method="PUT", path="/poisoned-0", times=None)
    pipeline = make_harness(spark, proxy, tmp_path, three)
    report = pipeline.run()

    assert report.outcome is None
    assert [(table.state, table.reason) for table in report.tables] == [
        ("Streaming", None),
        ("Stalled", "Bug"),
        ("Streaming", None),
    ]
    assert report.tables[1].message == f"OpenSearch at {proxy.url} answered 418 (teapot)."
    assert odd.hits == 3
    proxy.clear()
    assert [table.reason for table in pipeline.run().tables] == [None, None, None]


def test_a_failure_that_passes_at_the_second_try_is_none(
    spark: SparkSession, proxy: FaultProxy, three: list[str], tmp_path: Path
) -> None:
    proxy.add(Status(418, kind="teapot"), method="PUT", path="/poisoned-0")
    report = make_harness(spark, proxy, tmp_path, three).run()
    assert [(table.state, table.reason) for table in report.tables] == [("Streaming", None)] * 3
    assert report.outcome is None


def test_what_nobody_foresaw_ends_no_answer_of_the_other_tables(
    spark: SparkSession, proxy: FaultProxy, three: list[str], tmp_path: Path
) -> None:
    pipeline = make_harness(spark, proxy, tmp_path, three)
    pipeline.run()
    proxy.add(Status(418, kind="teapot"), path="/poisoned-0.*/_mapping", times=None)
    proxy.add(Status(418, kind="teapot"), path="/poisoned-0.*/_search", times=None)
    report = pipeline.run(RunMode.VERIFY)
    assert report.outcome is not None
    assert report.outcome.reason == "Bug"
    assert report.result is not None
    assert [table["name"] for table in report.result["tables"]] == [three[0], three[2]]


def test_a_table_whose_python_workers_die_again_and_again_is_tried_again_by_the_next_run(
    spark: SparkSession, proxy: FaultProxy, lake: Lake, three: list[str], tmp_path: Path
) -> None:
    pipeline = make_harness(spark, proxy, tmp_path, three)
    pipeline.run()
    lake.sql(f"insert into lake.{three[1]} values (2, 'b')")
    killer = WorkerKiller(proxy, "/poisoned-0.*/_bulk", times=4)
    with killer:
        report = pipeline.run()
    assert killer.killed == 4
    assert report.outcome is not None
    assert (report.outcome.failure_class, report.outcome.retryable) == ("OutOfMemory", True)
    assert (
        "a Python worker died, most likely because it ran out of memory" in report.outcome.message
    )
    assert [(table.state, table.reason) for table in report.tables] == [
        ("Streaming", None),
        ("Streaming", "OutOfMemory"),
        ("Streaming", None),
    ]
    assert [table.reason for table in pipeline.run().tables] == [None, None, None]
