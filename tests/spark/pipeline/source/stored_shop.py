"""A table in an object store, the catalog that vends keys for its files, and what follows it."""

import itertools
import json
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog

from icdc_api.job.run_files import RunReport
from icdc_testing.lake.catalogs.head_lake import end_threads
from icdc_testing.lake.catalogs.rest_catalog import RestCatalog
from icdc_testing.target import oracle

from .object_store import ObjectStore
from .store_runs import StoreRuns

ALIAS = "things"
LOOPBACK = "127.0.0.1"
FILES = 4
"""Data files of each commit, each read by a task of its own."""
SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])
QUICK = {"s3.retry.num-retries": "2", "s3.retry.min-wait-ms": "10", "s3.retry.max-wait-ms": "50"}


class StoredShop:
    """One table in the store, the catalog that vends keys for it, and the pipeline over it."""

    def __init__(self, store: ObjectStore, catalog: RestCatalog, runs: StoreRuns) -> None:
        self.store, self.catalog, self.runs = store, catalog, runs
        self.store_host = self.catalog_host = LOOPBACK
        """By which the pipeline reaches them."""
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
        self.catalog.put(self.table, metadata, location, {**self._reach_store(), **vended})
        return key

    def close(self) -> None:
        self._writer.close()

    def run(self) -> RunReport:
        """Run the pipeline to its end."""
        uri = self.catalog.properties["uri"].replace(LOOPBACK, self.catalog_host)
        properties = {**self.catalog.properties, "uri": uri, **QUICK}
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

    def _reach_store(self) -> dict[str, str]:
        """Return the properties by which Iceberg reaches the store, without keys."""
        return {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.store.url.replace(LOOPBACK, self.store_host),
            "s3.path-style-access": "true",
            "client.region": "eu-west-1",
        }


def make_documents(last: int) -> dict[str, dict[str, object]]:
    """Return the documents of the rows 1 to `last`."""
    return {str(n): {"id": n, "name": f"n{n}"} for n in range(1, last + 1)}
