"""Keeps the snapshots that a table needs from being expired, by tags.

Two tags: `icdc-<alias>-<key>` on the applied snapshot, and one with `-next` on the snapshot that a
batch goes to, because a batch that is repeated after a crash reads both. The key is the pipeline's
own (`naming.tag_key`), so that another pipeline that follows the same table into an index of the
same name, such as that of a test system, does not move them.

Tags expire when nobody renews them, see `icdc_api.pins`. Whether the applied snapshot is kept is
said in the report: a pipeline that may only read is followed without that guarantee.
"""

import logging
from collections.abc import Iterable
from datetime import timedelta

from icdc_api import naming
from icdc_api.errors import IcdcError
from icdc_api.pins import PIN_AGE, RENEW_AFTER
from icdc_api.spec import PinSnapshots
from icdc_spark.iceberg.table import tags
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.iceberg.table.tags import Tag
from icdc_spark.replication.context import TableContext
from icdc_spark.reporting.reporter import utc_now

LOG = logging.getLogger(__name__)

_MILLISECOND = timedelta(milliseconds=1)


def pin(context: TableContext, table: IcebergTable, snapshot_id: str | None) -> None:
    """Keeps the applied snapshot, and reports whether that could be done."""
    if context.pins is PinSnapshots.NEVER or snapshot_id is None:
        return
    done = naming.next_tag(context.tag)
    problem = _keep(context, table, context.tag, snapshot_id, done=done)
    context.reporter.set(
        snapshot_pinned=problem is None, pin_message=problem.message if problem else None
    )


def pin_next(context: TableContext, table: IcebergTable, snapshot_id: str | None) -> None:
    """Keeps the snapshot that the open batch goes to."""
    if context.pins is not PinSnapshots.NEVER and snapshot_id is not None:
        _keep(context, table, naming.next_tag(context.tag), snapshot_id)


def unpin(context: TableContext, table: IcebergTable) -> None:
    """Takes all tags of the pipeline away; fine when there are none."""
    ours = list(_of_pipeline(context, tags.list_names(table)))
    if not ours:
        # A pipeline that was never upgraded; otherwise those without a key are somebody else's.
        ours = list(_without_key(context, tags.list_names(table)))
    tags.change(table, remove=ours)


def _keep(
    context: TableContext, table: IcebergTable, tag: str, snapshot_id: str, *, done: str = ""
) -> IcdcError | None:
    """Why there is no such tag; raised instead where there must be one.

    `done` is a tag that is no longer needed once this one is there.
    """
    try:
        with context.catalog_call():
            _set(context, table, tag, int(snapshot_id), done)
    except IcdcError as error:
        if context.pins is PinSnapshots.ALWAYS:
            raise
        # Auto: a catalog that may only be read is followed all the same, without the guarantee.
        LOG.info("%s: snapshot %s is not pinned: %s", context.table.name, snapshot_id, error)
        return error
    return None


def _set(context: TableContext, table: IcebergTable, tag: str, snapshot_id: int, done: str) -> None:
    """One commit, or none where the tag is there and not soon to expire."""
    age = utc_now() - table.require(snapshot_id).committed_at
    found = tags.find(table, tag)
    remove = [done] if done and tags.find(table, done) else []
    if found is None and done:
        # The first time under this name: after an upgrade, or with another `index`. Not at each
        # look, because a pipeline that was not upgraded would set its tag again each time.
        known = tags.list_names(table)
        older = {*_of_pipeline(context, known), *_without_key(context, known)} - {tag}
        remove = sorted(older)
    put = {} if found and _lasts(found, snapshot_id, age) else {tag: _fresh(snapshot_id, age)}
    tags.change(table, put=put, remove=remove)


def _fresh(snapshot_id: int, age: timedelta) -> Tag:
    return Tag(snapshot_id=snapshot_id, max_age_ms=(age + PIN_AGE) // _MILLISECOND)


def _lasts(tag: Tag, snapshot_id: int, age: timedelta) -> bool:
    """Whether the tag is on the snapshot, and less than a third of its time is used up."""
    if tag.snapshot_id != snapshot_id or tag.max_age_ms is None:
        return False
    return tag.max_age_ms * _MILLISECOND - age > PIN_AGE - RENEW_AFTER


def _of_pipeline(context: TableContext, known: Iterable[str]) -> Iterable[str]:
    """Tags of this pipeline, under whatever alias."""
    return (name for name in known if naming.is_tag_of(name, context.tag_key))


def _without_key(context: TableContext, known: Iterable[str]) -> Iterable[str]:
    """Tags of the alias as they were named before there were keys."""
    tag = naming.tag_name(context.alias)
    return (name for name in known if name in (tag, naming.next_tag(tag)))
