"""Fills a new physical index with the rows of one snapshot, then moves the alias to it.

Readers see the old index, or none, until the new one is complete and counted. The work is cut
into chunks that depend on the snapshot alone; how many are done is in the state document, so a
restart goes on where the last run stopped.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from icdc_api.errors import Bug, Fenced
from icdc_api.status import ExportProgress
from icdc_spark.diff.change_plan import Chunk, plan_export
from icdc_spark.diff.parallelism import count_tasks
from icdc_spark.diff.strategies import build_export_lines
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.iceberg.scan.planning import merge_groups
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.stores import aliases, dead_letters, identity, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.next_step import Step, StepKind
from icdc_spark.protocol.state_document import (
    Intent,
    IntentKind,
    IntentPhase,
    StateDocument,
    Totals,
    base_version,
)
from icdc_spark.protocol.state_parts import MAX_MISCOUNTS
from icdc_spark.readers.choose import open_reader
from icdc_spark.replication import duplicates, pins
from icdc_spark.replication.alias_check import recorded_indices, require_owner
from icdc_spark.replication.changelog import applied_state
from icdc_spark.replication.context import TableContext, instant

LOG = logging.getLogger(__name__)

CHUNK_BYTES = 2 * 1024 * 1024
"""Compressed bytes of a chunk, unless one file is larger; the unit that a restart repeats."""
CHUNK_ROWS = 25_000
"""Rows of a chunk, unless one file has more."""
KEPT_INDICES = 1
"""Older physical indices that stay, to go back to by hand."""


@dataclass(frozen=True, kw_only=True)
class ExportWork:
    """What an export works with."""

    context: TableContext
    session: SparkSession
    table: IcebergTable
    documents: DocumentSpec


def run(work: ExportWork, stored: Stored, step: Step) -> Stored:
    """Exports the step's snapshot, or goes on with the open export; returns the advanced state.

    Asked to stop, it ends between two Spark jobs with the export still open.
    """
    begin = step.kind is StepKind.BEGIN
    context = work.context
    snapshot_id = int(step.to_id) if step.to_id else None
    planned = snapshot_id is not None and not begin
    chunks = plan(work.table, snapshot_id) if planned and snapshot_id is not None else []
    if step.kind is not StepKind.REPLAY:
        stored = _record_intent(work, stored, step, len(chunks))
    elif _intent(stored.document).chunks_total not in (0, len(chunks)):
        # Another version cut the snapshot into other chunks: their numbers mean nothing now.
        stored = _record_intent(work, stored, step, len(chunks))
    intent = _intent(stored.document)
    # An export of no chunks only makes the index: StreamOnly begins with it.
    chunks = chunks if intent.chunks_total else []
    if intent.phase is IntentPhase.WRITING:
        try:
            stored = _write_chunks(work, stored, chunks)
        except Fenced as error:
            stored = context.still_ours(error)
            return _begin_anew(work, stored, step, len(chunks), error.message)
        if _intent(stored.document).chunks_done < len(chunks):
            return stored
        stored, miscount = _complete(work, stored)
        if miscount:
            return _begin_anew(work, stored, step, len(chunks), miscount)
    return _swap(work, stored)


def plan(table: IcebergTable, snapshot_id: int) -> list[Chunk]:
    """The chunks of the snapshot's export."""
    return plan_export(table, snapshot_id, target_bytes=CHUNK_BYTES, target_rows=CHUNK_ROWS)


def _record_intent(
    work: ExportWork, stored: Stored, step: Step, chunks: int, *, miscounts: int = 0
) -> Stored:
    """Creates the new index and records what it will hold, in place of any open intent.

    Nothing that readers may be using is deleted here, whatever the state document has forgotten.
    """
    context, state = work.context, stored.document
    client, abandoned = context.client, state.intent
    serving = aliases.check_free(client, context.ownership, recorded=recorded_indices(state))
    pins.pin_next(context, work.table, step.to_id)
    mapping = build_index_mapping(work.documents, table_uuid=work.table.uuid)
    with context.named_refusals():
        made = indices.create(
            client, context.ownership, mapping, context.index_settings, above=state.last_number
        )
    intent = Intent(
        kind=IntentKind.EXPORT,
        from_=None,
        to=step.to_id,
        ordinal=_next_ordinal(work, state),
        index=made.name,
        index_uuid=made.uuid,
        chunks_total=chunks,
        miscounts=miscounts,
    )
    # One change, so that the number of the abandoned index is remembered at every moment.
    state = state if abandoned is None else state.abandon(now=instant())
    state = state.trust(identity.read_store_history(client), now=instant())
    state = state.with_previous(serving, now=instant()).with_intent(intent, now=instant())
    policies = context.policies()
    if policies.owe_reexport(state):
        # From here on it is honoured: a restart goes on with this export instead of a new one.
        asked = (policies.resync_nonce, policies.resync_id)
        state = state.with_resync(*asked, now=instant())
    stored = context.store.replace(stored, state)
    if abandoned is not None and abandoned.index not in (state.index, *state.previous_indices):
        _delete_ours(context, abandoned.index)
    return stored


def _delete_ours(context: TableContext, index: str) -> None:
    """Delete an index, unless one of that name has come to be somebody else's."""
    if indices.owned_indices(context.client, context.alias).get(index) == context.ownership:
        indices.delete(context.client, index)


def _next_ordinal(work: ExportWork, state: StateDocument) -> int:
    """The ordinal of a new export, above that of every dead letter.

    A lost or restored state document knows less than the dead letters, which are the only
    documents of an older ordinal that a new index is written beside.
    """
    letters = dead_letters.last_ordinal(work.context.client, work.context.alias)
    return max(state.last_ordinal, letters) + 1


