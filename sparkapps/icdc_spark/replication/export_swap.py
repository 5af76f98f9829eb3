"""Serves a complete index: moves the alias to it, advances, and deletes older indices.

Each step may be repeated, so a crash anywhere is repaired by the next run. The order matters:

    1. the alias moves              readers see the new index
    2. older dead letters: deleted  they are about the old index
    3. the state document advances  from here on batches write into the new index
    4. older indices are deleted    never before 1, or readers would see nothing

It must not know how the index was filled.
"""

from icdc_api.errors import Bug
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.stores import aliases, dead_letters, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import Intent, StateDocument, Totals
from icdc_spark.replication import pins
from icdc_spark.replication.applied import build_applied, format_instant
from icdc_spark.replication.checks.alias_check import list_recorded_indices, require_owner
from icdc_spark.replication.context import TableContext

RETAINED_INDICES = 1
"""Older physical indices that stay, to go back to by hand."""


def require_intent(state: StateDocument) -> Intent:
    """Return the open intent of an export; Bug if none is open."""
    if state.intent is None:
        raise Bug(f"State of {state.alias!r}: no export is open.")
    return state.intent


def serve(
    context: TableContext, table: IcebergTable, documents: DocumentSpec, stored: Stored
) -> Stored:
    """Move the alias to the index of the open export and advance; return the new state."""
    intent = require_intent(stored.document)
    aliases.move_alias(
        context.client,
        context.ownership,
        intent.index,
        require_owner=lambda: require_owner(context, stored.document),
        recorded=list_recorded_indices(stored.document),
    )
    snapshot = table.require(int(intent.to)) if intent.to else None
    # What an older index refused says nothing about this one.
    dead_letters.purge_older(context.client, context.ownership, intent.ordinal)
    refused = dead_letters.count(context.client, context.ownership)
    state = stored.document.advance(
        build_applied(snapshot, intent),
        now=format_instant(),
        batch=Totals(upserted=intent.rows, deleted=0, dead_letters=refused),
        source=context.build_source(table.uuid),
        document_spec=documents.hash,
    )
    stored = context.store.replace(stored, state)
    # After the advance: until then the tag of the open batch retains the snapshot.
    pins.pin(context, table, intent.to)
    return _delete_older(context, stored)


def delete_ours(context: TableContext, index: str) -> None:
    """Delete an index, unless one of that name has come to be somebody else's."""
    if indices.list_indices(context.client, context.alias).get(index) == context.ownership:
        indices.delete(context.client, index)


def _delete_older(context: TableContext, stored: Stored) -> Stored:
    """Delete all older indices of ours but the newest, and never one that the alias points to."""
    state = stored.document
    read = aliases.list_current_indices(context.client, context.alias)
    for index in state.previous_indices[:-RETAINED_INDICES]:
        if index not in read:
            # Deleted before it is forgotten: a crash between the two deletes it again.
            indices.delete(context.client, index)
            without = stored.document.without_previous(index, now=format_instant())
            stored = context.store.replace(stored, without)
    retained = {state.index, *stored.document.previous_indices, *read} - {None}
    indices.drop_orphans(
        context.client,
        context.ownership,
        keep=frozenset(map(str, retained)),
        below=state.last_number,
    )
    return stored
