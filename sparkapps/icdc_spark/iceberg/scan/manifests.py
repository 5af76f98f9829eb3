"""The manifests of a snapshot, as its manifest list describes them.

A manifest never changes, so one that two snapshots share says the same of both and is not read.
This module reads the list alone; `manifest_entries` reads the manifests. It must not know what the
files are read for.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from icdc_spark.iceberg.scan.planning import slice_by_count
from icdc_spark.iceberg.table.tables import IcebergTable

FILE = "org.apache.iceberg.ContentFile"
MANIFEST = "org.apache.iceberg.ManifestFile"


class ManifestKey(NamedTuple):
    """Identifies a manifest."""

    path: str
    """Its location, which is unique across tables."""
    sequence: int
    """Its sequence number, which its new entries inherit."""


class Manifests:
    """Some manifests of one snapshot, either of data files or of delete files."""

    def __init__(self, table: IcebergTable, java: Any, keys: list[ManifestKey]) -> None:
        self._table = table
        self.java = java
        """A Java list of `ManifestFile`."""
        self.keys = keys
        """The keys of the manifests, in the order of the Java list."""

    @classmethod
    def from_java(cls, table: IcebergTable, java: Any) -> "Manifests":
        """Wrap a Java list of `ManifestFile`."""
        bridge = table.bridge
        paths = bridge.read_texts(bridge.map(java, MANIFEST, "path"))
        sequences = bridge.read_texts(bridge.map(java, MANIFEST, "sequenceNumber"))
        pairs = zip(paths, sequences, strict=True)
        return cls(table, java, [ManifestKey(path, int(number)) for path, number in pairs])

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def live_files(self) -> int:
        """The number of their live files; 0 for manifests that do not state it (format 1)."""
        return self._sum("addedFilesCount", "existingFilesCount")

    @property
    def file_counts(self) -> list[int | None]:
        """The number of live files of each manifest; None where it is not stated (format 1)."""
        counts = zip(
            self._read_texts("addedFilesCount"), self._read_texts("existingFilesCount"), strict=True
        )
        # As text a null of Java is this word.
        return [None if "null" in pair else sum(map(int, pair)) for pair in counts]

    @property
    def live_rows(self) -> int:
        """The rows of their live files, before deletes; 0 for manifests that do not state it."""
        return self._sum("addedRowsCount", "existingRowsCount")

    @property
    def min_sequence(self) -> int:
        """The lowest data sequence number of their live files; 0 in format 1."""
        return min(map(int, self._read_texts("minSequenceNumber")))

    @property
    def spec_ids(self) -> set[int]:
        """The ids of the partition specs of their files; one manifest has files of one spec."""
        return {int(text) for text in self._read_texts("partitionSpecId")}

    def without(self, keys: Container[ManifestKey]) -> "Manifests":
        """Return the manifests that do not have one of these keys."""
        return self._pick(at for at, key in enumerate(self.keys) if key not in keys)

    def within(self, keys: Container[ManifestKey]) -> "Manifests":
        """Return the manifests that have one of these keys."""
        return self._pick(at for at, key in enumerate(self.keys) if key in keys)

    def with_paths(self, paths: Container[str]) -> "Manifests":
        """Return the manifests with these paths."""
        return self._pick(at for at, key in enumerate(self.keys) if key.path in paths)

    def since(self, sequence: int) -> "Manifests":
        """Return the manifests that may hold an entry of this sequence number or a later one."""
        # An entry's number is that of its manifest, or lower if it was carried over.
        return self._pick(at for at, key in enumerate(self.keys) if key.sequence >= sequence)

    def cut(self, limit: int) -> list["Manifests"]:
        """Cut the list into runs of manifests with at most `limit` live files in all.

        A manifest with more files, or with a number that is not stated, is a run of its own. With
        a limit of 10 and the manifests 4, 5, 24, 1, None: (4, 5), (24), (1), (None).
        """
        counts = [limit + 1 if count is None else count for count in self.file_counts]
        return [self._pick(range(start, end)) for start, end in slice_by_count(counts, limit)]

    def _sum(self, *methods: str) -> int:
        columns = (self._read_texts(method) for method in methods)
        # Counts are optional in format 1.
        return sum(int(text) for column in columns for text in column if text != "null")

    def _read_texts(self, method: str) -> list[str]:
        """Return what a method of `ManifestFile` gives for each manifest, as text."""
        bridge = self._table.bridge
        return bridge.read_texts(bridge.map(self.java, MANIFEST, method))

    def _pick(self, positions: Iterable[int]) -> "Manifests":
        # The Java list and the keys must stay in the same order.
        chosen = list(positions)
        java = self._table.bridge.pick(self.java, chosen)
        return Manifests(self._table, java, [self.keys[at] for at in chosen])


@dataclass(frozen=True, kw_only=True)
class SnapshotManifests:
    """All manifests of one snapshot."""

    data: Manifests
    """Manifests of data files."""
    deletes: Manifests
    """Manifests of delete files."""


def read_manifests(table: IcebergTable, snapshot_id: int) -> SnapshotManifests:
    """Read the manifest list of a snapshot, and none of the manifests."""
    snapshot, io = table.java.snapshot(snapshot_id), table.java.io()
    return SnapshotManifests(
        data=Manifests.from_java(table, snapshot.dataManifests(io)),
        deletes=Manifests.from_java(table, snapshot.deleteManifests(io)),
    )
