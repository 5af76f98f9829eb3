"""Serves another index: a complete one of an export, or by a rollback the one before.

Each step may be repeated, so a crash anywhere is repaired by the next run. The order matters:

    1. the alias moves              readers see the new index
    2. older dead letters: deleted  they are about the old index
    3. the state document advances  from here on batches write into the new index
    4. older indices are deleted    never before 1, or readers would see nothing

A rollback stores the state document first, which names the retained index as served, honours the
request and remembers what is left; only then 1 and 2 follow. If the run dies in between, the
next one finds a document of which readers know nothing yet and takes these steps again, before
anything is written. So no batch ever writes into an index that the document does not name, and no
request is made twice. Only the half-filled index of an export that was given up may stay until the
next export. It must not know how an index was filled, nor whether it may be used again.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from icdc_api import naming
from icdc_api.errors import Bug, Fenced, IcdcError, TargetReadOnly, TargetUnavailable
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.client.connection import Client, open_client
from icdc_spark.opensearch.stores import aliases, dead_letters, identity, indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import Intent, StateDocument, Totals
from icdc_spark.protocol.steps import Step
from icdc_spark.replication import pins
from icdc_spark.replication.applied import build_applied, format_instant
from icdc_spark.replication.checks.alias_check import list_recorded_indices, require_owner
from icdc_spark.replication.checks.index_check import IndexCheck
from icdc_spark.replication.context import TableContext
from icdc_spark.reporting.reporter import get_utc_now

LOG = logging.getLogger(__name__)


def require_intent(state: StateDocument) -> Intent:
    """Return the open intent of an export; Bug if none is open."""
    if state.intent is None:
        raise Bug(f"State of {state.alias!r}: no export is open.")
    return state.intent


def find_last_number(
    context: TableContext, table: IcebergTable, state: StateDocument, serving: Sequence[str]
) -> int:
    """Return a number that no index of the alias has ever exceeded, as far as anybody knows.

    `serving`: the indices that readers use. Where neither they nor the state document is left, but
    the table has a tag of the alias, indices were there of which nobody remembers the numbers: a
    late write for one of them must find none of its name. The number of seconds in the epoch is
    above them all: the next index is `orders-1772366672`.
    """
    if state.last_number or serving or not pins.has_served(context, table):
        return state.last_number
    return context.request.epoch // 1000


@contextmanager
def limit_unwritten(
    context: TableContext, state: StateDocument, serving: Sequence[str]
) -> Iterator[None]:
    """Where an index is created and no answer says so, delete those of attempts before.

    Each attempt would leave one more that no document names. The last one keeps its number from
    being used again, and goes when another index is served.
    """
    try:
        yield
    except TargetUnavailable:
        with (
            _pass_over_failure(context),
            closing(open_client(context.connection)) as client,
        ):
            # One that cannot be read now is left to the next attempt.
            client.patience = 0.0
            _delete_unwritten(context, client, state, serving)
        raise


@contextmanager
def _pass_over_failure(context: TableContext) -> Iterator[None]:
    """Log what keeps a surplus index from being deleted: what went wrong before is told instead."""
    try:
        yield
    except Fenced:
        raise
    except IcdcError as error:
        LOG.warning(
            "%s: an empty index of an attempt before may stay: %s", context.table.name, error
        )


def _delete_unwritten(
    context: TableContext, client: Client, state: StateDocument, serving: Sequence[str]
) -> None:
    alias = context.alias
    recorded = state.intent.index if state.intent else None
    known = {state.index, recorded, *state.previous_indices, *serving}
    made = {
        naming.parse_physical_number(alias, name) or 0: name
        for name, owner in indices.list_indices(client, alias).items()
        if owner == context.ownership and name not in known
    }
    for number in sorted(made)[:-1]:
        if number <= state.last_number:
            continue
        with _pass_over_failure(context):
            now = identity.identify(client, made[number])
            if now is not None and max(now.shards.max_seq_nos) < 0:
                require_owner(context, state)
                indices.delete(client, made[number])


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
    # An older index may be the one that a rollback, which is due next, gives to readers.
    if context.build_policies().owe_rollback(stored.document):
        return stored
    return delete_surplus(context, stored)


def roll_back(
    context: TableContext, table: IcebergTable, stored: Stored, step: Step, served: IndexCheck
) -> Stored:
    """Switch readers back to the index of the step; return the new state.

    `served`: the index that they leave, which is retained in its turn. Where the step names no
    index, only the request is recorded.
    """
    state, policies = stored.document, context.build_policies()
    done = state.with_resync(policies.resync_nonce, policies.resync_id, now=format_instant())
    earlier = state.earlier
    if step.index is None or earlier is None:
        LOG.info("%s: readers stay: %s", context.table.name, step.reason)
        return context.store.replace(stored, done)
    now = identity.check_identity(context.client, earlier.index, earlier.index_uuid or "")
    recorded = list_recorded_indices(state)
    # Before anything is stored: AliasTaken leaves all as it is.
    aliases.check_free(context.client, context.ownership, recorded=recorded)
    number = table.last_sequence_number
    done = done.roll_back(now.shards, served.loss, number=number, now=format_instant())
    stored = context.store.replace(stored, done)
    LOG.warning("%s: readers are switched back to %s", context.table.name, earlier.index)
    finish_rollback(context, done, recorded)
    context.reporter.set(rolled_back_at=get_utc_now())
    abandoned = state.intent.index if state.intent else None
    if abandoned is not None and abandoned not in (done.index, *done.previous_indices):
        delete_ours(context, abandoned)
    applied = done.applied.snapshot_id if done.applied else None
    # It may have expired: then the next step is a gap.
    if applied is not None and int(applied) in table.snapshots:
        pins.pin(context, table, applied)
    return stored


def repeat_rollback(context: TableContext, state: StateDocument) -> None:
    """Finish the rollback that a run before has stored and perhaps nothing more, if one was."""
    if not state.is_switching or state.index is None:
        return
    try:
        now = identity.identify(context.client, state.index)
    except (TargetReadOnly, TargetUnavailable):
        return  # Said when the table is observed, unless a re-export is asked for.
    # Where the index is not the one that was stored, this is a gap like any other.
    if identity.find_loss(state.index, now, state.index_uuid or "", None):
        return
    if finish_rollback(context, state, list_recorded_indices(state)):
        LOG.warning("%s: readers are switched back to %s", context.table.name, state.index)
        context.reporter.set(rolled_back_at=get_utc_now())


def finish_rollback(
    context: TableContext, state: StateDocument, recorded: list[PhysicalIndex]
) -> bool:
    """Do what follows once a rollback is stored; return whether readers had another index."""
    left = aliases.move_alias(
        context.client,
        context.ownership,
        state.index or "",
        require_owner=lambda: require_owner(context, state),
        recorded=recorded,
    )
    # Those of rows without a document here are true of this index as well.
    dead_letters.purge_written(context.client, context.ownership, state.index or "")
    return bool(left)


def delete_ours(context: TableContext, index: str) -> None:
    """Delete an index, unless one of that name has come to be somebody else's.

    One of which a snapshot is being taken stays until another index is served.
    """
    if indices.list_indices(context.client, context.alias).get(index) == context.ownership:
        indices.delete(context.client, index)


def delete_surplus(context: TableContext, stored: Stored) -> Stored:
    """Delete older indices of ours beyond `keepIndices`, and never one that the alias points to."""
    state = stored.document
    read = aliases.list_current_indices(context.client, context.alias)
    for index in state.list_surplus(context.opensearch.retained_indices):
        # Deleted before it is forgotten: a crash between the two deletes it again. One of which a
        # snapshot is being taken stays until the next time.
        if index not in read and indices.delete(context.client, index):
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
