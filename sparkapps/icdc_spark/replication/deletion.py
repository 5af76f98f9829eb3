"""Deletes what the pipeline has created for one table, in the last run of a deleted pipeline.

    1. claim       the state document; this fences older runs. AliasTaken if it is another
                   pipeline's, before anything is deleted
    2. wait        until no request of an older run can arrive
    3. indices     each that is ours; then the dead letters
    4. tags        within TAG_SECONDS, or the message says that they may be left
    5. document    last: a run that dies before is repeated by the next one

Example, alias orders with three indices: orders-000001 and orders-000002 have this pipeline's mark
in their mappings and are deleted; orders-000003 has another's and is left, and the message says so.

A catalog that does not answer keeps no index from being deleted: a tag that cannot be removed is
reported, and is no failure. It must not know why the pipeline is deleted.
"""

import logging
import threading
from contextlib import closing

from icdc_api import naming
from icdc_api.errors import (
    AliasTaken,
    IcdcError,
    NodeLost,
    SourceUnavailable,
    TableNotFound,
    TargetUnavailable,
)
from icdc_api.job.answers import DeletionEntry
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.bulk.target import OWNER_SECONDS
from icdc_spark.opensearch.client.tasks import wait_until_quiet
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.replication import pins
from icdc_spark.replication.applied import format_instant
from icdc_spark.replication.checks.alias_check import list_recorded_indices
from icdc_spark.replication.context import TableContext

LOG = logging.getLogger(__name__)

TAG_SECONDS = 120.0
"""Limit of the catalog's work on the tags of one table."""


def delete(context: TableContext) -> DeletionEntry:
    """Delete indices, dead letters, tags and state of one table; return what was done.

    AliasTaken, with nothing deleted, where the alias is another pipeline's; Fenced where a newer
    run has it; NodeLost where the run is asked to end before everything is deleted.
    """
    stored = context.store.load(context.alias)
    if stored is not None:
        stored = _claim(context, stored)
    # A request that is still under way could create an index again that is deleted below.
    # So could one that a task begins before it checks who owns the index.
    wait_until_quiet(
        context.client,
        context.alias,
        below_epoch=context.request.epoch,
        at_least=OWNER_SECONDS,
    )
    deleted, left = _delete_indices(context, stored)
    tags = None
    if stored is not None:
        # Without a state document nothing says that the tags are ours.
        tags = _remove_tags(context)
        _raise_if_stopped(context)
        # Fenced if a newer run has claimed it meanwhile: that one may have created an index.
        context.store.delete_unchanged(stored)
    message = _build_message(context, deleted=deleted, left=left, tags=tags)
    LOG.info("%s", message)
    context.reporter.set(message=message)
    return {
        "name": context.table.name,
        "index": context.alias,
        "deleted": deleted,
        "left": left,
        "tags": tags,
    }


def _claim(context: TableContext, stored: Stored) -> Stored:
    owner = stored.document.owner.pipeline
    if owner != context.request.owner:
        raise AliasTaken(
            f"nothing is deleted of {context.alias!r}: it belongs to the pipeline {owner!r}"
        )
    claimed = stored.document.claim(context.owner, now=format_instant())
    return context.store.replace(stored, claimed)


def _delete_indices(context: TableContext, stored: Stored | None) -> tuple[list[str], list[str]]:
    """Delete our indices; return the deleted ones, and those of such a name that are not ours.

    TargetUnavailable, once all others are deleted, where a snapshot is being taken of some.
    """
    client, ours = context.client, context.ownership
    deleted: list[str] = []
    left: list[str] = []
    held: list[str] = []
    for name, owner in sorted(indices.list_indices(client, context.alias).items()):
        if owner == ours or (owner is None and _is_recorded(context, stored, name)):
            _raise_if_stopped(context)
            (deleted if indices.delete(client, name) else held).append(name)
        else:
            left.append(name)
    _raise_if_stopped(context)
    name = naming.name_dead_letters_index(context.alias)
    match dead_letters.owns_index(client, ours):
        case True:
            (deleted if indices.delete(client, name) else held).append(name)
        case False:
            left.append(name)
    if held:
        raise TargetUnavailable(
            f"{', '.join(held)} cannot be deleted before the end of a snapshot of "
            f"{'it' if len(held) == 1 else 'them'}"
        )
    return deleted, left


def _is_recorded(context: TableContext, stored: Stored | None, name: str) -> bool:
    """Return whether the state document names this very index, although it has no mark of ours."""
    if stored is None:
        return False
    # With the UUID: an index of that name may have been created by somebody else since.
    uuid = indices.read_uuid(context.client, name)
    return PhysicalIndex(name, uuid) in list_recorded_indices(stored.document)


def _remove_tags(context: TableContext) -> str | None:
    """Remove the tags; return None, or why they may be left."""
    problems: list[str] = []

    def remove() -> None:
        try:
            with (
                translate_source_errors(context.table.name),
                closing(context.open_session()) as opened,
            ):
                table = IcebergTable.load(opened.spark, context.catalog, context.table.name)
                pins.unpin(context, table)
        except TableNotFound:
            LOG.info("%s: the table was dropped, and its tags with it", context.table.name)
        except IcdcError as error:
            problems.append(error.message)

    # In a daemon of its own: a catalog may accept a call and never answer.
    worker = threading.Thread(target=remove, name=f"tags-{context.alias}", daemon=True)
    worker.start()
    worker.join(TAG_SECONDS)
    if worker.is_alive():
        error = SourceUnavailable(f"the catalog did not answer within {TAG_SECONDS:.0f} s")
        problems.append(error.message)
    return problems[0] if problems else None


def _raise_if_stopped(context: TableContext) -> None:
    if context.stop.is_set():
        raise NodeLost(f"the run was asked to end before all of {context.alias!r} was deleted")


def _build_message(
    context: TableContext, *, deleted: list[str], left: list[str], tags: str | None
) -> str:
    text = f"{context.alias}: deleted {', '.join(deleted) or 'nothing, no index is there'}"
    if left:
        text += f"; not made by this pipeline, and left: {', '.join(left)}"
    if tags is not None:
        text += f"; the tag {context.tag} may be left until it expires: {tags}"
    return text
