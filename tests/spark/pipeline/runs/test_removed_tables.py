"""A table that is taken out of the spec: the batches of the others are not cut short."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import node_calls

pytestmark = pytest.mark.spark

END_SECONDS = 60.0


@pytest.fixture
def entries(lake: Lake) -> list[dict[str, Any]]:
    """Two tables of one row."""
    made = []
    for index in ("stays", "leaves"):
        name = lake.create("id int")
        lake.sql(f"insert into lake.{name} values (1)")
        made.append({"name": name, "index": index, "identifierColumns": ["id"]})
    return made


def test_the_batch_of_another_table_is_finished_and_the_next_run_goes_on(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    tmp_path: Path,
    entries: list[dict[str, Any]],
) -> None:
    both = Harness(spark, proxy.url, tmp_path, entries)
    assert both.run().outcome is None
    stays = entries[0]["name"]
    held = proxy.hold("/stays-000001/_bulk")
    lake.sql(f"insert into lake.{stays} values (2), (3)")
    request, stop = both.make_request(continuous=True), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(PipelineRun(request, spark, stop).run)
        try:
            held.wait(END_SECONDS)
            # What the operator does to a run whose pipeline has changed.
            stop.set()
        finally:
            held.release()
        assert ending.result(END_SECONDS).outcome is None
    assert read_ids(proxy, "stays") == {"1", "2", "3"}
    assert read_state(proxy, "stays")["intent"] is None

    alone = Harness(spark, proxy.url, tmp_path, entries[:1])
    lake.sql(f"insert into lake.{stays} values (4)")
    proxy.clear()
    status = alone.sync()
    assert status.rows_upserted == 4
    # What it had not applied alone: the batch before was not repeated.
    assert {write.id for write in proxy.list_writes("stays-000001")} == {"4"}
    # The index of the table that left is still there.
    assert read_ids(proxy, "leaves") == {"1"}


def read_ids(proxy: FaultProxy, index: str) -> set[str]:
    return set(node_calls.read_documents(proxy.upstream, f"{index}-000001"))


def read_state(proxy: FaultProxy, alias: str) -> dict[str, Any]:
    answer = node_calls.call(proxy.upstream, "GET", f"/icdc-state/_doc/{alias}")
    content: dict[str, Any] = json.loads(answer.body)["_source"]
    return content
