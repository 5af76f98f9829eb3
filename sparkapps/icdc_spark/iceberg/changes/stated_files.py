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
_COUNTS = ("added-data-files", "deleted-data-files")
_SIZES = ("added-files-size", "removed-files-size")
_NAMES = (_COUNTS, _SIZES)


class StatedFiles(NamedTuple):
    """The files that a snapshot added and removed; 0 where its writer stated none."""

    files: int
    """The number of data files."""
    bytes: int
    """The size of all files, those with deletes too."""


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
        StatedFiles(*(sum(_parse(summary.get(name)) or 0 for name in names) for names in _NAMES))
        for summary in summaries
    ]


def read_total_bytes(table: IcebergTable, snapshot_id: int) -> int | None:
    """Return the stored bytes of all files of a snapshot; None where its writer states none."""
    return _read_total(table, snapshot_id, "total-files-size")


def read_total_rows(table: IcebergTable, snapshot_id: int) -> int | None:
    """Return the rows of all data files of a snapshot, deleted ones included, likewise."""
    return _read_total(table, snapshot_id, "total-records")


def _read_total(table: IcebergTable, snapshot_id: int, name: str) -> int | None:
    with translate_source_errors(table.name):
        stated = (table.java.snapshot(snapshot_id).summary() or {}).get(name)
    return None if stated is None else _parse(str(stated))


def _parse(stated: object) -> int | None:
    # Of a length that the sum of all of them is a number as well.
    is_count = isinstance(stated, str) and stated.isdecimal() and len(stated) < 19
    return int(str(stated)) if is_count else None
