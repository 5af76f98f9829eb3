"""Keeps the snapshots that a table needs from being expired, by tags.

Two tags: `icdc-<alias>` on the applied snapshot, and `icdc-<alias>-next` on the one a batch goes
to, because a batch that is repeated after a crash reads both. Whether the applied one is kept is
said in the report: a pipeline that may only read is followed without that guarantee.
"""

import logging

from icdc_api.errors import IcdcError
from icdc_api.spec import PinSnapshots
from icdc_spark.context import TableContext
from icdc_spark.iceberg.tables import IcebergTable

LOG = logging.getLogger(__name__)


def pin(context: TableContext, table: IcebergTable, snapshot_id: str | None) -> None:
    """Keeps the applied snapshot, and reports whether that could be done."""
    if context.pins is PinSnapshots.NEVER or snapshot_id is None:
        return
    problem = _set(context, table, context.tag, snapshot_id)
    context.reporter.set(
        snapshot_pinned=problem is None, pin_message=problem.message if problem else None
    )


def pin_next(context: TableContext, table: IcebergTable, snapshot_id: str | None) -> None:
    """Keeps the snapshot that the open batch goes to."""
    if context.pins is not PinSnapshots.NEVER and snapshot_id is not None:
        _set(context, table, _next_tag(context), snapshot_id)


def unpin(context: TableContext, table: IcebergTable) -> None:
    """Takes both tags away; fine when they are not there."""
    for tag in (context.tag, _next_tag(context)):
        table.remove_tag(tag)


def _next_tag(context: TableContext) -> str:
    return f"{context.tag}-next"


def _set(
    context: TableContext, table: IcebergTable, tag: str, snapshot_id: str
) -> IcdcError | None:
    """Why there is no such tag; raised instead where there must be one."""
    try:
        table.set_tag(tag, int(snapshot_id))
    except IcdcError as error:
        if context.pins is PinSnapshots.ALWAYS:
            raise
        # Auto: a catalog that may only be read is followed all the same, without the guarantee.
        LOG.info("%s: snapshot %s is not pinned: %s", context.table.name, snapshot_id, error)
        return error
    return None
