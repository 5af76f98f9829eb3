"""List the data files of a snapshot, each with the delete files that apply to it.

Iceberg's own planning assigns the deletes, so every kind of delete file is assigned as any other
reader would. No data file is opened here. A listing of a table of millions of files stays a Java
list; Python holds a few plain values of each file.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.tables import IcebergTable

_TASK = "org.apache.iceberg.FileScanTask"
_CONTENT_TASK = "org.apache.iceberg.ContentScanTask"
_FILE = "org.apache.iceberg.ContentFile"
_DELETE = "org.apache.iceberg.DeleteFile"

_NAMES_AT_A_TIME = 100_000
"""Names of delete files that are read at a time, beside the distinct ones: some 30 MB."""


@dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Data files to be read together, each with the deletes of its snapshot."""

    tasks: Any = field(repr=False, compare=False)
    """A Java list of `FileScanTask`."""
    files: int
    """The number of the data files."""
    records: int
    """Their rows, before deletes are applied."""
    bytes: int
    """Their size as stored, without the delete files."""


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """One data file of a snapshot."""

    location: str
    """Its path."""
    sequence: int
    """Its data sequence number: equality deletes with a higher one apply to it."""
    position: int
    """The position of its task in the listing."""
    records: int
    """Its rows, before deletes are applied."""
    bytes: int
    """Its size as stored."""
    deletes: frozenset[str]
    """The names of the delete files that apply to it (`list_delete_names`)."""


class Listing:
    """Data files with their deletes, each as of one snapshot, in Iceberg's order."""

    def __init__(self, table: IcebergTable, tasks: Any, files: Sequence[PlannedFile]) -> None:
        self._table = table
        self._tasks = tasks
        self.files = files

    def group(self, files: Sequence[PlannedFile]) -> FileGroup:
        """Return some files of this listing as one group, in the given order."""
        return FileGroup(
            tasks=self._table.bridge.pick(self._tasks, [file.position for file in files]),
            files=len(files),
            records=sum(file.records for file in files),
            bytes=sum(file.bytes for file in files),
        )

    def read_spec_ids(self, files: Sequence[PlannedFile]) -> list[int]:
        """Return the id of the partition spec of each of these files of this listing."""
        bridge = self._table.bridge
        tasks = bridge.pick(self._tasks, [file.position for file in files])
        java_files = collect_data_files(bridge, tasks)
        return [int(text) for text in bridge.read_texts(bridge.map(java_files, _FILE, "specId"))]

    def without(self, locations: Set[str], *others: "Listing") -> "Listing":
        """Return a listing without the files at these locations, followed by other listings."""
        # All tasks stay: files are found by position, and the positions of the rest must not move.
        tasks = self._table.bridge.create_object("java.util.ArrayList", self._tasks)
        files = [file for file in self.files if file.location not in locations]
        for other in others:
            first = int(tasks.size())
            tasks.addAll(other._tasks)
            files += [replace(file, position=first + file.position) for file in other.files]
        return Listing(self._table, tasks, files)


def list_files(table: IcebergTable, snapshot_id: int | None) -> Listing:
    """List the files of a snapshot, or no files for None. Gap if the snapshot has expired."""
    if snapshot_id is None:
        return Listing(table, table.bridge.create_object("java.util.ArrayList"), ())
    table.require(snapshot_id)
    with translate_source_errors(table.name):
        scan = table.java.newScan().useSnapshot(snapshot_id)
        snapshot = table.java.snapshot(snapshot_id)
        # Where there is no delete file at all, the tasks need not be asked for theirs.
        has_deletes = not snapshot.deleteManifests(table.java.io()).isEmpty()
        return collect_files(table, scan.planFiles(), has_deletes=has_deletes)


def collect_files(
    table: IcebergTable, tasks: Any, *, only: Collection[str] | None = None, has_deletes: bool
) -> Listing:
    """Return a listing of a Java closeable iterable of `FileScanTask`, and close the iterable.

    `only` files at these locations are listed. `has_deletes` False saves asking for deletes.
    """
    bridge = table.bridge
    predicate = None
    if only is not None:
        path = [
            bridge.build_function(_FILE, "location"),
            bridge.build_function(_CONTENT_TASK, "file"),
        ]
        predicate = bridge.is_any_of(only, path)
    java_tasks = bridge.drain(tasks, predicate)
    return Listing(table, java_tasks, _describe_files(table, java_tasks, has_deletes=has_deletes))


def list_appended(table: IcebergTable, from_id: int, to_id: int) -> Listing:
    """List the files that append snapshots added after `from_id`, up to `to_id`.

    Snapshots of other operations are passed over.
    """
    with translate_source_errors(table.name):
        # Rows of an append scan are read as they were appended, without later deletes.
        scan = table.java.newIncrementalAppendScan()
        scan = scan.fromSnapshotExclusive(from_id).toSnapshot(to_id)
        tasks = table.bridge.drain(scan.planFiles())
        return Listing(table, tasks, _describe_files(table, tasks, has_deletes=False))


