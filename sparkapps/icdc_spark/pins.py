"""Keeps the snapshots that a table needs from being expired, by tags.

Two tags: `icdc-<alias>` on the applied snapshot, and `icdc-<alias>-next` on the one a batch goes
to, because a batch that is repeated after a crash reads both.
"""

import logging

from icdc_api.errors import IcdcError
from icdc_api.spec import PinSnapshots
from icdc_spark.context import TableContext
from icdc_spark.iceberg.tables import IcebergTable

LOG = logging.getLogger(__name__)


def pin(context: TableContext, table: IcebergTable, snapshot_id: str | None) -> None:
    """Keeps the applied snapshot."""
    _set(context, table, context.tag, snapshot_id)


def pin_next(context: TableContext, table: IcebergTable, snapshot_id: str | None) -> None:
    """Keeps the snapshot that the open batch goes to."""
    _set(context, table, _next_tag(context), snapshot_id)


def unpin(context: TableContext, table: IcebergTable) -> None:
    """Takes both tags away; fine when they are not there."""
    for tag in (context.tag, _next_tag(context)):
        table.remove_tag(tag)


def _next_tag(context: TableContext) -> str:
    return f"{context.tag}-next"


def _set(context: TableContext, table: IcebergTable, tag: str, snapshot_id: str | None) -> None:
    if context.pins is PinSnapshots.NEVER or snapshot_id is None:
        return
    try:
        table.set_tag(tag, int(snapshot_id))
    except IcdcError as error:
        if context.pins is PinSnapshots.ALWAYS:
            raise
        # Auto: a catalog that may only be read is followed all the same, without the guarantee.
        LOG.info("%s: snapshot %s is not pinned: %s", context.table.name, snapshot_id, error)
