"""A run that goes on: every table is followed, and one that nobody changes costs no reading."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport
from icdc_api.spec.spark import Driver
from icdc_api.status.pipeline_status import TableState
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_spark.process.scheduling.permits import count_permits
from icdc_testing.lake.file_reads import count_bytes_read
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

ALIAS = "idle"
IDENTITY = f"/{ALIAS}-000001,icdc-state/_stats/docs,store"
"""The request of each poll that says whether the index is still the one that was written."""
READERS = f"/{ALIAS}/_alias/{ALIAS}"
"""The other request of each poll: whether readers see it."""
POLLS = 3


def test_a_table_that_nobody_changes_is_looked_at_without_reading_a_file(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a')")
    # It comes after as many as are worked on at a time, and those are never done.
    missing: list[dict[str, object]] = [
        {"name": f"db.missing{number}"} for number in range(count_permits(Driver()))
    ]
    entries: list[dict[str, object]] = [
        *missing,
        {"name": name, "index": ALIAS, "identifierColumns": ["id"]},
    ]
    pipeline = Harness(spark, proxy.url, tmp_path, entries)
    request, stop = pipeline.make_request(continuous=True), threading.Event()

    def read_state() -> TableState | None:
        return RunReport.read(Path(request.report_path)).tables[-1].state

    def count_polls() -> int:
        return len(proxy.list_requests(IDENTITY))

    def wait_until_polled(times: int) -> None:
        wanted = count_polls() + times
        wait_until(lambda: count_polls() >= wanted, f"{times} more polls")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(request, spark, stop).run)
        try:
            wait_until(lambda: ALIAS in read_aliases(clean_indices), "it is exported", seconds=120)
            wait_until(lambda: read_state() is TableState.STREAMING, "it is followed")
            # A catalog of numbered files is sure of what it read after the second poll.
            wait_until_polled(POLLS)
            read, asked = count_bytes_read(spark), len(proxy.list_requests())
            wait_until_polled(POLLS)
            assert count_bytes_read(spark) == read
            about = [request.target for request in proxy.list_requests()[asked:]]
            targets = {target.partition("?")[0] for target in about if ALIAS in target}
            assert targets == {IDENTITY, READERS}
            lake.sql(f"insert into lake.{name} values (2, 'b')")
            wait_until(
                lambda: len(oracle.read_index(clean_indices, ALIAS)) == 2, "the commit is seen"
            )
            assert count_bytes_read(spark) > read
        finally:
            stop.set()
        assert running.result(WAIT_SECONDS).outcome is None


def read_aliases(url: str) -> str:
    """Return the names of all aliases."""
    return str(oracle.request(f"{url}/_alias", "GET", None))
