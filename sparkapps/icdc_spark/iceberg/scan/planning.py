"""Which data files a snapshot consists of, and what differs between two snapshots, by files.

Asks Iceberg's own planning, so that every kind of delete file is assigned as any reader would.
Nothing here opens a data file.
"""

import json
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.table.tables import IcebergTable

_TASK = "org.apache.iceberg.FileScanTask"
_CONTENT_TASK = "org.apache.iceberg.ContentScanTask"
_FILE = "org.apache.iceberg.ContentFile"
_DELETE = "org.apache.iceberg.DeleteFile"

_NAMES_AT_A_TIME = 100_000
"""Names of delete files that are in memory at once beside those that differ: some 30 MB."""


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
    """One data file of a snapshot; `deletes` names the delete files that apply to it.

    `sequence` is its data sequence number: deletes of before it do not apply.
    """

    location: str
    sequence: int
    position: int
    records: int
    bytes: int
    deletes: frozenset[str]


class Listing:
    """Files with their deletes, each as of one snapshot, in Iceberg's order."""

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

    def spec_ids(self, files: Sequence[PlannedFile]) -> list[int]:
        """The ids of the partition specs by which these files of this listing were written."""
        bridge = self._table.bridge
        chosen = bridge.pick(self._tasks, [file.position for file in files])
        files = data_files(bridge, chosen)
        return [int(text) for text in bridge.texts(bridge.map(files, _FILE, "specId"))]

    def without(self, places: Set[str], *others: "Listing") -> "Listing":
        """Those that are not at one of these locations, and after them those of other listings."""
        tasks = self._table.bridge.new("java.util.ArrayList", self._tasks)
        files = [file for file in self.files if file.location not in places]
        for other in others:
            first = int(tasks.size())
            tasks.addAll(other._tasks)
            files += [replace(file, position=first + file.position) for file in other.files]
        return Listing(self._table, tasks, files)


def list_files(table: IcebergTable, snapshot_id: int | None, *, within: Any = None) -> Listing:
    """The files of a snapshot, of none for None; `within` is an Iceberg expression that prunes."""
    if snapshot_id is None:
        return Listing(table, table.bridge.new("java.util.ArrayList"), ())
    table.require(snapshot_id)
    with source_errors(table.name):
        scan = table.java.newScan().useSnapshot(snapshot_id)
        if within is not None:
            scan = scan.filter(within)
        snapshot = table.java.snapshot(snapshot_id)
        has_deletes = not snapshot.deleteManifests(table.java.io()).isEmpty()
        return listing_of(table, scan.planFiles(), has_deletes=has_deletes)


def listing_of(
    table: IcebergTable, tasks: Any, *, only: Collection[str] | None = None, has_deletes: bool
) -> Listing:
    """What a Java closeable iterable of `FileScanTask` holds, `only` files with these locations."""
    bridge = table.bridge
    wanted = None
    if only is not None:
        path = [bridge.function(_FILE, "location"), bridge.function(_CONTENT_TASK, "file")]
        wanted = bridge.is_any_of(only, path)
    found = bridge.drain(tasks, wanted)
    return Listing(table, found, _planned(table, found, has_deletes=has_deletes))


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
    files = data_files(bridge, tasks)
    locations = bridge.texts(bridge.map(files, _FILE, "location"))
    sequences = bridge.texts(bridge.map(files, _FILE, "dataSequenceNumber"))
    records = bridge.texts(bridge.map(files, _FILE, "recordCount"))
    sizes = bridge.texts(bridge.map(files, _FILE, "fileSizeInBytes"))
    deletes = _deletes(table, tasks) if has_deletes else [frozenset[str]()] * len(locations)
    return [
        PlannedFile(
            location=location,
            sequence=int(sequences[position]),
            position=position,
            records=int(records[position]),
            bytes=int(sizes[position]),
            deletes=deletes[position],
        )
        for position, location in enumerate(locations)
    ]


def data_files(bridge: Bridge, tasks: Any) -> Any:
    """A Java list of the data files of scan tasks, a Java list."""
    return bridge.map(tasks, _CONTENT_TASK, "file")


def delete_names(bridge: Bridge, deletes: Any) -> list[str]:
    """What tells delete files, a Java list, from others: many deletion vectors share one file."""
    locations = bridge.texts(bridge.map(deletes, _FILE, "location"))
    offsets = bridge.texts(bridge.map(deletes, _DELETE, "contentOffset"))
    return [f"{place}@{at}" for place, at in zip(locations, offsets, strict=True)]


def equality_fields(bridge: Bridge, deletes: Any) -> list[tuple[int, ...]]:
    """Of each delete file of a Java list the ids of the fields that it compares, sorted; none where
    it names positions."""
    told = bridge.texts(bridge.map(deletes, _FILE, "equalityFieldIds"))
    return [tuple(sorted(json.loads(ids) or ())) for ids in told]


def _deletes(table: IcebergTable, tasks: Any) -> list[frozenset[str]]:
    """Per task the names of its delete files.

    An equality delete may be for every file, so these can be very many, though few are different.
    """
    bridge = table.bridge
    nested = bridge.map(tasks, _TASK, "deletes")
    counts = [int(text) for text in bridge.texts(bridge.map(nested, "java.util.List", "size"))]
    found: list[frozenset[str]] = []
    sets: dict[frozenset[str], frozenset[str]] = {}
    names: dict[str, str] = {}
    for start, end in _slices(counts, _NAMES_AT_A_TIME):
        told = iter(delete_names(bridge, bridge.flatten(nested.subList(start, end))))
        for count in counts[start:end]:
            mine = frozenset(names.setdefault(each, each) for each in islice(told, count))
            found.append(sets.setdefault(mine, mine))
    return found


def _slices(counts: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Cuts a sequence where the counts add up to more than `most`; one alone may be more."""
    start = filled = 0
    for at, count in enumerate(counts):
        if filled + count > most and at > start:
            yield start, at
            start, filled = at, 0
        filled += count
    if counts:
        yield start, len(counts)
