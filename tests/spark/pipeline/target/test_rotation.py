"""Passwords, certificates and tokens that are changed while a continuous run goes on."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.catalogs import service as catalog_service
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.tls import Authority
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

USER = "icdc"
RECHECK_SECONDS = 3600.0
"""After so long a stalled table is looked at again in any case: longer than any test waits."""
NAMES = ("IP:127.0.0.1",)


class Secrets:
    """Mounted Secrets, whose files are put in place of the former ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, **keys: str) -> None:
        """Replace keys of a Secret."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        for key, value in keys.items():
            fresh = self.folder / f"{key}.fresh"
            fresh.write_text(value, encoding="utf-8")
            fresh.replace(self.folder / name / key.replace("_", "."))


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    made = Secrets(tmp_path / "secrets")
    made.put("search", username=USER, password="first")
    return made


@pytest.fixture
def table(lake: Lake) -> str:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a')")
    return name


Status = Callable[[], TableStatus]


@contextmanager
def follow(
    spark: SparkSession, proxy: FaultProxy, folder: Path, entry: dict[str, Any], **sink: Any
) -> Iterator[Status]:
    """Run continuously; it must come to its end without a failure."""
    pipeline = Harness(spark, proxy.url, folder, [{"index": "things", **entry}])
    opensearch = pipeline.resource["spec"]["sink"]["opensearch"]
    opensearch["credentialsFrom"] = {"secretRef": {"name": "search"}}
    opensearch.update(sink)
    request = pipeline.make_request(continuous=True, secrets_dir=str(folder / "secrets"))
    stop = threading.Event()

    def read_status() -> TableStatus:
        return RunReport.read(Path(request.report_path)).tables[0]

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            PipelineRun(request, spark, stop, recheck_seconds=RECHECK_SECONDS).run
        )
        try:
            wait_until(Path(request.report_path).exists, "the run reports")
            yield read_status
        finally:
            stop.set()
        assert running.result(WAIT_SECONDS).outcome is None


def has_count(url: str, count: int) -> Callable[[], bool]:
    def poll() -> bool:
        listed = oracle.request(f"{url}/_alias", "GET", None)
        visible = any("things" in index["aliases"] for index in listed.values())
        return visible and len(oracle.read_index(url, "things")) == count

    return poll


def test_a_password_that_is_changed_in_the_middle_of_a_batch_needs_nobody(
    spark: SparkSession,
    lake: Lake,
    clean_indices: str,
    table: str,
    secrets: Secrets,
    tmp_path: Path,
) -> None:
    entry = {"name": table, "identifierColumns": ["id"]}
    with (
        FaultProxy(clean_indices, credentials=(USER, "first")) as proxy,
        follow(spark, proxy, tmp_path, entry) as status,
    ):
        wait_until(has_count(clean_indices, 1), "the table is exported")
        wait_until(lambda: status().state == "Streaming", "it is followed")
        held = proxy.hold("/things-0.*/_bulk")
        lake.sql(f"insert into lake.{table} values (2, 'b')")
        held.wait()
        proxy.credentials = (USER, "second")
        secrets.put("search", password="second")
        held.release()
        wait_until(
            lambda: 401 in {request.status for request in proxy.list_requests()}, "it is refused"
        )
        wait_until(has_count(clean_indices, 2), "the batch is written")
        wait_until(lambda: status().snapshots_behind == 0, "it is applied")
        assert status().reason is None


def test_a_password_that_comes_late_is_taken_up_without_waiting_for_the_recheck(
    spark: SparkSession,
    lake: Lake,
    clean_indices: str,
    table: str,
    secrets: Secrets,
    tmp_path: Path,
) -> None:
    entry = {"name": table, "identifierColumns": ["id"]}
    with (
        FaultProxy(clean_indices, credentials=(USER, "first")) as proxy,
        follow(spark, proxy, tmp_path, entry) as status,
    ):
        wait_until(lambda: status().state == "Streaming", "it is followed")
        proxy.credentials = (USER, "second")
        wait_until(lambda: status().reason == "Unauthorized", "it is refused")
        secrets.put("search", password="second")
        wait_until(lambda: status().state == "Streaming", "it goes on")


def test_a_certificate_of_another_authority_is_trusted_once_the_secret_has_it(
    spark: SparkSession,
    lake: Lake,
    clean_indices: str,
    table: str,
    secrets: Secrets,
    tmp_path: Path,
) -> None:
    first, second = (Authority.make(tmp_path / name) for name in ("first", "second"))
    secrets.put("search-ca", ca_crt=first.ca.read_text(encoding="utf-8"))
    served = first.issue("server", names=NAMES).make_server_context()
    tls = {"caFrom": {"secretRef": {"name": "search-ca"}}}
    entry = {"name": table, "identifierColumns": ["id"]}
    with (
        FaultProxy(clean_indices, credentials=(USER, "first"), tls=served) as proxy,
        follow(spark, proxy, tmp_path, entry, tls=tls) as status,
    ):
        wait_until(lambda: status().state == "Streaming", "it is followed")
        newer = second.issue("server", names=NAMES)
        served.load_cert_chain(newer.certificate, newer.key)
        secrets.put("search-ca", ca_crt=second.ca.read_text(encoding="utf-8"))
        proxy.stop()
        proxy.start()
        lake.sql(f"insert into lake.{table} values (2, 'b')")
        wait_until(has_count(clean_indices, 2), "the next batch is written")
        assert status().reason is None


def test_the_catalog_is_asked_with_the_token_that_its_secret_has_now(
    spark: SparkSession, clean_indices: str, secrets: Secrets, tmp_path: Path
) -> None:
    secrets.put("lake", token="first")
    with catalog_service.serve() as service:

        def is_asked_with(token: str) -> bool:
            asked = {request.headers.get("authorization") for request in service.all}
            return f"Bearer {token}" in asked

        catalog = {
            "name": "far",
            "properties": {"type": "rest", "uri": service.url},
            "propertiesFrom": [{"secretRef": {"name": "lake"}}],
        }
        entry = {"name": "db.far", "identifierColumns": ["id"], "catalog": catalog}
        with (
            FaultProxy(clean_indices, credentials=(USER, "first")) as proxy,
            follow(spark, proxy, tmp_path, entry),
        ):
            wait_until(lambda: is_asked_with("first"), "the catalog is asked")
            secrets.put("lake", token="second")
            wait_until(lambda: is_asked_with("second"), "it is asked with the new one")
