"""A request that was applied but never answered is no reason to stop, nor to do it twice."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunMode
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import EndAfterApply, Reset
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import (
    BULK_BYTES,
    Kind,
    Step,
    assert_written_once,
    match_requests,
    plot,
)

pytestmark = pytest.mark.spark

LOST = {
    Kind.EXPORT: (
        Step.AFTER_INTENT,
        Step.SOME_BULK_LOST,
        Step.FIRST_CHUNKS,
        Step.BEFORE_SWAPPING,
        Step.AFTER_ALIAS,
        Step.AFTER_ADVANCE,
    ),
    Kind.COPY_ON_WRITE: (Step.AFTER_INTENT, Step.SOME_BULK_LOST, Step.AFTER_ADVANCE),
    Kind.MERGE_ON_READ: (Step.AFTER_INTENT, Step.SOME_BULK_LOST, Step.AFTER_ADVANCE),
}


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (Kind.EXPORT, Reset(after=True)),
        (Kind.COPY_ON_WRITE, EndAfterApply()),
        (Kind.MERGE_ON_READ, Reset(after=True)),
    ],
    ids=[kind.value for kind in Kind],
)
def test_a_batch_whose_every_kind_of_answer_gets_lost_comes_through(
    spark: SparkSession,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    kind: Kind,
    fault: Reset | EndAfterApply,
) -> None:
    table = plot(spark, clean_indices, kind, "lost")
    pipeline = Harness(spark, proxy.url, tmp_path, [table.entry])
    pipeline.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
    if kind is not Kind.EXPORT:
        pipeline.sync()
        table.change(1)
    batch = table.next_batch(kind)
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
