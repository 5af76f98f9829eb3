"""List the data files that snapshots of operation `replace` removed and added.

Such a snapshot, a compaction, holds the same rows as its parent in other files. It moves no row to
another partition. So its files in one partition are a rewrite of their own, as long as all files of
the snapshot are of one partition spec. This module must not know what is concluded from a rewrite
(see `compactions`).

Example: one snapshot, whose files are all partitioned by `country`.

    file      partition      rewrite
    a, b      country=NL     1: removed a, b
    A         country=NL     1: added A
    c         country=DE     2: removed c
    C1, C2    country=DE     2: added C1, C2

If A were of another spec, all seven files would be one rewrite.
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
"""Entries of a snapshot's summary. A snapshot that only rewrote manifests has neither."""


class RewrittenFile(NamedTuple):
    """A data file that a compaction removed or added."""

    location: str
    """Its path."""
    sequence: int
    """Its data sequence number: equality deletes with a higher one apply to it."""
    records: int
    """Its rows, before deletes are applied."""


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """The files of one partition in one snapshot: `added` hold the rows of `removed`."""

    parent_id: int
    """The last snapshot with `removed`, whose deletes apply to them."""
    snapshot_id: int
    """The first snapshot with `added`, whose deletes apply to them."""
    removed: list[RewrittenFile] = field(default_factory=list)
    """Files that were compacted."""
    added: list[RewrittenFile] = field(default_factory=list)
    """Files that the compaction wrote."""


def list_rewrites(table: IcebergTable, chain: Iterable[SnapshotInfo]) -> Iterator[Rewrite]:
    """Yield all rewrites of these snapshots. They and their parents must be retained."""
    for info in chain:
        if info.operation == "replace" and info.parent_id is not None:
            # `replace` is also the operation of a rewrite of manifests: that changes no file.
            snapshot = table.java.snapshot(info.id)
            summary = snapshot.summary()
            if all(summary.containsKey(name) for name in _COUNTS):
                yield from _split_by_partition(table, info.id, info.parent_id, snapshot)


def _split_by_partition(
    table: IcebergTable, snapshot_id: int, parent_id: int, snapshot: Any
) -> Iterable[Rewrite]:
    """Return the rewrites of one Java snapshot, one for each partition."""
    lists, files = table.bridge.lists, table.java.io()
    removed = lists.newArrayList(snapshot.removedDataFiles(files))
    added = lists.newArrayList(snapshot.addedDataFiles(files))
    partitions = _list_partitions(table, removed, added)
    rewrites: dict[str, Rewrite] = defaultdict(
        lambda: Rewrite(parent_id=parent_id, snapshot_id=snapshot_id)
    )
    # `partitions` goes on over both lists: first those of the removed files, then of the added.
    for file in _describe_files(table, removed):
        rewrites[next(partitions)].removed.append(file)
    for file in _describe_files(table, added):
        rewrites[next(partitions)].added.append(file)
    return rewrites.values()


def _list_partitions(table: IcebergTable, *lists: Any) -> Iterator[str]:
    """Return the partition of each data file in these Java lists, in order.

    All are equal where files are of several specs, so that the rewrite is not split.
    """
    bridge = table.bridge
    files = bridge.flatten(bridge.lists.newArrayList(lists))
    # Never empty: Iceberg states a count of files only above 0, and `_COUNTS` are both stated.
    (spec_id, *others) = set(bridge.read_texts(bridge.map(files, FILE, "specId")))
    if others:
        return repeat("")
    # As in paths, because the text of a partition itself does not show the bytes of binary values.
    partitions = bridge.map(files, FILE, "partition")
    spec = table.java.specs().get(int(spec_id))
    return iter(
        bridge.read_texts(bridge.map_by(partitions, spec, _SPEC, "partitionToPath", _STRUCT))
    )


def _describe_files(table: IcebergTable, files: Any) -> list[RewrittenFile]:
    """Return plain descriptions of the data files of a Java list."""
    bridge = table.bridge
    methods = ("location", "dataSequenceNumber", "recordCount")
    columns = [bridge.read_texts(bridge.map(files, FILE, method)) for method in methods]
    return [
        RewrittenFile(location, int(sequence), int(records))
        for location, sequence, records in zip(*columns, strict=True)
    ]
