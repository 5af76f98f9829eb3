"""Two runs at once on one alias: one works, the other ends as Fenced and changes nothing."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import FailureClass, Fenced
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableReason
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Hold
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import (
    BULK_BYTES,
    BatchKind,
    KillPoint,
    Plot,
    assert_written_once,
    create_plot,
    hold,
)
from icdc_testing.runs.processes import END_SECONDS
from icdc_testing.target import oracle
from icdc_testing.waiting.seeds import choose_seed
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

Make = Callable[[Plot], Harness]


@pytest.fixture
def make(spark: SparkSession, proxy: FaultProxy, tmp_path: Path) -> Make:
    """Make a pipeline over one table, with small bulk requests."""

    def make_harness(table: Plot, name: str = "test") -> Harness:
        harness = Harness(spark, proxy.url, tmp_path, [table.entry], name=name)
        harness.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
        return harness

    return make_harness


def assert_fenced(report: RunReport) -> None:
    assert report.finished
    assert report.outcome is not None
    assert report.outcome.failure_class is FailureClass.FENCED, report.outcome


def read_contents(table: Plot) -> dict[str, tuple[int, str]]:
    """Version and document by id."""
    hits = oracle.read_hits(table.url, table.alias)
    return {hit["_id"]: (hit["_version"], str(hit["_source"])) for hit in hits}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (BatchKind.EXPORT, KillPoint.SOME_BULK),
        (BatchKind.COPY_ON_WRITE, KillPoint.SOME_BULK_LOST),
        (BatchKind.MERGE_ON_READ, KillPoint.SOME_BULK),
    ],
)
def test_a_run_that_was_replaced_amid_its_writes_is_fenced_and_changes_nothing(
    make: Make,
    proxy: FaultProxy,
    clean_indices: str,
    spark: SparkSession,
    kind: BatchKind,
    step: KillPoint,
) -> None:
    table = create_plot(spark, clean_indices, kind, "fence")
    pipeline = make(table)
    if kind is not BatchKind.EXPORT:
        pipeline.sync()
        table.change(1)
    skip = choose_seed(f"fence {kind} {step}")[1].randint(0, 2)
    held = hold(proxy, table.predict_batch(kind), step, skip=skip)
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(pipeline.run)
        try:
            held.wait()
            table.change(2)
            newer = pipeline.run()
            table.check()
            after_newer = read_contents(table)
        finally:
            held.release()
        assert newer.outcome is None
        assert_fenced(older.result())
    assert read_contents(table) == after_newer
    assert_written_once(proxy, clean_indices, [table])
    table.change(3)
    pipeline.sync()
    table.check()


@pytest.mark.sampled
@pytest.mark.parametrize("step", [KillPoint.BEFORE_INTENT, KillPoint.ALL_BULK])
def test_a_run_that_was_replaced_before_it_records_is_fenced(
    make: Make, proxy: FaultProxy, clean_indices: str, spark: SparkSession, step: KillPoint
) -> None:
    table = create_plot(spark, clean_indices, BatchKind.COPY_ON_WRITE, "record")
    pipeline = make(table)
    pipeline.sync()
    table.change(1)
    held = hold(proxy, table.predict_batch(BatchKind.COPY_ON_WRITE), step)
    older, newer = _run_past(pipeline, held)
    assert newer.outcome is None
    assert_fenced(older)
    table.check()


def test_a_run_that_was_replaced_before_its_first_write_asks_before_it_writes(
    make: Make, proxy: FaultProxy, clean_indices: str, spark: SparkSession
) -> None:
    table = create_plot(spark, clean_indices, BatchKind.COPY_ON_WRITE, "ask")
    pipeline = make(table)
    pipeline.sync()
    table.change(1)
    # The last request before the tasks begin: from here on nothing but their question stops them.
    held = proxy.hold("dead-letters/_refresh")
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(pipeline.run)
        try:
            held.wait()
            # It waits for tasks of the older run, and so for longer than they go without asking.
            newer = pipeline.run()
            written = len(proxy.list_requests("_bulk"))
        finally:
            held.release()
        assert newer.outcome is None
        assert_fenced(older.result())
    assert len(proxy.list_requests("_bulk")) == written
    table.check()


def test_two_first_runs_make_one_state_document(
    make: Make, proxy: FaultProxy, clean_indices: str, spark: SparkSession
) -> None:
    table = create_plot(spark, clean_indices, BatchKind.EXPORT, "first")
    pipeline = make(table)
    held = proxy.hold(f"^/icdc-state/_(doc|create)/{table.alias}", method="PUT")
    older, newer = _run_past(pipeline, held)
    assert newer.outcome is None
    assert_fenced(older)
    table.check()
    aliases = oracle.request(f"{clean_indices}/_alias/{table.alias}")
    assert list(aliases) == [f"{table.alias}-000001"]


def _run_past(pipeline: Harness, held: Hold) -> tuple[RunReport, RunReport]:
    """Return the reports of a run that is held, and of one that runs to its end meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        older: Future[RunReport] = pool.submit(pipeline.run)
        try:
            held.wait()
            newer = pipeline.run()
        finally:
            held.release()
        return older.result(), newer


def test_a_continuous_run_that_was_replaced_ends_at_its_next_step(
    make: Make, clean_indices: str, spark: SparkSession
) -> None:
    table = create_plot(spark, clean_indices, BatchKind.COPY_ON_WRITE, "idle")
    pipeline = make(table)
    request, stop = pipeline.make_request(continuous=True), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(PipelineRun(request, spark, stop).run)
        try:
            wait_until(
                lambda: table.is_applied(table.read_head()), "the continuous run has exported"
            )
            pipeline.sync()
            table.change(1)
            wait([older], END_SECONDS)
        finally:
            stop.set()
        assert isinstance(older.result().outcome, Fenced)
    pipeline.sync()
    table.check()


@pytest.mark.parametrize("lower_by", [0, 1])
def test_a_run_of_an_older_or_the_same_epoch_ends_at_once_and_writes_nothing(
    make: Make, proxy: FaultProxy, clean_indices: str, spark: SparkSession, lower_by: int
) -> None:
    table = create_plot(spark, clean_indices, BatchKind.COPY_ON_WRITE, "older", rows=10)
    pipeline = make(table)
    pipeline.sync()
    owner = table.read_state()["owner"]
    table.change(1)
    before = proxy.list_writes()
    late = pipeline.run(epoch=owner["epoch"] - lower_by, run_id="late")
    assert_fenced(late)
    assert late.outcome is not None
    assert late.outcome.message == (
        f"Alias '{table.alias}' is owned by run '{owner['runId']}' with epoch {owner['epoch']}; "
        f"this run has epoch {owner['epoch'] - lower_by}."
    )
    assert proxy.list_writes() == before


def test_a_second_pipeline_on_one_alias_stalls_and_writes_nothing(
    proxy: FaultProxy, clean_indices: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = create_plot(spark, clean_indices, BatchKind.COPY_ON_WRITE, "shared", rows=10)
    first, second = (
        Harness(spark, proxy.url, tmp_path, [table.entry], name=name) for name in ("one", "two")
    )
    first.sync()
    before = proxy.list_writes()
    stalled = second.run_to_stall()
    assert stalled.reason is TableReason.ALIAS_TAKEN
    assert stalled.message == (
        f"Alias '{table.alias}' is fed by pipeline 'default/one'; "
        "choose another `index`, or delete that pipeline with deletionPolicy DeleteIndices, "
        "which deletes its index."
    )
    assert proxy.list_writes() == before
    table.change(1)
    first.sync()
    table.check()
