"""What the snapshots of operation `replace` between two others took out and put in.

Such a snapshot, a compaction, holds the same rows as its parent in other files. Rows do not move
between partitions by it, so that what it did in one partition stands for itself, as long as all
of its files are of one partition spec. It must not know what anybody makes of that
(`compactions`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from icdc_spark.iceberg.scan.manifests import FILE
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo

_SPEC = "org.apache.iceberg.PartitionSpec"
_STRUCT = "org.apache.iceberg.StructLike"
_COUNTS = ("added-data-files", "deleted-data-files")
"""In a snapshot's summary; a snapshot that only moved entries between manifests has neither."""


class RewrittenFile(NamedTuple):
    """A data file that was taken out or put in; `sequence` decides which deletes concern it."""

    location: str
    sequence: int
    records: int


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """The files of one partition in one snapshot: `added` hold the rows of `removed`.

    Deletes of the snapshot's parent are to be applied to `removed`, its own to `added`.
    """

    parent_id: int
    snapshot_id: int
    removed: list[RewrittenFile] = field(default_factory=list)
    added: list[RewrittenFile] = field(default_factory=list)


def rewrites_of(table: IcebergTable, chain: Iterable[SnapshotInfo]) -> Iterator[Rewrite]:
    """All rewrites in these snapshots, which must be retained, as their parents must be."""
    for info in chain:
        if info.operation == "replace" and info.parent_id is not None:
            java = table.java.snapshot(info.id)
            summary = java.summary()
            if all(summary.containsKey(name) for name in _COUNTS):
                yield from _by_partition(table, info.id, info.parent_id, java)


def _by_partition(
    table: IcebergTable, snapshot_id: int, parent_id: int, java: Any
) -> Iterable[Rewrite]:
    lists, files = table.bridge.lists, table.java.io()
    removed = lists.newArrayList(java.removedDataFiles(files))
    added = lists.newArrayList(java.addedDataFiles(files))
    partitions = _partitions(table, removed, added)
    found: dict[str, Rewrite] = defaultdict(
        lambda: Rewrite(parent_id=parent_id, snapshot_id=snapshot_id)
    )
    for file in _described(table, removed):
        found[next(partitions)].removed.append(file)
    for file in _described(table, added):
        found[next(partitions)].added.append(file)
    return found.values()


def _partitions(table: IcebergTable, *lists: Any) -> Iterator[str]:
    """The partition of each data file in these Java lists; equal where they must not be split."""
    bridge = table.bridge
    files = bridge.flatten(bridge.lists.newArrayList(lists))
    (spec, *others) = set(bridge.texts(bridge.map(files, FILE, "specId")))
    if others:
        return repeat("")
    # As in paths, because the text of a partition itself does not show the bytes of binary values.
    partitions = bridge.map(files, FILE, "partition")
    owner = table.java.specs().get(int(spec))
    return iter(bridge.texts(bridge.map_by(partitions, owner, _SPEC, "partitionToPath", _STRUCT)))


def _described(table: IcebergTable, files: Any) -> list[RewrittenFile]:
    bridge = table.bridge
    methods = ("location", "dataSequenceNumber", "recordCount")
    columns = [bridge.texts(bridge.map(files, FILE, method)) for method in methods]
    return [
        RewrittenFile(location, int(sequence), int(records))
        for location, sequence, records in zip(*columns, strict=True)
    ]
