"""How a run ends that is asked to, and how one whose starter has died."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.status.pipeline_status import TableState
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import (
    BULK_BYTES,
    BatchKind,
    KillPoint,
    Plot,
    create_plot,
    end_holds,
    hold,
)
from icdc_testing.runs.processes import END_SECONDS, ChildRuns
from icdc_testing.target.node_calls import call
from icdc_testing.target.upgrading import forget_cut

pytestmark = pytest.mark.spark

LARGE = {"count": 900, "files": 3, "hashes": 64}
"""More files than one Spark job takes, each larger than half a chunk."""


@pytest.fixture
def table(spark: SparkSession, clean_indices: str) -> Plot:
    """A table whose batches are several requests."""
    return create_plot(spark, clean_indices, BatchKind.COPY_ON_WRITE, "ending")


@pytest.fixture
def pipeline(spark: SparkSession, proxy: FaultProxy, table: Plot, tmp_path: Path) -> Harness:
    """A pipeline that has exported the table, which then changed."""
    harness = Harness(spark, proxy.url, tmp_path, [table.entry])
    harness.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
    harness.sync()
    table.change(1)
    return harness


def test_sigterm_lets_a_run_finish_its_batch_and_say_so(
    pipeline: Harness, table: Plot, proxy: FaultProxy, runs: ChildRuns
) -> None:
    head = table.read_head()
    held = hold(proxy, table.predict_batch(BatchKind.COPY_ON_WRITE), KillPoint.SOME_BULK, skip=1)
    run = runs.start(pipeline.make_request(continuous=True))
    held.wait(END_SECONDS)
    run.terminate()
    end_holds(proxy, [held], late=True)
    last = run.wait_for_end()
    assert last.outcome is None
    (status,) = last.tables
    assert status.state is TableState.STREAMING
    assert status.applied_snapshot_id == str(head)
    assert table.is_applied(head)
    table.check()


def test_an_export_that_is_asked_to_stop_goes_on_in_the_next_run_where_it_was(
    spark: SparkSession, clean_indices: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    table = create_plot(spark, clean_indices, BatchKind.EXPORT, "stopped", rows=10)
    pipeline = stop_amid_export(table, proxy, tmp_path)
    pipeline.sync()
    table.check()
    written = [write.id for write in proxy.list_writes(f"{table.alias}-000001")]
    assert len(written) == len(set(written)), "a recorded chunk was sent again"


def test_an_export_that_an_older_version_cut_is_begun_anew(
    spark: SparkSession, clean_indices: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    table = create_plot(spark, clean_indices, BatchKind.EXPORT, "recut", rows=10)
    pipeline = stop_amid_export(table, proxy, tmp_path)
    # As if the chunks that are done had been cut with a row less: the next ones have it neither.
    row = proxy.list_writes(f"{table.alias}-000001")[0].id
    assert call(clean_indices, "DELETE", f"/{table.alias}-000001/_doc/{row}").status == 200
    written = table.read_state()["intent"]["rows"] - 1
    forget_cut(clean_indices, table.alias, rows=written)
    pipeline.sync()
    table.check()
    assert table.read_state()["index"] == f"{table.alias}-000002"


def stop_amid_export(table: Plot, proxy: FaultProxy, folder: Path) -> Harness:
    """Have a run stop between two Spark jobs of an export; return the pipeline."""
    table.append(1000, **LARGE)
    pipeline = Harness(table.spark, proxy.url, folder, [table.entry])
    held = hold(proxy, table.predict_batch(BatchKind.EXPORT), KillPoint.FIRST_CHUNKS)
    request, stop = pipeline.make_request(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(PipelineRun(request, table.spark, stop).run)
        try:
            held.wait(END_SECONDS)
            sent = len(proxy.list_writes(f"{table.alias}-000001"))
            stop.set()
        finally:
            held.release()
        assert stopped.result().outcome is None
    intent = table.read_state()["intent"]
    assert 0 < intent["chunksDone"] < intent["chunksTotal"]
    assert len(proxy.list_writes(f"{table.alias}-000001")) == sent
    return pipeline


def test_a_run_whose_starter_died_ends_amid_its_batch(
    pipeline: Harness, table: Plot, proxy: FaultProxy, runs: ChildRuns
) -> None:
    held = hold(proxy, table.predict_batch(BatchKind.COPY_ON_WRITE), KillPoint.SOME_BULK, skip=1)
    run, parent = runs.start_by_parent(pipeline.make_request(continuous=True))
    held.wait(END_SECONDS)
    parent.die()
    run.wait_dead()
    end_holds(proxy, [held], late=False)
    assert table.read_state()["intent"] is not None
    pipeline.sync()
    table.check()
