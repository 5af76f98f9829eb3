"""Read how large snapshots are and which files they changed, as their writers stated it.

No manifest is read: the summaries of snapshots are in the metadata, which is in memory anyway. They
are a writer's claim: good for a choice between right ways, and for nothing that must be right.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo

_PARSER = "org.apache.iceberg.SnapshotParser"
_SNAPSHOT = "org.apache.iceberg.Snapshot"
_CHANGED = (
    ("added-data-files",),
    ("deleted-data-files",),
    ("added-records", "deleted-records"),
    ("added-files-size", "removed-files-size"),
)
_TOTALS = ("total-files-size", "total-records")


class StatedFiles(NamedTuple):
    """The files that a snapshot added and removed; 0 where its writer stated none."""

    added: int
    """The number of data files that it added."""
    removed: int
    """The number of those that it removed."""
    rows: int
    """The rows of both."""
    bytes: int
    """The size of all files, those with deletes too."""

    @property
    def files(self) -> int:
        """The number of data files."""
        return self.added + self.removed


class StatedTotals(NamedTuple):
    """What a snapshot has in all of its files; None where its writer states it not."""

    bytes: int | None
    """The stored bytes, those of deletes too."""
    rows: int | None
    """The rows of data files, deleted ones included."""


def read_stated_files(table: IcebergTable, chain: Sequence[SnapshotInfo]) -> list[StatedFiles]:
    """Return what each snapshot changed.

    append of 3 files             {"added-data-files": "3"}                                 3 files
    compaction of 5 files to 1    {"added-data-files": "1", "deleted-data-files": "5"}      6
    """
    bridge = table.bridge
    with translate_source_errors(table.name):
        snapshots = bridge.create_object("java.util.ArrayList")
        for info in chain:
            snapshots.add(table.java.snapshot(info.id))
        # As JSON, which escapes whatever a writer put into a summary.
        texts = bridge.read_texts(bridge.map_static(snapshots, _PARSER, "toJson", _SNAPSHOT))
    summaries = (json.loads(text).get("summary", {}) for text in texts)
    return [
        StatedFiles(*(sum(_parse(summary.get(name)) or 0 for name in names) for names in _CHANGED))
        for summary in summaries
    ]


def read_totals(table: IcebergTable, snapshot_id: int) -> StatedTotals:
    """Return what a snapshot has, by its writer."""
    with translate_source_errors(table.name):
        summary = table.java.snapshot(snapshot_id).summary() or {}
        return StatedTotals(*(_parse(summary.get(name)) for name in _TOTALS))


def _parse(stated: object) -> int | None:
    # Of a length that the sum of all of them is a number as well.
    is_count = isinstance(stated, str) and stated.isdecimal() and len(stated) < 19
    return int(str(stated)) if is_count else None
