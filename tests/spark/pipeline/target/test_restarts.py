"""A target that restarts below a pipeline: it is waited for, and nothing is taken for lost."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark


def test_a_node_that_has_not_recovered_yet_neither_stalls_a_table_nor_loses_its_index(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, starting_node: str, tmp_path: Path
) -> None:
    name, recovered = lake.create("id int, name string"), proxy.upstream
    lake.sql(f"insert into lake.{name} values (1, 'a')")
    entry = {"name": name, "index": "things", "identifierColumns": ["id"]}
    pipeline = Harness(spark, proxy.url, tmp_path, [entry])
    pipeline.sync()
    request, stop = pipeline.make_request(continuous=True), threading.Event()
    seen: list[TableStatus] = []

    def read_status() -> TableStatus:
        seen.append(RunReport.read(Path(request.report_path)).tables[-1])
        return seen[-1]

    def has_answer(code: int) -> bool:
        read_status()
        return any(request.status == code for request in proxy.list_requests())

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(request, spark, stop).run)
        try:
            wait_until(lambda: Path(request.report_path).exists(), "the run has begun")
            wait_until(lambda: read_status().snapshots_behind == 0, "it is followed")
            proxy.clear()
            proxy.upstream = starting_node
            wait_until(lambda: has_answer(503), "the restart is noticed")
            asked = len(proxy.list_requests())
            wait_until(lambda: len(proxy.list_requests()) > asked + 2, "it is asked again")
            proxy.upstream = recovered
            lake.sql(f"insert into lake.{name} values (2, 'b')")
            wait_until(
                lambda: len(oracle.read_index(recovered, "things")) == 2, "it goes on", seconds=90
            )
            wait_until(lambda: read_status().snapshots_behind == 0, "it is reported")
        finally:
            stop.set()
        assert running.result(WAIT_SECONDS).outcome is None
    assert {(report.state, report.reason) for report in seen if report.reason} == set()
    assert [
        request for request in proxy.list_requests("things-000002") if request.method != "GET"
    ] == []
