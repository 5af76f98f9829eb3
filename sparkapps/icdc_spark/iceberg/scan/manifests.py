"""The manifests of a snapshot and what stands in them, without a scan.

A manifest never changes, so one that two snapshots share says the same of both and needs no look.
It must not know what the files are read for, nor which deletes apply to which of them: that is
for Iceberg to say (`partial_scan`).
"""

import json
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from icdc_spark.iceberg.scan.planning import delete_names, equality_fields
from icdc_spark.iceberg.table.tables import IcebergTable

FILE = "org.apache.iceberg.ContentFile"
_DELETE = "org.apache.iceberg.DeleteFile"
_MANIFEST = "org.apache.iceberg.ManifestFile"
_SPEC_ID = "partitionSpecId"
_READER = "org.apache.iceberg.ManifestReader"

_PATH = ("file_path",)
_PATH_AND_PARTITION = ("file_path", "partition")
_PATH_AND_TARGET = (
    "file_path",
    "partition",
    "content",
    "file_format",
    "content_offset",
    "referenced_data_file",
    "equality_ids",
    # Of these only the path's are there; a delete file for one data file may say so by them alone.
    "lower_bounds",
    "upper_bounds",
)
_BOUNDS = ("file_path", "record_count", "lower_bounds", "upper_bounds")


class ManifestKey(NamedTuple):
    """What tells a manifest from others; `sequence` is the number that its new entries inherit."""

    path: str
    sequence: int


class Manifests:
    """Some manifests of one snapshot and of one kind, those of data or those of delete files."""

    def __init__(self, table: IcebergTable, java: Any, keys: list[ManifestKey]) -> None:
        self._table = table
        self.java = java
        self.keys = keys

    @classmethod
    def of(cls, table: IcebergTable, java: Any) -> "Manifests":
        """From a Java list of `ManifestFile`."""
        bridge = table.bridge
        paths = bridge.texts(bridge.map(java, _MANIFEST, "path"))
        sequences = bridge.texts(bridge.map(java, _MANIFEST, "sequenceNumber"))
        pairs = zip(paths, sequences, strict=True)
        return cls(table, java, [ManifestKey(path, int(number)) for path, number in pairs])

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def live_files(self) -> int:
        """How many live files they hold, as far as their list says so."""
        return self._sum("addedFilesCount", "existingFilesCount")

    @property
    def live_rows(self) -> int:
        """How many rows their live files hold, before deletes, as far as their list says so."""
        return self._sum("addedRowsCount", "existingRowsCount")

    @property
    def spec_ids(self) -> set[int]:
        """The ids of the partition specs of their files."""
        bridge = self._table.bridge
        return {int(each) for each in bridge.texts(bridge.map(self.java, _MANIFEST, _SPEC_ID))}

    def without(self, other: Container[ManifestKey]) -> "Manifests":
        """Those that are not among the others."""
        return self._pick(at for at, key in enumerate(self.keys) if key not in other)

    def within(self, other: Container[ManifestKey]) -> "Manifests":
        """Those that are among the others."""
        return self._pick(at for at, key in enumerate(self.keys) if key in other)

    def at(self, paths: Container[str]) -> "Manifests":
        """Those with these paths."""
        return self._pick(at for at, key in enumerate(self.keys) if key.path in paths)

    def since(self, sequence: int) -> "Manifests":
        """Those that may hold an entry of this sequence number or a later one."""
        return self._pick(at for at, key in enumerate(self.keys) if key.sequence >= sequence)

    def _sum(self, *counts: str) -> int:
        bridge = self._table.bridge
        told = (bridge.texts(bridge.map(self.java, _MANIFEST, count)) for count in counts)
        return sum(int(text) for texts in told for text in texts if text != "null")

    def _pick(self, positions: Iterable[int]) -> "Manifests":
        chosen = list(positions)
        java = self._table.bridge.pick(self.java, chosen)
        return Manifests(self._table, java, [self.keys[at] for at in chosen])


@dataclass(frozen=True, kw_only=True)
class SnapshotManifests:
    """All manifests of one snapshot."""

    data: Manifests
    deletes: Manifests


class DataEntry(NamedTuple):
    """A live data file in a manifest; `sequence` decides which deletes are later than its rows.

    `partition` is None where it was not asked for, or there is none.
    """

    sequence: int
    manifest: str
    partition: str | None


class DeleteEntry(NamedTuple):
    """A live delete file in a manifest; `target` is None where it may concern many data files:
    those of a partition, or, where that is None too, any.

    `fields` are the ids of the fields that it compares, sorted; none where it names positions.
    """

    name: str
    sequence: int
    target: str | None
    partition: str | None
    spec_id: int
    fields: tuple[int, ...]


def manifests_of(table: IcebergTable, snapshot_id: int) -> SnapshotManifests:
    """Reads the list of a snapshot's manifests, and none of them."""
    snapshot, io = table.java.snapshot(snapshot_id), table.java.io()
    return SnapshotManifests(
        data=Manifests.of(table, snapshot.dataManifests(io)),
        deletes=Manifests.of(table, snapshot.deleteManifests(io)),
    )


