"""A request that was applied but never answered is no reason to stop, nor to do it twice."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import EndAfterApply, Reset
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import (
    BULK_BYTES,
    BatchKind,
    KillPoint,
    assert_written_once,
    create_plot,
    match_requests,
)

pytestmark = pytest.mark.spark

LOST = {
    BatchKind.EXPORT: (
        KillPoint.AFTER_INTENT,
        KillPoint.SOME_BULK_LOST,
        KillPoint.FIRST_CHUNKS,
        KillPoint.BEFORE_SWAPPING,
        KillPoint.AFTER_ALIAS,
        KillPoint.AFTER_ADVANCE,
    ),
    BatchKind.COPY_ON_WRITE: (
        KillPoint.AFTER_INTENT,
        KillPoint.SOME_BULK_LOST,
        KillPoint.AFTER_ADVANCE,
    ),
    BatchKind.MERGE_ON_READ: (
        KillPoint.AFTER_INTENT,
        KillPoint.SOME_BULK_LOST,
        KillPoint.AFTER_ADVANCE,
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (BatchKind.EXPORT, Reset(after=True)),
        (BatchKind.COPY_ON_WRITE, EndAfterApply()),
        (BatchKind.MERGE_ON_READ, Reset(after=True)),
    ],
    ids=[kind.value for kind in BatchKind],
)
def test_a_batch_whose_every_kind_of_answer_gets_lost_comes_through(
    spark: SparkSession,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    kind: BatchKind,
    fault: Reset | EndAfterApply,
) -> None:
    table = create_plot(spark, clean_indices, kind, "lost")
    pipeline = Harness(spark, proxy.url, tmp_path, [table.entry])
    pipeline.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
    if kind is not BatchKind.EXPORT:
        pipeline.sync()
        table.change(1)
    batch = table.predict_batch(kind)
    rules = [proxy.add(fault, **match_requests(batch, step)) for step in LOST[kind]]
    document = f"^/icdc-state/_doc/{table.alias}"
    # The first document of an export; the claim of a run that finds one.
    rules.append(proxy.add(fault, method="PUT", path=document))
    status = pipeline.sync()
    assert [rule.hits for rule in rules] == [1] * len(rules)
    assert status.applied_snapshot_id == str(batch.head)
    table.check()
    assert_written_once(proxy, clean_indices, [table])
    assert pipeline.inspect(RunMode.VERIFY)["equal"]
