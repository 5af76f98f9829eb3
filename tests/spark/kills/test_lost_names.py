"""The name of the target's host cannot be resolved for a while: the run waits for it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Reset
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import BULK_BYTES, BatchKind, KillPoint, create_plot, hold
from icdc_testing.runs.own_names import TARGET, OwnNames
from icdc_testing.runs.processes import END_SECONDS, ChildRuns
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [BatchKind.EXPORT, BatchKind.MERGE_ON_READ])
def test_a_batch_goes_on_once_the_name_of_its_target_is_known_again(
    spark: SparkSession,
    clean_indices: str,
    proxy: FaultProxy,
    named_runs: ChildRuns,
    names: OwnNames,
    tmp_path: Path,
    kind: BatchKind,
) -> None:
    table = create_plot(spark, clean_indices, kind, "named")
    pipeline = Harness(spark, proxy.url, tmp_path, [table.entry])
    pipeline.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
    if kind is not BatchKind.EXPORT:
        pipeline.sync()
        table.change(1)
    head = table.read_head()
    port = proxy.url.rpartition(":")[2]
    pipeline.resource["spec"]["sink"]["opensearch"]["hosts"] = [f"http://{TARGET}:{port}"]
    held = hold(proxy, table.predict_batch(kind), KillPoint.SOME_BULK, skip=1)
    run = named_runs.start(pipeline.make_request())
    held.wait(END_SECONDS)
    names.forget(TARGET)
    # Connections that are open would do without the name.
    proxy.add(Reset(), times=None)
    held.drop()
    missed = f"{TARGET}:{port} cannot be reached: the name of its host cannot be resolved."
    wait_until(lambda: missed in run.log, "the name is missed")
    proxy.clear()
    names.restore()
    last = run.wait_for_end()
    assert last.outcome is None
    assert table.is_applied(head)
    table.check()
