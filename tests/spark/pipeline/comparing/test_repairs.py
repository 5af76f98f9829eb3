"""A repair that dies half-way has repaired what it wrote; the rest is repaired by the next one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark

INDEX = "things-000001"


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'a'), (2,'b')")
    return name


def read_state(url: str) -> dict[str, Any]:
    source: dict[str, Any] = oracle.request(f"{url}/icdc-state/_doc/things")["_source"]
    return source


@pytest.mark.sampled
@pytest.mark.parametrize("next_run", [RunMode.RUN, RunMode.REPAIR])
def test_a_repair_that_died_is_not_taken_for_done(
    spark: SparkSession,
    proxy: FaultProxy,
    clean_indices: str,
    table: str,
    tmp_path: Path,
    next_run: RunMode,
) -> None:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    pipeline = Harness(spark, proxy.url, tmp_path, [entry])
    pipeline.sync()
    applied = read_state(clean_indices)["applied"]
    oracle.request(f"{clean_indices}/{INDEX}/_doc/1", "PUT", {"id": 1, "name": "edited"})
    held = proxy.hold("_bulk", body='"index"')
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.inspect, RunMode.REPAIR)
        held.wait()
        call(clean_indices, "PUT", f"/{INDEX}/_settings", {"index.blocks.write": True})
        held.release()
        assert running.result(120)["reason"] == "TargetReadOnly"
    call(clean_indices, "PUT", f"/{INDEX}/_settings", {"index.blocks.write": None})
    assert read_state(clean_indices)["intent"]["kind"] == "Repair"

    if next_run is RunMode.RUN:
        pipeline.sync()
        left = read_state(clean_indices)
        assert (left["intent"], left["applied"]) == (None, applied)
    # As the operator plans it: what is under way is finished first.
    (repaired,) = (pipeline.run(RunMode.REPAIR, tables=[table]).result or {})["tables"]
    assert repaired["repaired"] == 1
    assert pipeline.inspect(RunMode.VERIFY)["equal"] is True
    spark.sql(f"insert into lake.{table} values (3, 'c')")
    pipeline.sync()
    oracle.assert_equal(
        oracle.read_index(clean_indices, "things"),
        oracle.read_expected(spark, f"lake.{table}", ["id"]),
    )
