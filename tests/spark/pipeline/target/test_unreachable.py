"""Sources and targets that cannot be reached, refuse the credentials or refuse writes."""

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import FailureClass
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableReason, TableStatus
from icdc_spark.opensearch.stores import access
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables import cures
from icdc_testing.tables.scenarios import list_operations, put, select_writes
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

PATIENCE_SECONDS = 15.0
"""Seconds for which a run repeats its requests to what is not there; a minute in production."""


@pytest.fixture(scope="module")
def closed_port() -> Iterator[int]:
    """A port of the loopback that nothing listens on."""
    with socket.socket() as taken:
        # Bound but not listening: connections are refused, and nobody else can take it.
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture(scope="module", autouse=True)
def unreachable(
    spark: SparkSession, closed_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Future[RunReport]]:
    """A run on an OpenSearch that is not there: it is patient while the other tests run."""
    harness = Harness(
        spark,
        f"http://127.0.0.1:{closed_port}",
        tmp_path_factory.mktemp("unreachable"),
        [make_entry("db.any")],
        name="unreachable",
    )
    before = set(threading.enumerate())
    impatient = partial(StateStore, patience=PATIENCE_SECONDS)
    with ThreadPoolExecutor(1, "run") as pool:
        # For this run alone: it has opened its store when its table is followed.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(access, "StateStore", impatient)
            running = pool.submit(harness.run)
            # Not before the table has its own thread, which a test would take for a left-over.
            wait_until(
                lambda: len(set(threading.enumerate()) - before) > 1, "the table's thread runs"
            )
        yield running


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a'), (2, 'b')")
    return name


def make_entry(table: str) -> dict[str, Any]:
    return {"name": table, "identifierColumns": ["id"], "index": "things"}


def get_only_table(report: RunReport) -> TableStatus:
    (status,) = report.tables
    return status


@pytest.mark.parametrize(
    ("properties", "cause"),
    [
        (
            {"type": "rest", "uri": "http://127.0.0.1:{port}"},
            "org.apache.iceberg.shaded.org.apache.hc.client5.http.HttpHostConnectException: "
            "Connect to http://127.0.0.1:{port} failed: Connection refused",
        ),
        (
            {
                "type": "jdbc",
                "uri": "jdbc:sqlite:/nowhere/at/all.db",
                "warehouse": "file:///nowhere",
            },
            "org.sqlite.SQLiteException: [SQLITE_CANTOPEN] Unable to open the database file "
            "(unable to open database file)",
        ),
    ],
    ids=["rest", "jdbc"],
)
def test_a_table_waits_while_its_catalog_cannot_be_reached_and_the_others_go_on(
    spark: SparkSession,
    proxy: FaultProxy,
    clean_indices: str,
    table: str,
    closed_port: int,
    tmp_path: Path,
    properties: dict[str, str],
    cause: str,
) -> None:
    resolved = {key: value.format(port=closed_port) for key, value in properties.items()}
    far = {
        "name": "db.far",
        "identifierColumns": ["id"],
        "catalog": {"name": f"far_{properties['type']}", "properties": resolved},
    }
    report = Harness(spark, proxy.url, tmp_path, [far, make_entry(table)]).run()

    waiting, healthy = report.tables
    assert (waiting.state, waiting.reason) == ("Pending", "SourceUnavailable")
    assert waiting.message == (
        "db.far: the catalog or the table's files cannot be reached "
        f"({cause.format(port=closed_port)})"
    )
    assert report.outcome is not None
    assert (report.outcome.failure_class, report.outcome.retryable) == ("SourceUnavailable", True)
    assert (healthy.state, healthy.reason) == ("Streaming", None)
    oracle.assert_equal(
        oracle.read_index(clean_indices, "things"),
        oracle.read_expected(spark, f"lake.{table}", ["id"]),
    )


@pytest.mark.parametrize("secret", [None, "search"])
def test_wrong_credentials_stall_the_table_and_name_the_secret(
    spark: SparkSession, clean_indices: str, table: str, tmp_path: Path, secret: str | None
) -> None:
    folder = tmp_path / "secrets" / "search"
    folder.mkdir(parents=True)
    (folder / "username").write_text("icdc")
    (folder / "password").write_text("wrong")
    with FaultProxy(clean_indices, credentials=("icdc", "right")) as proxy:
        harness = Harness(spark, proxy.url, tmp_path, [make_entry(table)])
        if secret:
            sink = harness.resource["spec"]["sink"]["opensearch"]
            sink["credentialsFrom"] = {"secretRef": {"name": secret}}
        status = get_only_table(harness.run(secrets_dir=str(tmp_path / "secrets")))
        who = (
            "the credentials in Secret 'search' are not accepted."
            if secret
            else "we are not accepted (no credentialsFrom is set)."
        )
        assert (status.state, status.reason, status.message) == (
            "Stalled",
            "Unauthorized",
            f"OpenSearch at {proxy.url} answered 401: {who}",
        )
        assert proxy.list_writes() == []
        if secret:
            # Put right, the next run needs nothing else.
            (folder / "password").write_text("right")
            assert (
                get_only_table(harness.run(secrets_dir=str(tmp_path / "secrets"))).rows_upserted
                == 2
            )


