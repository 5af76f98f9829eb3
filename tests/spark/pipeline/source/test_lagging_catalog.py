"""A REST catalog behind a cache, or of replicas that disagree: an older answer undoes nothing.

The tables are real, and so is each metadata file; the catalog answers with the one that a test
chooses.
"""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import FailureClass
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.rest_catalog import RestCatalog
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

ALIAS = "things"


class Replicas:
    """What the catalog answers with: metadata files of one table of the lake, by their age."""

    def __init__(self, catalog: RestCatalog, lake: Lake, table: str) -> None:
        self.catalog, self.lake, self.table = catalog, lake, table

    def commit(self, values: str) -> int:
        """Insert into the table and return the number of its newest metadata file."""
        self.lake.sql(f"insert into lake.{self.table} values {values}")
        return self.newest

    @property
    def newest(self) -> int:
        location = self.lake.load_table(self.table).metadata_location
        return int(Path(location).name.removeprefix("v").split(".")[0])

    def answer_with(self, number: int) -> None:
        """Answer with metadata file `number` from now on."""
        folder = Path(urlsplit(self.lake.load_table(self.table).metadata_location).path).parent
        file = folder / f"v{number}.metadata.json"
        self.catalog.put(self.table, json.loads(file.read_text()), location=str(file))


@pytest.fixture
def replicas(lake: Lake) -> Iterator[Replicas]:
    table = lake.create("id int, name string")
    with rest_catalog.serve() as catalog:
        yield Replicas(catalog, lake, table)


@pytest.fixture
def pipeline(
    spark: SparkSession, clean_indices: str, replicas: Replicas, tmp_path: Path
) -> Callable[..., Harness]:
    files = {"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}

    def build(**changelog: Any) -> Harness:
        entry = {
            "name": replicas.table,
            "index": ALIAS,
            "identifierColumns": ["id"],
            "catalog": {"name": "rest", "properties": {**replicas.catalog.properties, **files}},
        }
        # Our catalog takes no commits, which a tag would be.
        return Harness(
            spark,
            clean_indices,
            tmp_path,
            [entry],
            changelog={"pinSnapshots": "Never", **changelog},
        )

    return build


def read_names(url: str) -> dict[str, str]:
    return {key: document["name"] for key, document in oracle.read_index(url, ALIAS).items()}


@pytest.mark.parametrize("on_gap", ["Reexport", "Stop"])
def test_an_older_answer_is_no_gap_and_takes_nothing_back(
    pipeline: Callable[..., Harness], replicas: Replicas, clean_indices: str, on_gap: str
) -> None:
    harness = pipeline(onGap=on_gap)
    first, second = replicas.commit("(1, 'a')"), replicas.commit("(2, 'b')")
    replicas.answer_with(first)
    harness.sync()
    replicas.answer_with(second)
    harness.sync()
    for _ in range(2):
        replicas.answer_with(first)
        report = harness.run()
        assert report.outcome is not None
        assert report.outcome.failure_class is FailureClass.SOURCE_UNAVAILABLE
        assert report.outcome.retryable
        (table,) = report.tables
        assert "metadata that is older than what was already read" in (table.message or "")
        assert read_names(clean_indices) == {"1": "a", "2": "b"}
        replicas.answer_with(second)
        harness.sync()
        assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000001"]
    replicas.answer_with(replicas.commit("(3, 'c')"))
    harness.sync()
    assert read_names(clean_indices) == {"1": "a", "2": "b", "3": "c"}


@pytest.mark.parametrize("stays", [{"continuous": True}, {"linger_seconds": 3600}])
def test_replicas_that_disagree_delay_a_run_that_stays_and_confuse_nothing(
    pipeline: Callable[..., Harness],
    replicas: Replicas,
    spark: SparkSession,
    clean_indices: str,
    stays: dict[str, Any],
) -> None:
    harness = pipeline(onGap="Stop")
    numbers = [replicas.commit(f"({number}, 'a')") for number in range(1, 3)]
    replicas.answer_with(numbers[0])
    request, stop = harness.make_request(**stays), threading.Event()
    seen: list[set[str]] = []
    reasons: set[str | None] = set()

    def poll() -> TableStatus | None:
        if not Path(request.report_path).exists():
            return None
        (table,) = RunReport.read(Path(request.report_path)).tables
        reasons.add(table.reason)
        if table.applied_snapshot_id is not None:
            seen.append(set(oracle.read_index(clean_indices, ALIAS)))
        return table

    def is_refused() -> bool:
        table = poll()
        return table is not None and table.reason == "SourceUnavailable"

    def is_applied(rows: int) -> bool:
        return poll() is not None and bool(seen) and len(seen[-1]) == rows

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(request, spark, stop).run)
        try:
            wait_until(partial(is_applied, 1), "the first row")
            replicas.answer_with(numbers[1])
            wait_until(partial(is_applied, 2), "the second row")
            # The other replica never heard of the commit.
            replicas.answer_with(numbers[0])
            wait_until(is_refused, "the older answer is noticed")
            replicas.answer_with(numbers[1])
            wait_until(lambda: not is_refused(), "the run has recovered")
        finally:
            stop.set()
        assert running.result(WAIT_SECONDS).outcome is None
    assert reasons <= {None, "SourceUnavailable"}
    assert all(before <= after for before, after in pairwise(seen))
    assert read_names(clean_indices) == dict.fromkeys("12", "a")


def test_an_answer_of_not_modified_that_is_wrong_delays_a_commit_and_loses_none(
    pipeline: Callable[..., Harness], replicas: Replicas, clean_indices: str
) -> None:
    harness = pipeline()
    replicas.catalog.etags = True
    replicas.answer_with(replicas.commit("(1, 'a')"))
    harness.sync()
    # The same ETag for another state of the table, as a cache that was keyed badly gives it.
    replicas.catalog.fixed_etag = 'W/"always the same"'
    replicas.answer_with(replicas.commit("(2, 'b')"))
    harness.sync()
    replicas.answer_with(replicas.commit("(3, 'c')"))
    harness.sync()
    replicas.catalog.fixed_etag = None
    harness.sync()
    assert read_names(clean_indices) == {"1": "a", "2": "b", "3": "c"}


def test_plan_says_that_the_catalog_lags(
    pipeline: Callable[..., Harness], replicas: Replicas
) -> None:
    harness = pipeline()
    first, second = replicas.commit("(1, 'a')"), replicas.commit("(2, 'b')")
    replicas.answer_with(second)
    harness.sync()
    replicas.answer_with(first)
    answer = harness.inspect(RunMode.PLAN)
    assert answer["reason"] == "SourceUnavailable"
    assert "older than what was already read" in answer["message"]
