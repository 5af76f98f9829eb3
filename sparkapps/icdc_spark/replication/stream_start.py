"""Where a pipeline that exports nothing begins.

It must not know what is done from there on.
"""

from icdc_api.errors import Gap
from icdc_api.tables import Position, Table
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo


def stream_start(table: IcebergTable, head: SnapshotInfo | None, entry: Table) -> str | None:
    """The snapshot that StreamOnly takes as applied, None for the empty table; raises Gap."""
    start = entry.start_from
    if head is None:
        return None
    if start is None or start.position is Position.LATEST:
        return str(head.id)
    chain = _retained(table, head)
    if start.position is Position.EARLIEST:
        return str(chain[0].id)
    if start.snapshot_id is not None:
        if table.snapshot(start.snapshot_id) is None:
            raise Gap(
                f"Table {entry.name}: startFrom.snapshotId {start.snapshot_id} "
                "is not, or no longer, a snapshot of the table."
            )
        return str(start.snapshot_id)
    moment = start.timestamp
    before = [each for each in chain if moment is not None and each.committed_at <= moment]
    if not before:
        raise Gap(
            f"Table {entry.name}: no retained snapshot is as old as startFrom.timestamp {moment}."
        )
    return str(before[-1].id)


def _retained(table: IcebergTable, head: SnapshotInfo) -> list[SnapshotInfo]:
    """The retained ancestors of the head, oldest first, itself included."""
    chain = [head]
    while chain[0].parent_id is not None:
        parent = table.snapshot(chain[0].parent_id)
        if parent is None or parent in chain:
            break
        chain.insert(0, parent)
    return chain
