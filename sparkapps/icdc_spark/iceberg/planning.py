"""Which data files a snapshot consists of, and what differs between two snapshots, by files.

Asks Iceberg's own planning, so that every kind of delete file is assigned as any reader would.
Nothing here opens a data file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from icdc_spark.iceberg.errors import source_errors
from icdc_spark.iceberg.tables import IcebergTable

_TASK = "org.apache.iceberg.FileScanTask"
_CONTENT_TASK = "org.apache.iceberg.ContentScanTask"
_FILE = "org.apache.iceberg.ContentFile"
_DELETE = "org.apache.iceberg.DeleteFile"


@dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Data files to be read together, each with the deletes of its snapshot.

    `tasks` is a Java list of `FileScanTask`. `records` counts rows before deletes are applied.
    """

    tasks: Any = field(repr=False, compare=False)
    files: int
    records: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """One data file of a snapshot; `deletes` names the delete files that apply to it."""

    location: str
    position: int
    records: int
    bytes: int
    deletes: frozenset[str]


class Listing:
    """The files of one snapshot, in Iceberg's order."""

    def __init__(self, table: IcebergTable, tasks: Any, files: Sequence[PlannedFile]) -> None:
        self._table = table
        self._tasks = tasks
        self.files = files

    def group(self, files: Sequence[PlannedFile]) -> FileGroup:
        """The chosen files of this listing as one group."""
        return FileGroup(
            tasks=self._table.bridge.pick(self._tasks, [file.position for file in files]),
            files=len(files),
            records=sum(file.records for file in files),
            bytes=sum(file.bytes for file in files),
        )


def list_files(table: IcebergTable, snapshot_id: int | None, *, within: Any = None) -> Listing:
    """The files of a snapshot, of none for None; `within` is an Iceberg expression that prunes."""
    if snapshot_id is None:
        return Listing(table, table.bridge.new("java.util.ArrayList"), ())
    table.require(snapshot_id)
    with source_errors(table.name):
        scan = table.java.newScan().useSnapshot(snapshot_id)
        if within is not None:
            scan = scan.filter(within)
        tasks = table.bridge.drain(scan.planFiles())
        has_deletes = (
            not table.java.snapshot(snapshot_id).deleteManifests(table.java.io()).isEmpty()
        )
        return Listing(table, tasks, _planned(table, tasks, has_deletes=has_deletes))


def list_appended(table: IcebergTable, from_id: int, to_id: int) -> Listing:
    """The files that append snapshots brought after `from_id`; other snapshots are passed over."""
    with source_errors(table.name):
        scan = table.java.newIncrementalAppendScan()
        scan = scan.fromSnapshotExclusive(from_id).toSnapshot(to_id)
        tasks = table.bridge.drain(scan.planFiles())
        return Listing(table, tasks, _planned(table, tasks, has_deletes=False))


def merged(table: IcebergTable, groups: Sequence[FileGroup]) -> FileGroup:
    """Several groups as one, in their order."""
    tasks = table.bridge.new("java.util.ArrayList")
    for group in groups:
        tasks.addAll(group.tasks)
    return FileGroup(
        tasks=tasks,
        files=sum(group.files for group in groups),
        records=sum(group.records for group in groups),
        bytes=sum(group.bytes for group in groups),
    )


def _planned(table: IcebergTable, tasks: Any, *, has_deletes: bool) -> list[PlannedFile]:
    bridge = table.bridge
    files = bridge.map(tasks, _CONTENT_TASK, "file")
    locations = bridge.texts(bridge.map(files, _FILE, "location"))
    records = bridge.texts(bridge.map(files, _FILE, "recordCount"))
    sizes = bridge.texts(bridge.map(files, _FILE, "fileSizeInBytes"))
    deletes = _deletes(table, tasks) if has_deletes else [frozenset[str]()] * len(locations)
    return [
        PlannedFile(
            location=location,
            position=position,
            records=int(records[position]),
            bytes=int(sizes[position]),
            deletes=deletes[position],
        )
        for position, location in enumerate(locations)
    ]


def _deletes(table: IcebergTable, tasks: Any) -> list[frozenset[str]]:
    """Per task its delete files; many deletion vectors share one file, so the offset counts."""
    bridge = table.bridge
    nested = bridge.map(tasks, _TASK, "deletes")
    counts = [int(text) for text in bridge.texts(bridge.map(nested, "java.util.List", "size"))]
    flat = bridge.flatten(nested)
    locations = bridge.texts(bridge.map(flat, _FILE, "location"))
    offsets = bridge.texts(bridge.map(flat, _DELETE, "contentOffset"))
    names = iter([f"{place}@{at}" for place, at in zip(locations, offsets, strict=True)])
    return [frozenset(next(names) for _ in range(count)) for count in counts]
