"""Pages of documents that OpenSearch refuses to a task, while index and table are compared."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.status.pipeline_status import TableReason
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Status
from icdc_testing.runs.harness import Harness

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("clean_indices")
def test_a_refused_page_has_the_reason_that_a_refusal_has_elsewhere(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, tmp_path: Path
) -> None:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a'), (2, 'b')")
    entry = {"name": name, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, proxy.url, tmp_path, [entry])
    harness.sync()
    proxy.add(Status(401), path=r"^/_search\?", times=None)
    answer = harness.inspect(RunMode.VERIFY)
    assert answer["reason"] == TableReason.UNAUTHORIZED
    assert "answered 401" in answer["message"]