def build_block_message(url: str, what: str) -> str:
    return f"OpenSearch at {url} refuses writes{what}: remove the block, or free disk space."


def test_a_read_only_cluster_stalls_the_table_before_anything_is_made(
    spark: SparkSession, proxy: FaultProxy, clean_indices: str, table: str, tmp_path: Path
) -> None:
    harness = Harness(spark, proxy.url, tmp_path, [make_entry(table)])
    settings = f"{clean_indices}/_cluster/settings"
    oracle.request(settings, "PUT", {"persistent": {"cluster.blocks.read_only": True}})
    try:
        status = harness.run_to_stall()
    finally:
        lift = cures.find_cure(TableReason.TARGET_READ_ONLY, "cluster.blocks")
        cures.type_request(lift, clean_indices, "things")

    assert (status.reason, status.message) == (
        "TargetReadOnly",
        build_block_message(
            proxy.url, " to index 'icdc-state' (cluster_block_exception: cluster read-only (api))"
        ),
    )
    assert oracle.request(f"{clean_indices}/_mapping?expand_wildcards=all") == {}
    assert harness.sync().rows_upserted == 2


def test_a_read_only_index_stalls_the_table_and_the_batch_is_repeated_afterwards(
    spark: SparkSession, proxy: FaultProxy, clean_indices: str, table: str, tmp_path: Path
) -> None:
    harness = Harness(spark, proxy.url, tmp_path, [make_entry(table)])
    harness.sync()
    settings = f"{clean_indices}/things-000001/_settings"
    oracle.request(settings, "PUT", {"index.blocks.write": True})
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")

    status = harness.run_to_stall()
    assert (status.reason, status.message) == (
        "TargetReadOnly",
        build_block_message(
            proxy.url, " to index 'things-000001' (cluster_block_exception: index write (api))"
        ),
    )
    wanted = {"1": {"id": 1, "name": "a"}, "2": {"id": 2, "name": "b"}}
    assert oracle.read_index(clean_indices, "things") == wanted

    # The next run repeats the batch as recorded, then does what has come since; until then
    # nothing is repaired.
    spark.sql(f"update lake.{table} set name = 'y' where id = 2")
    oracle.request(settings, "PUT", {"index.blocks.write": None})
    oracle.request(f"{clean_indices}/things-000001/_doc/2", "PUT", {"id": 2, "name": "edited"})
    proxy.clear()
    compared = harness.inspect(RunMode.REPAIR)
    assert (compared["equal"], compared["repaired"], compared["message"]) == (
        None,
        None,
        "not settled: the pipeline wrote meanwhile (1 documents); "
        "a batch is under way: run the pipeline, then ask again",
    )
    assert proxy.list_writes() == []
    harness.sync()
    assert list_operations(select_writes(proxy.list_writes(), "things")) == [
        put("1", id=1, name="x"),
        put("2", id=2, name="y"),
    ]
    oracle.assert_equal(
        oracle.read_index(clean_indices, "things"),
        oracle.read_expected(spark, f"lake.{table}", ["id"]),
    )


@pytest.mark.parametrize(
    ("shards", "replicas"), [(1, 0), (2, 2)], ids=["for the index", "for its replicas"]
)
def test_a_cluster_without_room_for_shards_says_so_and_the_table_goes_on_once_there_is(
    spark: SparkSession,
    proxy: FaultProxy,
    clean_indices: str,
    table: str,
    tmp_path: Path,
    shards: int,
    replicas: int,
) -> None:
    harness = Harness(spark, proxy.url, tmp_path, [make_entry(table)])
    harness.resource["spec"]["sink"]["opensearch"]["indexSettings"]["number_of_replicas"] = replicas
    settings = f"{clean_indices}/_cluster/settings"
    oracle.request(settings, "PUT", {"transient": {"cluster.max_shards_per_node": shards}})
    try:
        status = harness.run_to_stall()
    finally:
        oracle.request(settings, "PUT", {"transient": {"cluster.max_shards_per_node": None}})

    assert status.reason == "TargetReadOnly"
    # Since OpenSearch 3 it counts shards of several kinds, and says which.
    limit = rf"add \[\d] total .*/\[{shards}] maximum [\w ]+\): delete indices, add nodes, or raise"
    assert re.search(rf"takes no more shards \(this action would {limit}", status.message or "")
    assert harness.sync().rows_upserted == 2


def test_a_table_waits_while_opensearch_cannot_be_reached(
    unreachable: Future[RunReport], closed_port: int
) -> None:
    report = unreachable.result(timeout=120)

    status, outcome = get_only_table(report), report.outcome
    message = f"OpenSearch at http://127.0.0.1:{closed_port} cannot be reached."
    assert (status.state, status.reason, status.message) == (
        "Pending",
        "TargetUnavailable",
        message,
    )
    assert outcome is not None
    assert (outcome.failure_class, outcome.retryable, outcome.message) == (
        FailureClass.TARGET_UNAVAILABLE,
        True,
        message,
    )
