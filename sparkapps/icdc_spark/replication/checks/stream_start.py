"""Finds the snapshot at which a pipeline of mode StreamOnly begins.

Example, retained ancestors 75 (10:00) ← 76 (10:10) ← 77 (10:20), current snapshot 77:

    startFrom                        begins at
    none, or position latest         77
    position earliest                75
    snapshotId 76                    76
    timestamp 10:15                  76, the newest one that is not later
    timestamp 09:00                  Gap: what was committed before 75 is unknown

Asked until it has begun: afterwards that snapshot may expire as any other. It must not know what is
done from there on.
"""

from icdc_api.errors import Gap
from icdc_api.spec.tables import Position, Table
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo


def find_stream_start(
    table: IcebergTable, current: SnapshotInfo | None, entry: Table
) -> str | None:
    """Return the id of the snapshot that counts as applied; None for the empty table.

    Gap where `startFrom` of the table's `entry` names a snapshot or a time that is not retained.
    """
    start = entry.start_from
    if current is None:
        return None
    if start is None or start.position is Position.LATEST:
        return str(current.id)
    ancestors = _list_ancestors(table, current)
    if start.position is Position.EARLIEST:
        return str(ancestors[0].id)
    if start.snapshot_id is not None:
        # Any snapshot that can be read, also of another branch: a difference needs no common line.
        if table.find_snapshot(start.snapshot_id) is None:
            raise Gap(
                f"Table {entry.name}: startFrom.snapshotId {start.snapshot_id} "
                "is not, or no longer, a snapshot of the table."
            )
        return str(start.snapshot_id)
    moment = start.timestamp
    not_later = [
        snapshot for snapshot in ancestors if moment is not None and snapshot.committed_at <= moment
    ]
    if not not_later:
        raise Gap(
            f"Table {entry.name}: no retained snapshot is as old as startFrom.timestamp {moment}."
        )
    # The last in the line, not the one of the greatest time: clocks of writers differ.
    return str(not_later[-1].id)


def _list_ancestors(table: IcebergTable, current: SnapshotInfo) -> list[SnapshotInfo]:
    """Return the retained ancestors of the current snapshot, oldest first, itself included."""
    ancestors = [current]
    while ancestors[0].parent_id is not None:
        parent = table.find_snapshot(ancestors[0].parent_id)
        # Expired; or damaged metadata, whose parents must not keep this in a circle.
        if parent is None or parent in ancestors:
            break
        ancestors.insert(0, parent)
    return ancestors
