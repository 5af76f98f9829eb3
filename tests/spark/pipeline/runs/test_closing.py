"""What a run has open of its tables, and that all of it is closed with them."""

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport
from icdc_spark.iceberg.jvm.session import SessionClosedError, open_table_session
from icdc_spark.iceberg.table.cached_table import CachedTable
from icdc_spark.process import failures as told_failures
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.head_lake import NAME, HeadLake
from icdc_testing.runs.harness import Harness
from icdc_testing.waiting.jvm import SESSION, count_threads, list_files, read_heap
from icdc_testing.waiting.processes import list_sockets_to
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

TABLE = "shop.orders"
RETRIES = 50
WARM = 10
"""Attempts after which pools and caches of the process have their size."""


@dataclass(frozen=True)
class ConnectedCatalog:
    """A catalog, and the number of connections that the JVM has to it."""

    properties: dict[str, str]
    connections: Callable[[], int]


@pytest.fixture
def jvm(spark: SparkSession) -> int:
    """The process of Spark's JVM."""
    java: Any = spark._jvm
    return int(java.java.lang.ProcessHandle.current().pid())


@pytest.fixture
def jdbc(jvm: int, tmp_path: Path) -> Iterator[ConnectedCatalog]:
    """A catalog in a SQLite file with one table of two rows."""
    lake = HeadLake(tmp_path)
    lake.create(TABLE)
    lake.commit(TABLE)
    lake.commit(TABLE)
    database = str(lake.database)
    properties = {**lake.properties, "warehouse": f"file://{tmp_path}/warehouse"}
    yield ConnectedCatalog(properties, lambda: list_files(jvm).count(database))
    lake.close()


@pytest.fixture
def rest(jvm: int) -> Iterator[ConnectedCatalog]:
    """A REST catalog without tables, which gives out a token that has to be renewed."""
    with rest_catalog.serve() as catalog:
        token = {"access_token": "t", "token_type": "bearer", "expires_in": 3600}
        catalog.answers["/v1/oauth/tokens"] = (200, token)
        port = catalog.port
        yield ConnectedCatalog(
            {**catalog.properties, "credential": "id:secret"},
            lambda: len({f"socket:[{n}]" for n in list_sockets_to(port)} & set(list_files(jvm))),
        )


@pytest.fixture(params=["jdbc", "rest"])
def catalog(request: pytest.FixtureRequest) -> ConnectedCatalog:
    made: ConnectedCatalog = request.getfixturevalue(request.param)
    return made


def make_pipeline(
    spark: SparkSession, url: str, folder: Path, catalog: ConnectedCatalog, table: str
) -> Harness:
    entry = {"name": table, "index": "things", "identifierColumns": ["id"]}
    described = {"name": NAME, "properties": catalog.properties}
    return Harness(spark, url, folder, [entry], catalog=described)


class Failures(logging.Filter):
    """Counts what is logged of failed attempts, and drops it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        self.count += "TableNotFound" in record.getMessage()
        return False


@pytest.fixture
def failures() -> Iterator[Failures]:
    counted = Failures()
    told_failures.LOG.addFilter(counted)
    yield counted
    told_failures.LOG.removeFilter(counted)


def count_sessions(jvm: int) -> int:
    """Return the number of Spark sessions in memory."""
    # What Python no longer uses is freed in the JVM as well.
    gc.collect()
    return read_heap(jvm).objects[SESSION]


def test_fifty_retries_of_a_stalled_table_leave_neither_connection_nor_thread_nor_session(
    spark: SparkSession,
    jvm: int,
    catalog: ConnectedCatalog,
    clean_indices: str,
    tmp_path: Path,
    failures: Failures,
) -> None:
    request = make_pipeline(spark, clean_indices, tmp_path, catalog, "shop.missing").make_request(
        continuous=True
    )
    stop, most, sessions = threading.Event(), 0, count_sessions(jvm)

    def wait_for_retries(times: int) -> int:
        """Return how many threads there are then."""
        wanted = failures.count + times

        def have_come() -> bool:
            nonlocal most
            most = max(most, catalog.connections())
            return failures.count >= wanted

        wait_until(have_come, f"{times} retries", seconds=120, pause=0.01)
        return count_threads(jvm)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(request, spark, stop, recheck_seconds=0.0).run)
        try:
            warm = wait_for_retries(WARM)
            later = wait_for_retries(RETRIES)
        finally:
            stop.set()
        assert running.result(WAIT_SECONDS).outcome is None
    last = RunReport.read(Path(request.report_path))
    assert (last.tables[0].reason, last.open_sessions) == ("TableNotFound", ())
    # One catalog at a time: JDBC's has two connections at most, a REST client one for each thread.
    assert most <= 2, most
    assert later <= warm + 2, (warm, later)
    assert catalog.connections() == 0
    # pyspark frees them by and by. One is of the thread that made the last attempt.
    wait_until(lambda: count_sessions(jvm) <= sessions + 1, "the sessions are freed", pause=0.5)


def test_whatever_a_run_was_asked_to_do_it_leaves_no_connection_to_the_catalog(
    spark: SparkSession, jdbc: ConnectedCatalog, clean_indices: str, tmp_path: Path
) -> None:
    harness = make_pipeline(spark, clean_indices, tmp_path, jdbc, TABLE)
    for mode in (RunMode.RUN, *(mode for mode in RunMode if mode is not RunMode.DELETE)):
        report = harness.run(mode)
        assert report.outcome is None, (mode, report.outcome)
        assert jdbc.connections() == 0, mode
    assert harness.run(RunMode.DELETE).outcome is None
    assert jdbc.connections() == 0


def test_a_closed_session_says_so_whoever_uses_it(
    spark: SparkSession, jdbc: ConnectedCatalog
) -> None:
    with closing(open_table_session(spark, NAME, jdbc.properties)) as opened:
        plain = opened.spark
        table = CachedTable(plain, NAME, TABLE)
        assert table.load().find_current_snapshot() is not None
        assert jdbc.connections() > 0
        table.close()
        with pytest.raises(SessionClosedError, match=f"{TABLE} is closed"):
            table.load()
    assert jdbc.connections() == 0
    with pytest.raises(SessionClosedError, match=f"the session of catalog {NAME} is closed"):
        assert opened.spark
    with pytest.raises(Exception, match="closed pool"):
        plain.table(f"{NAME}.{TABLE}").collect()
    assert jdbc.connections() == 0
    opened.close()


def test_a_session_that_never_used_its_catalog_does_not_connect_to_close_it(
    spark: SparkSession, jdbc: ConnectedCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    missing = {**jdbc.properties, "uri": "jdbc:sqlite:/nowhere/c.db"}
    open_table_session(spark, NAME, missing).close()
    assert [record.getMessage() for record in caplog.records] == []
