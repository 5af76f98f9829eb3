"""Catalogs that accept connections and never answer: their tables wait, the others go on."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import SourceUnavailable
from icdc_api.job.run_files import RunReport
from icdc_api.spec.spark import Driver
from icdc_spark.iceberg.jvm.session import create_table_session
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_spark.process.scheduling.permits import count_permits
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

from .silent_server import SilentServer

pytestmark = pytest.mark.spark

SECONDS = 8.0
"""How long a catalog may take here: also the one that answers, on a busy host."""
SILENT = count_permits(Driver()) + 1
"""More than are worked on at the same time."""
NEVER = str(3600 * 1000)


@pytest.fixture
def silent() -> Iterator[SilentServer]:
    with SilentServer() as server:
        yield server


@pytest.fixture
def table(lake: Lake) -> str:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a')")
    return name


@pytest.fixture
def pipeline(
    spark: SparkSession, silent: SilentServer, clean_indices: str, table: str, tmp_path: Path
) -> Harness:
    """Nine tables of silent catalogs, whose pipeline has switched time-outs off, and one more."""
    off = {"rest.client.socket-timeout-ms": NEVER}
    entries: list[dict[str, Any]] = [
        {
            "name": f"db.silent{number}",
            "identifierColumns": ["id"],
            "catalog": {
                "name": f"silent{number}",
                "properties": {"type": "rest", "uri": silent.url, **off},
            },
        }
        for number in range(SILENT)
    ]
    last = {"name": table, "index": "things", "identifierColumns": ["id"]}
    return Harness(spark, clean_indices, tmp_path, [*entries, last])


@pytest.mark.sampled
@pytest.mark.parametrize("linger_seconds", [None, 3600])
def test_a_run_ends_although_catalogs_never_answer_and_says_so(
    spark: SparkSession, pipeline: Harness, silent: SilentServer, linger_seconds: int | None
) -> None:
    request = pipeline.make_request(linger_seconds=linger_seconds)
    started = time.monotonic()
    answer = PipelineRun(request, spark, catalog_seconds=SECONDS).run()
    # Not for an hour, as the pipeline would have it.
    assert time.monotonic() - started < 300

    assert silent.connections >= SILENT
    assert type(answer.outcome) is SourceUnavailable
    assert answer.outcome.retryable
    *waiting, healthy = RunReport.read(Path(request.report_path)).tables
    assert {table.reason for table in waiting} == {"SourceUnavailable"}
    assert waiting[0].message == (
        "db.silent0: the catalog has accepted a request but has not answered it within 8 s; the "
        "request is retried"
    )
    assert (healthy.state, healthy.reason) == ("Streaming", None)


def test_a_continuous_run_follows_the_others_and_ends_when_it_is_asked_to(
    spark: SparkSession,
    pipeline: Harness,
    silent: SilentServer,
    lake: Lake,
    table: str,
    clean_indices: str,
) -> None:
    request, stop = pipeline.make_request(continuous=True), threading.Event()

    def is_applied(rows: int) -> bool:
        last = RunReport.read(Path(request.report_path)).tables[-1]
        return last.snapshots_behind == 0 and last.rows_upserted == rows

    with ThreadPoolExecutor(1) as pool:
        application = PipelineRun(request, spark, stop, catalog_seconds=SECONDS)
        running = pool.submit(application.run)
        try:
            wait_until(Path(request.report_path).exists, "the run reports")
            wait_until(lambda: is_applied(1), "the healthy table is exported")
            lake.sql(f"insert into lake.{table} values (2, 'b')")
            wait_until(lambda: is_applied(2), "it is followed")
            assert silent.connections >= SILENT
        finally:
            stop.set()
        assert running.result(WAIT_SECONDS).outcome is None
    assert set(oracle.read_index(clean_indices, "things")) == {"1", "2"}


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"type": "rest", "uri": "http://{address}"}, "rest.client.socket-timeout-ms"),
        (
            {"type": "hive", "uri": "thrift://{address}"},
            "hadoop.hive.metastore.client.socket.timeout",
        ),
    ],
    ids=["rest", "hive"],
)
def test_the_time_outs_that_a_catalog_gets_by_default_are_those_that_iceberg_knows(
    spark: SparkSession, silent: SilentServer, properties: dict[str, str], name: str
) -> None:
    address = silent.url.removeprefix("http://")
    plain = {key: text.format(address=address) for key, text in properties.items()}
    given = create_table_session(spark, "later", plain).conf.get(f"spark.sql.catalog.later.{name}")
    assert given is not None
    shorter = "1s" if given.endswith("s") else "1000"
    session = create_table_session(spark, "soon", {**plain, name: shorter})
    started = time.monotonic()
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        IcebergTable.load(session, "soon", "db.any")
    assert time.monotonic() - started < 30
