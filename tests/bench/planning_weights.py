"""What one snapshot, manifest or file takes in the driver while files are planned.

The tables are made of metadata alone. An index of delete files is weighed while a window of data
files is planned, the largest of all windows.
"""

import functools
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from icdc_spark.iceberg.scan.applicable_deletes import narrow_deletes
from icdc_spark.iceberg.scan.manifests import read_manifests
from icdc_spark.iceberg.scan.ordered_scan import WINDOW_FILES, OrderedScan
from icdc_spark.iceberg.scan.partial_scan import plan_partial_scan
from icdc_spark.iceberg.scan.planning import list_files
from icdc_testing.lake.metadata_table import MetadataTable
from icdc_testing.waiting.jvm import FileCounter, read_heap
from planning_tables import read_head, write_manifest

COMMITS = 500
"""Of the table whose snapshots and manifests are weighed, one file each."""
PARTS = 20
"""Manifests of data files, and as many of delete files."""

Make = Callable[[MetadataTable, Any], Any]

_DELETES: dict[str, tuple[int, Make]] = {
    "position deletes": (2, functools.partial(MetadataTable.make_position_deletes, target=True)),
    "deletion vectors": (3, MetadataTable.make_vector),
}
"""By name the format version, and how a delete file of one data file is made."""


class _Weight(NamedTuple):
    """Bytes."""

    java: int
    python: int


class PlanningWeights:
    """Weighs what planning holds, each in a table of its own."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session, self._folder = session, folder
        self._files = FileCounter(session)

    def measure(self, data_files: int) -> Iterator[dict[str, Any]]:
        """Yield what one of each takes, in tables of so many data files where it is about these."""
        table = self._make_table("commits", 2)
        for _ in range(COMMITS):
            table.java.newFastAppend().appendFile(table.make_data_file()).commit()
        head, snapshots = read_head(table), self._weigh(lambda: _load_snapshots(table))
        yield _describe("snapshot", COMMITS, snapshots)
        # Loaded anew: a table remembers the manifests that were read once.
        scanned = self._weigh(lambda: OrderedScan(table.load(), head))
        alone = _Weight(scanned.java - snapshots.java, scanned.python)
        yield _describe("manifest", COMMITS, alone)
        table = self._make_table("files", 2)
        _fill(table, data_files)
        loaded, head = table.load(), read_head(table)
        weight = self._weigh(lambda: list_files(loaded, head))
        yield _describe("data file of a batch", data_files, weight)
        for kind in _DELETES:
            for is_near in (True, False):
                yield self._measure_deletes(kind, data_files, is_near=is_near)

    def _measure_deletes(self, kind: str, data_files: int, *, is_near: bool) -> dict[str, Any]:
        version, make = _DELETES[kind]
        where = "near their data" if is_near else "everywhere"
        made = self._make_table(f"{kind}-{where}".replace(" ", "-"), version)
        files = _fill(made, data_files)
        for part in _split(files, is_near=is_near):
            change = made.java.newRowDelta()
            for file in part:
                change = change.addDeletes(make(made, file))
            change.commit()
        del files, part, file, change
        table, head = made.load(), read_head(made)
        deletes, planned, heaviest = read_manifests(table, head).deletes, 0, _Weight(0, 0)
        for window in OrderedScan(table, head).windows:
            narrowed = narrow_deletes(table, window, deletes, at_once=WINDOW_FILES)
            # Of one data manifest, which is read when it is asked for: this is the index alone.
            one = window.cut(1)[0]
            weight = self._weigh(functools.partial(plan_partial_scan, table, one, narrowed))
            planned, heaviest = max((planned, heaviest), (narrowed.live_files, weight))
        return _describe(f"{kind}, {where}", planned, heaviest, of=data_files)

    def _weigh(self, load: Callable[[], Any]) -> _Weight:
        # Once before: what the first time leaves behind for ever is not weighed.
        load()
        self._files.wait_until_freed()
        before = read_heap(self._files.jvm).bytes
        tracemalloc.start()
        held = load()
        gc.collect()
        python, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        java = read_heap(self._files.jvm).bytes - before
        del held
        return _Weight(java, python)

    def _make_table(self, name: str, version: int) -> MetadataTable:
        properties = {"format-version": str(version), "commit.manifest-merge.enabled": "false"}
        return MetadataTable(self._session, str(self._folder / name), **properties)


def _load_snapshots(made: MetadataTable) -> Any:
    table = made.load()
    return table, table.snapshots


def _fill(table: MetadataTable, count: int) -> list[Any]:
    """Commit so many data files in PARTS manifests, and return them."""
    files = list(table.make_copies(table.make_data_file(), count))
    change = table.java.newFastAppend()
    for number, part in enumerate(_split(files, is_near=True)):
        described = table.bridge.create_object("java.util.ArrayList")
        for file in part:
            described.add(file)
        location = f"{table.java.location()}/m{number}.avro"
        change = change.appendManifest(write_manifest(table, location, described))
    change.commit()
    return files


def _split(files: list[Any], *, is_near: bool) -> list[list[Any]]:
    """Return PARTS lists, of files that follow each other or of files from all over."""
    if not is_near:
        return [files[at::PARTS] for at in range(PARTS)]
    size = -(-len(files) // PARTS)
    return [files[at : at + size] for at in range(0, len(files), size)]


def _describe(what: str, held: int, weight: _Weight, *, of: int | None = None) -> dict[str, Any]:
    return {
        "what": what,
        "in_the_table": of or held,
        "in_memory": held,
        "jvm_bytes_of_one": round(weight.java / held),
        "python_bytes_of_one": round(weight.python / held),
    }
