"""Takes away what the pipeline has made of one table: the last run of a pipeline that is deleted.

The state document says whose the alias is. It is claimed first, which fences older runs, and
deleted last: a run that dies at any point is repeated by the next one. What belongs to somebody
else is left as it is. A catalog that does not answer keeps no index alive: a tag that cannot be
removed is told of, and no failure.
"""

import logging
import threading
from typing import Any

from icdc_api import naming
from icdc_api.errors import AliasTaken, IcdcError, NodeLost, SourceUnavailable, TableNotFound
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.bulk.target import OWNER_SECONDS
from icdc_spark.opensearch.client.tasks import wait_until_quiet
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.replication import pins
from icdc_spark.replication.context import TableContext, instant

LOG = logging.getLogger(__name__)

TAG_SECONDS = 120.0
"""How long a catalog may take over the tags of one table."""

Entry = dict[str, Any]


def delete(context: TableContext) -> Entry:
    """Deletes indices, dead letters, tags and state of one table; what was done, for people.

    Raises AliasTaken, with nothing touched, when the alias is another pipeline's; Fenced when a
    newer run has it; NodeLost when the run is asked to end before it is done.
    """
    stored = context.store.load(context.alias)
    if stored is not None:
        stored = _claim(context, stored)
    # A request that is still under way could make an index anew that is deleted below.
    # So could one that a task begins before it asks who owns the index.
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
        _go_on(context)
        context.store.delete_unchanged(stored)
    entry: Entry = {"name": context.table.name, "index": context.alias}
    entry |= {"deleted": deleted, "left": left, "tags": tags}
    told = _told(context, deleted, left, tags)
    LOG.info("%s", told)
    context.reporter.set(message=told)
    return entry


def _claim(context: TableContext, stored: Stored) -> Stored:
    owner = stored.document.owner.pipeline
    if owner != context.request.owner:
        raise AliasTaken(
            f"nothing is deleted of {context.alias!r}: it belongs to the pipeline {owner!r}"
        )
    claimed = stored.document.claim(context.owner, now=instant())
    return context.store.replace(stored, claimed)


def _delete_indices(context: TableContext, stored: Stored | None) -> tuple[list[str], list[str]]:
    """The indices that are gone now, and those of such a name that are not ours."""
    client, ours = context.client, context.ownership
    deleted: list[str] = []
    left: list[str] = []
    for name, whose in sorted(indices.owned_indices(client, context.alias).items()):
        if whose == ours or (whose is None and _is_recorded(context, stored, name)):
            _go_on(context)
            indices.delete(client, name)
            deleted.append(name)
        else:
            left.append(name)
    _go_on(context)
    letters = dead_letters.drop(client, ours)
    if letters is not None:
        (deleted if letters else left).append(naming.dead_letters_index(context.alias))
    return deleted, left


def _is_recorded(context: TableContext, stored: Stored | None, name: str) -> bool:
    """Whether it is the very index of the state document; somebody took our mark off it."""
    if stored is None:
        return False
    document = stored.document
    recorded = {(document.index, document.index_uuid)}
    if document.intent is not None:
        recorded.add((document.intent.index, document.intent.index_uuid))
    return (name, indices.uuid(context.client, name)) in recorded


def _remove_tags(context: TableContext) -> str | None:
    """None when they are gone, else why they may be left."""
    problems: list[str] = []

    def remove() -> None:
        try:
            with source_errors(context.table.name):
                session = context.open_session()
                table = IcebergTable.load(session, context.catalog, context.table.name)
                pins.unpin(context, table)
        except TableNotFound:
            LOG.info("%s: the table is gone, and its tags with it", context.table.name)
        except IcdcError as error:
            problems.append(error.message)

    # Of its own, and a daemon: a catalog may keep a call for ever.
    worker = threading.Thread(target=remove, name=f"tags-{context.alias}", daemon=True)
    worker.start()
    worker.join(TAG_SECONDS)
    if worker.is_alive():
        error = SourceUnavailable(f"the catalog did not answer within {TAG_SECONDS:.0f} s")
        problems.append(error.message)
    return problems[0] if problems else None


def _go_on(context: TableContext) -> None:
    if context.stop.is_set():
        raise NodeLost(f"the run was asked to end before all of {context.alias!r} was deleted")


def _told(context: TableContext, deleted: list[str], left: list[str], tags: str | None) -> str:
    text = f"{context.alias}: deleted {', '.join(deleted) or 'nothing, no index is there'}"
    if left:
        text += f"; not made by this pipeline, and left: {', '.join(left)}"
    if tags is not None:
        text += f"; the tag {context.tag} may be left until it expires: {tags}"
    return text
