"""An object store that refuses, cuts and shortens reads, and credentials that expire amid a stage.

The catalog vends the credentials of the files with each load of the table, as REST catalogs do.
"""

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from icdc_api.job.run_files import RunReport
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.head_lake import end_threads
from icdc_testing.lake.catalogs.rest_catalog import RestCatalog
from icdc_testing.target import oracle

from . import object_store, store_runs
from .object_store import Harm, ObjectStore
from .store_runs import StoreRuns

pytestmark = pytest.mark.spark

ALIAS = "things"
FILES = 4
"""Data files of each commit, each read by a task of its own."""
SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])
QUICK = {"s3.retry.num-retries": "2", "s3.retry.min-wait-ms": "10", "s3.retry.max-wait-ms": "50"}


class StoredShop:
    """One table in the store, the catalog that vends keys for it, and the pipeline over it."""

    def __init__(self, store: ObjectStore, catalog: RestCatalog, runs: StoreRuns) -> None:
        self.store, self.catalog, self.runs = store, catalog, runs
        self.url = ""
        self.folder = Path()
        self._keys = itertools.count(1)
        self._names = itertools.count(1)
        arrow = {"s3.region": "eu-west-1", "s3.endpoint": store.url}
        keys = {"s3.access-key-id": "WRITER", "s3.secret-access-key": "none"}
        # Nothing else writes here, so the writer's own catalog needs no server.
        self._writer = InMemoryCatalog("writer", warehouse="s3://lake/warehouse", **arrow, **keys)
        self._writer.create_namespace("db")

    def create(self) -> None:
        """Create a table, the only one that the pipeline has from now on."""
        self.table = f"db.t{next(self._names)}"
        self._written = self._writer.create_table(self.table, SCHEMA)

    def insert(self, first: int) -> None:
        """Commit rows, each in a file of its own, and let the catalog answer with the commits."""
        for number in range(first, first + FILES):
            row = {"id": number, "name": f"n{number}"}
            self._written.append(pa.Table.from_pylist([row], SCHEMA))
        end_threads()
        self.vend()

    def vend(self) -> str:
        """Answer with the newest metadata and a new key for its files from now on."""
        key = f"KEY{next(self._keys)}"
        location = self._written.metadata_location
        metadata = json.loads(self.store.objects[location.removeprefix("s3://")])
        vended = {"s3.access-key-id": key, "s3.secret-access-key": "none", **QUICK}
        self.catalog.put(self.table, metadata, location, {**reach(self.store), **vended})
        return key

    def close(self) -> None:
        self._writer.close()

    def run(self) -> RunReport:
        """Run the pipeline to its end."""
        properties = {**self.catalog.properties, **QUICK}
        entry = {
            "name": self.table,
            "index": ALIAS,
            "identifierColumns": ["id"],
            "catalog": {"name": "rest", "properties": properties},
        }
        never = {"pinSnapshots": "Never"}
        return self.runs.run(self.folder, self.url, [entry], changelog=never)

    def assert_follows(self, last: int) -> None:
        """Run, and compare the index with the rows 1 to `last` of the table."""
        report = self.run()
        assert report.outcome is None, report.outcome
        assert oracle.read_index(self.url, ALIAS) == make_documents(last)

    def assert_passing(self, report: RunReport, words: str) -> None:
        """Require an error that passes by itself, and an index that is as it was."""
        assert report.outcome is not None
        assert (report.outcome.reason, report.outcome.retryable) == ("SourceUnavailable", True)
        (table,) = report.tables
        assert words in (table.message or "")
        # A part of the batch may be written.
        assert make_documents(FILES).items() <= oracle.read_index(self.url, ALIAS).items()


def make_documents(last: int) -> dict[str, dict[str, object]]:
    """Return the documents of the rows 1 to `last`."""
    return {str(n): {"id": n, "name": f"n{n}"} for n in range(1, last + 1)}


def reach(store: ObjectStore) -> dict[str, str]:
    """Return the properties by which Iceberg reaches the store, without keys."""
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": store.url,
        "s3.path-style-access": "true",
        "client.region": "eu-west-1",
    }


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredShop]:
    folder = tmp_path_factory.mktemp("store")
    with (
        object_store.serve() as store,
        rest_catalog.serve() as catalog,
        store_runs.start_program(folder) as runs,
        closing(StoredShop(store, catalog, runs)) as shop,
    ):
        yield shop


@pytest.fixture
def shop(opened: StoredShop, clean_indices: str, tmp_path: Path) -> Iterator[StoredShop]:
    """A table of FILES rows that is followed already."""
    opened.url, opened.folder = clean_indices, tmp_path
    opened.create()
    opened.insert(1)
    opened.assert_follows(FILES)
    yield opened
    opened.store.heal()


@pytest.mark.sampled
@pytest.mark.parametrize("harm", Harm)
def test_a_few_harmed_reads_are_made_again(shop: StoredShop, harm: Harm) -> None:
    shop.insert(FILES + 1)
    fault = shop.store.harm(harm, times=2)
    shop.assert_follows(2 * FILES)
    assert fault.harmed == 2


PASSES: dict[tuple[Harm, str], str] = {
    (Harm.SLOW_DOWN, ".parquet"): "Please reduce your request rate",
    (Harm.SLOW_DOWN, ".avro"): "Please reduce your request rate",
    (Harm.CUT, ".parquet"): "Premature end of Content-Length delimited message body",
    # Its length is that of the manifest, so it is the answer that is short, and not the file.
    (Harm.SHORT, ".parquet"): "bytes, and of the last 4 it returned 2",
    (Harm.CUT, ".avro"): "Premature end of Content-Length delimited message body",
}


@pytest.mark.sampled
@pytest.mark.parametrize(("harm", "suffix"), PASSES)
def test_a_store_that_harms_all_reads_is_waited_out(
    shop: StoredShop, harm: Harm, suffix: str
) -> None:
    shop.insert(FILES + 1)
    shop.store.harm(harm, suffix, times=10_000)
    report = shop.run()
    shop.assert_passing(report, PASSES[harm, suffix])
    shop.store.heal()
    shop.assert_follows(2 * FILES)


def test_metadata_that_is_answered_in_part_is_damage_until_it_is_whole(shop: StoredShop) -> None:
    shop.insert(FILES + 1)
    shop.store.harm(Harm.SHORT, ".avro", times=10_000)
    (table,) = shop.run().tables
    assert table.reason == "FileUnreadable"
    assert "ends too early" in (table.message or "")
    shop.store.heal()
    shop.assert_follows(2 * FILES)


def test_credentials_that_expire_amid_a_stage_are_replaced_by_the_next_run(
    shop: StoredShop,
) -> None:
    shop.insert(FILES + 1)
    key = shop.vend()
    shop.store.expire(key, after=1)
    shop.assert_passing(shop.run(), "the credentials of the table's files have expired")
    used = {read.status for read in shop.store.reads if read.access_key == key}
    assert {206, 400} <= used
    shop.vend()
    shop.assert_follows(2 * FILES)