def _intent(state: StateDocument) -> Intent:
    if state.intent is None:
        raise Bug(f"State of {state.alias!r}: no export is open.")
    return state.intent


def _write_chunks(work: ExportWork, stored: Stored, chunks: Sequence[Chunk]) -> Stored:
    context = work.context
    rows_total = sum(chunk.group.records for chunk in chunks)
    _report(work, stored, rows_total)
    intent = _intent(stored.document)
    version = base_version(intent.ordinal)
    first = intent.chunks_done
    # What is done is recorded: when it is asked to stop, the next run goes on from here.
    while first < len(chunks) and not context.stop.is_set():
        # One chunk for each task: all cores are busy, and progress is seen.
        wave = chunks[first : first + count_tasks(work.session.sparkContext)]
        to_id = int(intent.to or 0)
        with open_reader(work.session, work.table, to_id, work.documents) as reader:
            group = merge_groups(work.table, [each.group for each in wave])
            chunk = Chunk(number=first, group=group)
            lines = build_export_lines(reader, chunk, work.documents, version=version)
            result = context.write(lines.frame, intent, version)
        state = stored.document
        rows = result.upserted + result.already_applied + result.dead_letters
        for position, each in enumerate(wave):
            # The rows of a wave are booked on its last chunk: nothing is recorded in between.
            share = rows if position == len(wave) - 1 else 0
            state = state.complete_chunk(each.number, rows=share, now=instant())
        stored = context.store.replace(stored, state)
        first += len(wave)
        _report(work, stored, rows_total)
    return stored


def _complete(work: ExportWork, stored: Stored) -> tuple[Stored, str | None]:
    """Counts the new index, settles keys that occur twice, and records that the alias may move.

    Every key of the snapshot must be a document or a dead letter; the second value says where that
    is not so, and then the alias may not move.
    """
    context, intent = work.context, _intent(stored.document)
    # Before they are counted: what is lost from here on is noticed, what was lost is missing.
    now = identity.check_identity(context.client, intent.index, intent.index_uuid)
    documents = indices.finish_export(context.client, intent.index, context.index_settings)
    refused = dead_letters.count(context.client, context.alias, ordinal=intent.ordinal)
    twins = duplicates.Twins(0, [])
    if intent.rows != documents + refused and intent.to is not None:
        to_id = int(intent.to)
        with open_reader(work.session, work.table, to_id, work.documents) as reader:
            twins = duplicates.settle(context, reader, work.documents, intent)
        documents = indices.refresh_and_count(context.client, intent.index)
        refused = dead_letters.count(context.client, context.alias, ordinal=intent.ordinal)
    keys = intent.rows - twins.surplus
    if keys != documents + refused:
        return stored, (
            f"{keys} documents were written to {intent.index}, but it holds {documents} and "
            f"{refused} were refused"
        )
    if twins.count:
        stored = duplicates.mark(context, stored, twins)
    else:
        stored = duplicates.unmark(context, stored)
    swapping = stored.document.begin_swap(shards=now.shards, now=instant())
    return context.store.replace(stored, swapping), None


def _begin_anew(work: ExportWork, stored: Stored, step: Step, chunks: int, miscount: str) -> Stored:
    """Gives up an index that somebody else changed, for a new one; the second time it stays open.

    An open export with so many miscounts stalls the table at its next look.
    """
    LOG.warning("%s: %s", work.context.table.name, miscount)
    state = stored.document.add_miscount(now=instant())
    miscounts = _intent(state).miscounts
    if miscounts >= MAX_MISCOUNTS:
        return work.context.store.replace(stored, state)
    return _record_intent(work, stored, step, chunks, miscounts=miscounts)


def _swap(work: ExportWork, stored: Stored) -> Stored:
    """Moves the alias and advances; either may be repeated."""
    context, intent = work.context, _intent(stored.document)
    aliases.move_alias(
        context.client,
        context.ownership,
        intent.index,
        require_owner=lambda: require_owner(context, stored.document),
        recorded=recorded_indices(stored.document),
    )
    snapshot = work.table.require(int(intent.to)) if intent.to else None
    # What an older index refused says nothing about this one.
    dead_letters.purge_older(context.client, context.alias, intent.ordinal)
    letters = dead_letters.count(context.client, context.alias)
    state = stored.document.advance(
        applied_state(snapshot, intent),
        now=instant(),
        batch=Totals(upserted=intent.rows, deleted=0, dead_letters=letters),
        source=context.source(work.table.uuid),
        document_spec=work.documents.hash,
    )
    stored = context.store.replace(stored, state)
    pins.pin(context, work.table, intent.to)
    return _drop_older(work, stored)


def _drop_older(work: ExportWork, stored: Stored) -> Stored:
    """Deletes all older indices of ours but the newest of them, and what the alias points to."""
    context, state = work.context, stored.document
    read = aliases.current_indices(context.client, context.alias)
    for index in state.previous_indices[:-KEPT_INDICES]:
        if index not in read:
            indices.delete(context.client, index)
            without = stored.document.without_previous(index, now=instant())
            stored = context.store.replace(stored, without)
    keep = {state.index, *stored.document.previous_indices, *read} - {None}
    indices.drop_orphans(
        context.client,
        context.ownership,
        keep=frozenset(map(str, keep)),
        below=state.last_number,
    )
    return stored


def _report(work: ExportWork, stored: Stored, rows_total: int) -> None:
    intent = _intent(stored.document)
    progress = ExportProgress(
        snapshot_id=intent.to,
        chunks_total=intent.chunks_total,
        chunks_done=intent.chunks_done,
        rows=intent.rows,
        rows_total=rows_total,
    )
    work.context.reporter.set(export=progress)
