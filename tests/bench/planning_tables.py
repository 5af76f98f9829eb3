"""Tables of many files in many manifests, made of metadata alone, and commits to plan in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.lake.metadata_table import MetadataTable

_ICEBERG = "org.apache.iceberg."
TOUCHED = 3
"""Data files that a small commit concerns."""
PARTITIONS = 100
"""Of the table that has any; each manifest is of one of them."""
ROWS = 1_000
"""Of each data file that is there before the commit that is planned."""
WITH_DELETES = 10
"""One data file in so many has deletes before the commit that is planned."""


@dataclass(frozen=True, kw_only=True)
class PlanningCase:
    """Two snapshots of a table; `files` and `manifests` (of both kinds) are of the later one.

    `keys` are the ids of the fields that make the ids of documents.
    """

    name: str
    table: MetadataTable
    since: int
    until: int
    files: int
    manifests: int
    keys: frozenset[int] = frozenset({1})
    rewrites_all: bool = False

    def load(self) -> IcebergTable:
        """Return the table, loaded anew."""
        return self.table.load()


class ManyFiles:
    """Tables with so many data files, spread over so many manifests."""

    def __init__(self, session: SparkSession, folder: Path, files: int, manifests: int) -> None:
        self._session, self._folder = session, folder
        self._files, self._manifests = files, manifests
        self._described: list[Any] = []

    def make_cases(self, *, growth_only: bool) -> Iterator[PlanningCase]:
        """Yield the tables, each when asked for; all kinds, or the two for growth."""
        yield from self._make_without_deletes(growth_only)
        yield from self._make_with_deletes("position deletes", 2)
        yield self._make_upserted()
        if not growth_only:
            yield from self._make_with_deletes("deletion vectors", 3)
            yield self._make_with_equality_deletes()

    def _make_without_deletes(self, growth_only: bool) -> Iterator[PlanningCase]:
        table, files = self._make_filled("plain", 2)
        since = read_head(table)
        change = table.java.newOverwrite()
        for file in _draw_key_range(files, TOUCHED):
            change = change.deleteFile(file).addFile(table.make_data_file())
        change.commit()
        yield self._make_case("copy-on-write, 3 files replaced", table, since)
        if growth_only:
            return
        since = read_head(table)
        table.java.newFastAppend().appendFile(table.make_data_file()).commit()
        yield self._make_case("append of 1 file", table, since)
        since = read_head(table)
        same = table.bridge.build_function(_ICEBERG + "ContentFile", "specId")
        table.java.rewriteManifests().clusterBy(same).commit()
        table.java.newFastAppend().appendFile(table.make_data_file()).commit()
        yield self._make_case("all manifests rewritten, 1 file appended", table, since, True)

    def _make_with_deletes(self, kind: str, version: int) -> Iterator[PlanningCase]:
        table, files = self._make_filled(kind.replace(" ", "-"), version)
        affected = files[::WITH_DELETES]
        for part in _split_parts(affected, self._manifests // WITH_DELETES):
            _delete_in(table, part)
        since = read_head(table)
        fresh = [file for at, file in enumerate(files) if at % WITH_DELETES]
        _delete_in(table, _draw_key_range(fresh, TOUCHED), table.make_data_file())
        name = f"merge-on-read, {kind} for 3 files, 1 file appended"
        yield self._make_case(name, table, since)

    def _make_upserted(self) -> PlanningCase:
        table, files = self._make_filled("upserted", 2)
        for number in range(self._manifests // WITH_DELETES + 1):
            since = read_head(table)
            change = table.java.newRowDelta().addDeletes(table.make_equality_deletes(files[number]))
            change.addRows(table.make_data_file()).commit()
        return self._make_case(
            "equality deletes by key for all files, 1 file appended", table, since
        )

    def _make_with_equality_deletes(self) -> PlanningCase:
        table = self._make_table("equality", 2)
        table.java.updateSpec().addField("p").commit()
        counts = [len(part) for part in _split_parts([None] * self._files, self._manifests)]
        parts = [
            [*table.make_copies(table.make_data_file(number % PARTITIONS, bounds=True), count)]
            for number, count in enumerate(counts)
        ]
        self._fill(table, parts)
        since = read_head(table)
        deletes = table.make_equality_deletes(parts[0][0], by=(1, 2))  # as streams must
        table.java.newRowDelta().addDeletes(deletes).addRows(table.make_data_file(0)).commit()
        name = f"equality deletes for 1 of {PARTITIONS} partitions, 1 file appended"
        return self._make_case(name, table, since)

    def _make_filled(self, name: str, version: int) -> tuple[MetadataTable, list[Any]]:
        table = self._make_table(name, version)
        if not self._described:  # the same ones serve every unpartitioned table of this size
            self._described = [
                *table.make_copies(table.make_data_file(bounds=True, rows=ROWS), self._files)
            ]
        self._fill(table, _split_parts(self._described, self._manifests))
        return table, self._described

    def _make_table(self, name: str, version: int) -> MetadataTable:
        return MetadataTable(
            self._session,
            str(self._folder / f"{name}-{self._files}"),
            **{"format-version": str(version), "commit.manifest-merge.enabled": "false"},
        )

    def _fill(self, table: MetadataTable, parts: list[list[Any]]) -> None:
        """Commit the files, each part in a manifest of its own."""
        change = table.java.newFastAppend()
        for number, part in enumerate(parts):
            location_rows = f"{table.java.location()}/m{number}.avro"
            listed = table.bridge.create_object("java.util.ArrayList")
            for file in part:
                listed.add(file)
            change = change.appendManifest(write_manifest(table, location_rows, listed))
        change.commit()

    def _make_case(
        self, name: str, table: MetadataTable, since: int, rewrites_all: bool = False
    ) -> PlanningCase:
        head = table.java.currentSnapshot()
        return PlanningCase(
            name=name,
            table=table,
            since=since,
            until=read_head(table),
            files=int(head.summary().get("total-data-files")),
            manifests=int(head.allManifests(table.java.io()).size()),
            rewrites_all=rewrites_all,
        )


def read_head(table: MetadataTable) -> int:
    """Return the id of the current snapshot."""
    table.java.refresh()
    return int(table.java.currentSnapshot().snapshotId())


def _delete_in(table: MetadataTable, files: list[Any], added: Any = None) -> None:
    change = table.java.newRowDelta()
    for file in files:
        if "deletion" in table.java.location():
            change = change.addDeletes(table.make_vector(file))
        else:
            change = change.addDeletes(table.make_position_deletes(file, target=True))
    (change if added is None else change.addRows(added)).commit()


def write_manifest(table: MetadataTable, location: str, files: Any) -> Any:
    """Write a manifest of a Java list of data files, to be appended by a commit."""
    output = table.java.io().newOutputFile(location)
    writers = table.bridge.get_statics(_ICEBERG + "ManifestFiles")
    version = table.java.operations().current().formatVersion()
    writer = writers.write(version, table.java.spec(), output, None)
    writer.addAll(files)
    writer.close()
    return writer.toManifestFile()


def _split_parts(files: list[Any], count: int) -> list[list[Any]]:
    size = max(1, len(files) // max(1, count))
    return [files[at : at + size] for at in range(0, len(files), size)]


def _draw_key_range(files: list[Any], count: int) -> list[Any]:
    """So many of them, from all over."""
    return files[:: max(1, len(files) // count)][:count]