def data_entries(
    table: IcebergTable,
    manifests: Manifests,
    only: Collection[str] | None = None,
    *,
    partitions: bool = False,
) -> dict[str, DataEntry]:
    """The live data files in these manifests by location, `only` those with these locations.

    With `partitions` the partition of each is told too.
    """
    if not manifests or (only is not None and not only):
        return {}
    bridge = table.bridge
    wanted = None
    if only is not None:
        wanted = bridge.is_any_of(only, [bridge.function(FILE, "location")])
    selected = _PATH_AND_PARTITION if partitions else _PATH
    files = _read(table, manifests, "read", selected, wanted)
    columns = zip(
        bridge.texts(bridge.map(files, FILE, "location")),
        bridge.texts(bridge.map(files, FILE, "dataSequenceNumber")),
        bridge.texts(bridge.map(files, FILE, "manifestLocation")),
        _partitions(table, files) if partitions else [None] * int(files.size()),
        strict=True,
    )
    return {
        location: DataEntry(int(sequence), manifest, partition)
        for location, sequence, manifest, partition in columns
    }


def files_with_bounds(
    table: IcebergTable, manifests: Manifests, only: Collection[str]
) -> list[Any]:
    """The live data files with these locations, as Java has them, with bounds of their columns."""
    wanted = table.bridge.is_any_of(only, [table.bridge.function(FILE, "location")])
    return table.bridge.each(_read(table, manifests, "read", _BOUNDS, wanted))


def delete_entries(table: IcebergTable, manifests: Manifests) -> list[tuple[str, DeleteEntry]]:
    """The live delete files in these manifests, each with its manifest's path."""
    if not manifests:
        return []
    bridge = table.bridge
    files = _read(table, manifests, "readDeleteManifest", _PATH_AND_TARGET, None)
    targets = bridge.map_static(
        files, "org.apache.iceberg.util.ContentFileUtil", "referencedDataFileLocation", _DELETE
    )
    columns = zip(
        bridge.texts(bridge.map(files, FILE, "manifestLocation")),
        delete_names(bridge, files),
        bridge.texts(bridge.map(files, FILE, "dataSequenceNumber")),
        bridge.texts(targets),
        _partitions(table, files),
        bridge.texts(bridge.map(files, FILE, "specId")),
        equality_fields(bridge, files),
        strict=True,
    )
    return [
        (
            manifest,
            DeleteEntry(
                name=name,
                sequence=int(sequence),
                target=None if target == "null" else target,
                partition=partition,
                spec_id=int(spec_id),
                fields=fields,
            ),
        )
        for manifest, name, sequence, target, partition, spec_id, fields in columns
    ]


def delete_files(table: IcebergTable, manifests: Manifests, names: Container[str]) -> list[Any]:
    """The live delete files in these manifests that have these names, in the order of the names, as
    Java has them, whole."""
    bridge = table.bridge
    files = _read(table, manifests, "readDeleteManifest", None, None)
    told = sorted((name, at) for at, name in enumerate(delete_names(bridge, files)))
    return bridge.each(bridge.pick(files, [at for name, at in told if name in names]))


def _partitions(table: IcebergTable, files: Any) -> list[str | None]:
    """Of each file of a Java list its partition with the id of its spec; None without any, or where
    what it was made of is no longer in the table, so that nobody can read its value."""
    bridge = table.bridge
    ids = bridge.texts(bridge.map(files, FILE, "specId"))
    found: list[str | None] = [None] * len(ids)
    for each in set(ids):
        spec = table.java.specs().get(int(each))
        if spec.isUnpartitioned() or not _has_sources(table, spec):
            continue
        mine = [at for at, number in enumerate(ids) if number == each]
        values = bridge.map(bridge.pick(files, mine), FILE, "partition")
        of = "org.apache.iceberg.PartitionSpec"
        paths = bridge.map_by(values, spec, of, "partitionToPath", "org.apache.iceberg.StructLike")
        for at, path in zip(mine, bridge.texts(paths), strict=True):
            found[at] = f"{each}/{path}"
    return found


def _has_sources(table: IcebergTable, spec: Any) -> bool:
    text = table.bridge.statics("org.apache.iceberg.PartitionSpecParser").toJson(spec)
    schema = table.java.schema()
    fields = json.loads(text)["fields"]
    return all(schema.findField(part["source-id"]) is not None for part in fields)


def _read(
    table: IcebergTable,
    manifests: Manifests,
    method: str,
    columns: Collection[str] | None,
    wanted: Any,
) -> Any:
    """A Java list of the live files, with these columns of them or with all.

    Several manifests are read at a time, as by Iceberg.
    """
    bridge = table.bridge
    readers = bridge.map_static(
        manifests.java,
        "org.apache.iceberg.ManifestFiles",
        method,
        _MANIFEST,
        ("org.apache.iceberg.io.FileIO", table.java.io()),
        ("java.util.Map", table.java.specs()),
    )
    if columns is not None:
        selected = bridge.new("java.util.ArrayList")
        for column in columns:
            selected.add(column)
        readers = bridge.map(readers, _READER, "select", ("java.util.Collection", selected))
    pool = bridge.statics("org.apache.iceberg.util.ThreadPools").getWorkerPool()
    parallel = bridge.new("org.apache.iceberg.util.ParallelIterable", readers, pool)
    return bridge.drain(parallel, wanted)