def merge_groups(table: IcebergTable, groups: Sequence[FileGroup]) -> FileGroup:
    """Return several groups as one, in the given order."""
    tasks = table.bridge.create_object("java.util.ArrayList")
    for group in groups:
        tasks.addAll(group.tasks)
    return FileGroup(
        tasks=tasks,
        files=sum(group.files for group in groups),
        records=sum(group.records for group in groups),
        bytes=sum(group.bytes for group in groups),
    )


def list_reading_bytes(bridge: Bridge, group: FileGroup, open_bytes: int) -> list[int]:
    """Return for each data file of a group what Iceberg counts when it packs files into tasks.

    That is the size of the file with its delete files, but `open_bytes` for each of them at least.
    """
    sizes = bridge.read_texts(bridge.map(group.tasks, _TASK, "sizeBytes"))
    opened = bridge.read_texts(bridge.map(group.tasks, _TASK, "filesCount"))
    return [
        max(int(size), int(files) * open_bytes) for size, files in zip(sizes, opened, strict=True)
    ]


def release_groups(table: IcebergTable, groups: Iterable[FileGroup]) -> None:
    """Let the JVM free the tasks of groups that nobody reads any more."""
    for group in groups:
        table.bridge.clear(group.tasks)


def _describe_files(table: IcebergTable, tasks: Any, *, has_deletes: bool) -> list[PlannedFile]:
    """Return plain descriptions of a Java list of `FileScanTask`."""
    bridge = table.bridge
    files = collect_data_files(bridge, tasks)
    # One text for each column: a loop of calls over 10,000 files takes seconds.
    locations = bridge.read_texts(bridge.map(files, _FILE, "location"))
    sequences = bridge.read_texts(bridge.map(files, _FILE, "dataSequenceNumber"))
    records = bridge.read_texts(bridge.map(files, _FILE, "recordCount"))
    sizes = bridge.read_texts(bridge.map(files, _FILE, "fileSizeInBytes"))
    deletes = _list_deletes(table, tasks) if has_deletes else [frozenset[str]()] * len(locations)
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


def collect_data_files(bridge: Bridge, tasks: Any) -> Any:
    """Return a Java list of the data files of a Java list of scan tasks."""
    return bridge.map(tasks, _CONTENT_TASK, "file")


def list_delete_names(bridge: Bridge, deletes: Any) -> list[str]:
    """Return a unique name for each delete file of a Java list: `LOCATION@OFFSET`.

    The offset is the position of a deletion vector in its Puffin file, else `null`.
    """
    # The location alone is not unique: one Puffin file holds the vectors of many data files.
    locations = bridge.read_texts(bridge.map(deletes, _FILE, "location"))
    offsets = bridge.read_texts(bridge.map(deletes, _DELETE, "contentOffset"))
    return [f"{location}@{at}" for location, at in zip(locations, offsets, strict=True)]


def list_equality_fields(bridge: Bridge, deletes: Any) -> list[tuple[int, ...]]:
    """Return the field ids that each delete file of a Java list compares, sorted.

    Empty for a file of positions.
    """
    texts = bridge.read_texts(bridge.map(deletes, _FILE, "equalityFieldIds"))
    return [tuple(sorted(json.loads(ids) or ())) for ids in texts]


def _list_deletes(table: IcebergTable, tasks: Any) -> list[frozenset[str]]:
    """Return the names of the delete files of each task."""
    bridge = table.bridge
    nested = bridge.map(tasks, _TASK, "deletes")
    counts = [int(text) for text in bridge.read_texts(bridge.map(nested, "java.util.List", "size"))]
    deletes: list[frozenset[str]] = []
    # An equality delete may apply to every file: a million names, of which few are distinct. So
    # equal names and equal sets are stored once.
    sets: dict[frozenset[str], frozenset[str]] = {}
    names: dict[str, str] = {}
    for start, end in slice_by_count(counts, _NAMES_AT_A_TIME):
        listed = iter(list_delete_names(bridge, bridge.flatten(nested.subList(start, end))))
        for count in counts[start:end]:
            task_names = frozenset(names.setdefault(name, name) for name in islice(listed, count))
            deletes.append(sets.setdefault(task_names, task_names))
    return deletes


def slice_by_count(counts: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Yield slices (start, end) of a sequence whose counts add up to `limit` at most.

    A single count above the limit is a slice of its own: [3, 9, 2, 4] with limit 6 gives
    (0, 1), (1, 2), (2, 4).
    """
    start = total = 0
    for at, count in enumerate(counts):
        # `at > start`, or a count above the limit would give an empty slice before its own.
        if total + count > limit and at > start:
            yield start, at
            start, total = at, 0
        total += count
    if counts:
        yield start, len(counts)
