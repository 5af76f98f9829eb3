"""Retains the snapshots that a table needs by tags, so that maintenance does not expire them.

Two tags: `icdc-<alias>-<key>` on the applied snapshot, and one with `-next` on the later snapshot
of the open batch, because a batch that is repeated after a crash reads both. The key is the
pipeline's own (`naming.compute_tag_key`): another pipeline that follows the same table into an
index of the same name, such as that of a test system, does not move them.

Example, key 3f2a, a batch from 77 to 78 on alias orders:

    before the intent    icdc-orders-3f2a → 77, icdc-orders-3f2a-next → 78
    after the advance    icdc-orders-3f2a → 78, and no -next, in one commit
    idle                 no commit, until the tag is ten days old and is renewed
    nobody runs          the tag expires after 30 days, and then the snapshot may

The ages are in `icdc_api.pins`. The report says whether the applied snapshot is retained: a
pipeline that may only read is followed without that guarantee. It must not know what is read.
"""

import logging
from collections.abc import Iterable
from datetime import timedelta

from icdc_api import naming
from icdc_api.errors import IcdcError
from icdc_api.pins import PIN_AGE, RENEW_AFTER
from icdc_api.spec.changelog import PinSnapshots
from icdc_spark.iceberg.table import tags
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.iceberg.table.tags import Tag
from icdc_spark.replication.context import TableContext
from icdc_spark.reporting.reporter import get_utc_now

LOG = logging.getLogger(__name__)

_MILLISECOND = timedelta(milliseconds=1)


def pin(context: TableContext, table: IcebergTable, snapshot_id: str | None) -> None:
    """Retain the applied snapshot, and report whether that could be done."""
    if snapshot_id is None:
        return
    if context.pins is PinSnapshots.NEVER:
        _release(context, table)
        return
    # Removed in the commit that sets the tag, so that one of them retains the snapshot always.
    done = naming.name_next_tag(context.tag)
    problem = _retain(context, table, context.tag, snapshot_id, done=done)
    context.reporter.set(
        snapshot_pinned=problem is None, pin_message=problem.message if problem else None
    )


def pin_next(context: TableContext, table: IcebergTable, snapshot_id: str | None) -> None:
    """Retain the later snapshot of the batch that begins."""
    if context.pins is not PinSnapshots.NEVER and snapshot_id is not None:
        _retain(context, table, naming.name_next_tag(context.tag), snapshot_id)


def has_served(context: TableContext, table: IcebergTable) -> bool:
    """Return whether an index of this alias once equalled a snapshot, by the tags that are left.

    Whatever the key: icdc-state may have been deleted, and with it what keys are made of.
    """
    tag = naming.name_tag(context.alias)
    names = tags.list_names(table)
    return any(name == tag or naming.find_tagged_alias(name) == context.alias for name in names)


def unpin(context: TableContext, table: IcebergTable) -> None:
    """Remove all tags of the pipeline, if there are any."""
    ours = list(_select_tags(context, tags.list_names(table)))
    if not ours:
        # A pipeline that was never upgraded; otherwise those without a key are somebody else's.
        ours = list(_select_keyless_tags(context, tags.list_names(table)))
    tags.change(table, remove=ours)


def _release(context: TableContext, table: IcebergTable) -> None:
    """Remove tags that were set before the spec said Never, and report that they retain nothing."""
    context.reporter.set(snapshot_pinned=False, pin_message=None)
    ours = list(_select_tags(context, tags.list_names(table)))
    if not ours:
        return
    try:
        with context.catalog_call():
            tags.change(table, remove=ours)
    except IcdcError as error:
        # They are not renewed, and so expire by themselves.
        LOG.info("%s: tags %s stay: %s", context.table.name, ", ".join(ours), error)


def _retain(
    context: TableContext, table: IcebergTable, tag: str, snapshot_id: str, *, done: str = ""
) -> IcdcError | None:
    """Put the tag on the snapshot; return the error where that failed and the policy is Auto.

    Raise it where the policy is Always. `done` is a tag that is no longer needed after that.
    """
    try:
        with context.catalog_call():
            _set(context, table, tag=tag, snapshot_id=int(snapshot_id), done=done)
    except IcdcError as error:
        if context.pins is PinSnapshots.ALWAYS:
            raise
        # Auto: a catalog that may only be read is followed all the same, without the guarantee.
        LOG.info(
            "%s: snapshot %s has no tag, so maintenance may expire it: %s",
            context.table.name,
            snapshot_id,
            error,
        )
        return error
    return None


def _set(
    context: TableContext, table: IcebergTable, *, tag: str, snapshot_id: int, done: str
) -> None:
    """Change the tags in one commit, or in none where the tag exists and does not expire soon."""
    age = get_utc_now() - table.require(snapshot_id).committed_at
    existing = tags.find(table, tag)
    remove = [done] if done and tags.find(table, done) else []
    if existing is None and done:
        # The first time under this name: after an upgrade, or with another `index`. Not at each
        # reconcile, because a pipeline that was not upgraded would set its tag again each time.
        names = tags.list_names(table)
        older = {*_select_tags(context, names), *_select_keyless_tags(context, names)} - {tag}
        remove = sorted(older)
    is_current = existing is not None and _lasts(existing, snapshot_id, age)
    put = {} if is_current else {tag: _build_tag(snapshot_id, age)}
    tags.change(table, put=put, remove=remove)


def _build_tag(snapshot_id: int, age: timedelta) -> Tag:
    # Iceberg counts the age of a tag from its snapshot's commit, not from when it was set.
    return Tag(snapshot_id=snapshot_id, max_age_ms=(age + PIN_AGE) // _MILLISECOND)


def _lasts(tag: Tag, snapshot_id: int, age: timedelta) -> bool:
    """Return whether the tag is on the snapshot and need not be renewed yet."""
    if tag.snapshot_id != snapshot_id or tag.max_age_ms is None:
        return False
    return tag.max_age_ms * _MILLISECOND - age > PIN_AGE - RENEW_AFTER


def _select_tags(context: TableContext, names: Iterable[str]) -> Iterable[str]:
    """Return the tags of this pipeline, under whatever alias."""
    return (name for name in names if naming.is_tag_of(name, context.tag_key))


def _select_keyless_tags(context: TableContext, names: Iterable[str]) -> Iterable[str]:
    """Return the tags of the alias that were named before there were keys."""
    tag = naming.name_tag(context.alias)
    return (name for name in names if name in (tag, naming.name_next_tag(tag)))
