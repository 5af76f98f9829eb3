"""The name of the target's host leads to another cluster amid a batch, and back again.

As where DNS is changed by mistake, or a cluster is replaced behind its name. Each cluster has its
own state document, so what is written is right in both, and nothing is led to a half-filled index.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Reset
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import BULK_BYTES, BatchKind, KillPoint, Plot, create_plot, hold
from icdc_testing.runs.own_names import TARGET, OwnNames
from icdc_testing.runs.processes import END_SECONDS, ChildRuns
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

ELSEWHERE = "127.0.0.2"
MAX_RUNS = 4
"""Runs of which the last has applied the table: each of the others fails, and is tried again."""


@pytest.fixture
def other(proxy: FaultProxy, tmp_path: Path) -> Iterator[FaultProxy]:
    """Another cluster, which has the same port at ELSEWHERE."""
    with OpenSearchNode(tmp_path / "other", heap="256m") as node:
        front = FaultProxy(node.url, host=ELSEWHERE)
        front.port = proxy.port
        with front:
            yield front


def run_once(runs: ChildRuns, pipeline: Harness) -> RunReport:
    """Run to the end and return the last report."""
    run = runs.start(pipeline.make_request())
    # Before it is Python it becomes three other programs, and between them looks like none.
    wait_until(lambda: run.read_report() is not None, "it reports", seconds=END_SECONDS)
    return run.wait_for_end()


def run_until_applied(runs: ChildRuns, pipeline: Harness, table: Plot) -> None:
    """Run as the operator does, until the table's newest snapshot is in its index."""
    head, outcomes = table.read_head(), []
    for _ in range(MAX_RUNS):
        outcomes.append(run_once(runs, pipeline).outcome)
        if table.is_applied(head):
            return
    raise AssertionError(outcomes)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [BatchKind.EXPORT, BatchKind.MERGE_ON_READ])
def test_a_name_that_leads_to_another_cluster_amid_a_batch_harms_neither(
    spark: SparkSession,
    clean_indices: str,
    proxy: FaultProxy,
    other: FaultProxy,
    named_runs: ChildRuns,
    names: OwnNames,
    tmp_path: Path,
    kind: BatchKind,
) -> None:
    table = create_plot(spark, clean_indices, kind, "moved")
    pipeline = Harness(spark, proxy.url, tmp_path, [table.entry])
    opensearch = pipeline.resource["spec"]["sink"]["opensearch"]
    opensearch["bulk"] = {"maxBytes": BULK_BYTES}
    if kind is not BatchKind.EXPORT:
        pipeline.sync()
        table.change(1)
    opensearch["hosts"] = [f"http://{TARGET}:{proxy.port}"]
    held = hold(proxy, table.predict_batch(kind), KillPoint.SOME_BULK, skip=1)
    run = named_runs.start(pipeline.make_request())
    held.wait(END_SECONDS)
    names.move(TARGET, ELSEWHERE)
    # Connections that are open would stay with the first cluster.
    proxy.add(Reset(), times=None)
    held.drop()
    run.wait_for_end(2 * END_SECONDS)
    elsewhere = replace(table, url=other.url)
    # What was left of the batch came here, and did not count: the whole table is exported here, by
    # the same run, which finds no index, or by the next one.
    assert other.list_requests(table.alias)
    run_until_applied(named_runs, pipeline, elsewhere)
    elsewhere.check()
    proxy.clear()
    names.restore()
    table.change(2)
    run_until_applied(named_runs, pipeline, table)
    table.check()
