"""Fills a new physical index with the rows of one snapshot; then `export_swap` serves it.

Readers see the old index, or none, until the new one is complete and checked. The work is cut into
chunks that depend on the snapshot alone. Their number, and how they were cut, is in the state
document, so a restart continues where the last run stopped. A wave is one Spark job: the first one
writes a chunk on each core, the next as many as take 15 s. It must not know why an export is due.

Example, a snapshot of five data files of 1 MiB, on two cores (chunks of 2 MiB, waves of two):

    intent     index orders-000002 is created, 3 chunks, 0 done
    wave 1     chunks 0 and 1 are written in one Spark job; the document says 2 done, 40 rows
    (crash)    the next run begins at chunk 2; what was not recorded is written with equal versions
    wave 2     chunk 2 is written; 3 done, 50 rows
    count      the index holds 49 documents, 1 row was refused as a dead letter: 50, complete
    compare    a sample of the rows, or all of them, with their documents: they are equal
    swap       the alias moves from orders-000001 to orders-000002; the state says applied

Were there 48 documents, duplicate keys could explain it: they are counted and written again. If
that does not explain it, somebody else changed the index, and a new one is begun, once.
"""

import logging
import time
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from icdc_api.errors import Fenced, Gap
from icdc_spark.diff.export_plan import Chunk, ExportPlan, plan_export
from icdc_spark.diff.strategies import build_export_lines
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.iceberg.scan.planning import merge_groups, release_groups
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.client.pace import build_rate
from icdc_spark.opensearch.stores import aliases, dead_letters, identity, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import (
    Intent,
    IntentKind,
    IntentPhase,
    StateDocument,
    compute_base_version,
)
from icdc_spark.protocol.state_parts import MAX_MISCOUNTS
from icdc_spark.protocol.steps import Step, StepKind
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.parallelism import Waves, count_tasks
from icdc_spark.replication import duplicates, export_swap, pins, progress
from icdc_spark.replication.applied import format_instant
from icdc_spark.replication.checks import export_check, index_check, node_check
from icdc_spark.replication.checks.alias_check import list_recorded_indices
from icdc_spark.replication.checks.new_index import NewIndex
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.export_swap import require_intent
from icdc_spark.replication.progress import Effort
from icdc_spark.reporting.export_rate import ExportRate

LOG = logging.getLogger(__name__)

CHUNK_BYTES = 2 * 1024 * 1024
"""Compressed bytes of a chunk, unless one file is larger; the unit that a restart repeats."""
CHUNK_ROWS = 25_000
"""Rows of a chunk, unless one file has more."""
CUT = f"entries of manifests, {CHUNK_BYTES} bytes, {CHUNK_ROWS} rows"
"""How a snapshot is cut into chunks, as it is recorded. Where it changes, this text must change: a
number of a chunk then means other rows."""


@dataclass(frozen=True, kw_only=True)
class ExportWork:
    """The inputs of an export."""

    context: TableContext
    """The table's part of the run."""
    session: SparkSession
    """The session that knows the table's catalog."""
    table: IcebergTable
    """The table's metadata, in which the snapshot is retained."""
    documents: DocumentSpec
    """The documents in the schema of the snapshot."""
    served: index_check.IndexCheck
    """The index that readers use; while an export is open, the one that it fills."""


def run(work: ExportWork, stored: Stored, step: Step) -> Stored:
    """Export the step's snapshot, or continue the open export; return the advanced state.

    Asked to stop, or once no export may write, it returns between two jobs, the export still open.
    """
    context, planned = work.context, _plan_step(work, stored, step)
    if step.kind is not StepKind.REPLAY:
        stored = _record_intent(work, stored, step, planned=planned)
    elif planned and _is_cut_otherwise(require_intent(stored.document), planned):
        LOG.warning("%s: the open export is of another version: begun anew", context.table.name)
        stored = _record_intent(work, stored, step, planned=planned)
    if require_intent(stored.document).phase is IntentPhase.WRITING:
        try:
            if not only_begins(step):
                stored = _write_chunks(work, stored, planned)
        except (Fenced, Gap) as error:
            stored = context.require_ours(error)
            why = export_check.explain(context, stored.document, error)
            return _begin_anew(work, stored, step, planned=planned, miscount=why)
        intent = require_intent(stored.document)
        if intent.chunks_done < intent.chunks_total or export_check.must_wait(context):
            return stored
        stored, miscount = _complete(work, stored, planned)
        if miscount:
            return _begin_anew(work, stored, step, planned=planned, miscount=miscount)
    return export_swap.serve(context, work.table, work.documents, stored)


def _plan_step(work: ExportWork, stored: Stored, step: Step) -> ExportPlan | None:
    """Return the chunks of the step; None where it has none to write."""
    # StreamOnly begins with an index that stays empty, and so does a table without a snapshot.
    if step.to_id is None or step.kind is StepKind.BEGIN:
        return None
    if step.kind is StepKind.REPLAY:
        intent = require_intent(stored.document)
        # A start of StreamOnly stays one; all chunks of a complete index are written.
        if intent.omits_rows or intent.phase is not IntentPhase.WRITING:
            return None
    return plan(work.table, int(step.to_id))


def _is_cut_otherwise(intent: Intent, planned: ExportPlan) -> bool:
    """Return whether the numbers of the open export's chunks mean something else by now."""
    return (intent.cut, intent.chunks_total) != (CUT, planned.count)


def only_begins(step: Step) -> bool:
    """Return whether the step makes an index and exports nothing into it (StreamOnly)."""
    # An open one is recognised by its missing chunks; the export of an empty table has none either.
    begun = step.intent is not None and not step.intent.chunks_total
    return begun or step.kind is StepKind.BEGIN


def plan(table: IcebergTable, snapshot_id: int) -> ExportPlan:
    """Cut the snapshot's export into chunks, always the same ones."""
    return plan_export(table, snapshot_id, target_bytes=CHUNK_BYTES, target_rows=CHUNK_ROWS)


def _record_intent(
    work: ExportWork, stored: Stored, step: Step, *, planned: ExportPlan | None, miscounts: int = 0
) -> Stored:
    """Create the new index and record the export, in place of any open intent.

    Nothing that readers may be using is deleted, whatever the state document has forgotten.
    `miscounts`: exports in a row before this one whose count was wrong.
    """
    context, client, state = work.context, work.context.client, stored.document
    abandoned, history = state.intent, identity.read_store_history(client)
    is_trusted = index_check.is_trusted(stored, history)
    state = state.retain_served(work.served.loss, is_trusted=is_trusted, now=format_instant())
    serving = aliases.check_free(client, context.ownership, recorded=list_recorded_indices(state))
    # Before the intent is recorded: a crash between leaves a tag too many, and that expires.
    pins.pin_next(context, work.table, step.to_id)
    mapping = build_index_mapping(work.documents, table_uuid=work.table.uuid)
    unwritten = export_swap.limit_unwritten(context, stored.document, serving)
    with context.name_refusals(), unwritten:
        created = indices.create(
            client,
            context.ownership,
            mapping,
            context.opensearch.index_settings,
            above=export_swap.find_last_number(context, work.table, state, serving),
        )
    intent = Intent(
        kind=IntentKind.EXPORT,
        from_=None,
        to=step.to_id,
        ordinal=_compute_next_ordinal(work, state),
        index=created.name,
        index_uuid=created.uuid,
        chunks_total=planned.count if planned else 0,
        cut=CUT if planned else None,
        miscounts=miscounts,
        nodes=node_check.list_nodes(context),
    )
    # One change, so that the number of the abandoned index is remembered at every moment.
    state = state if abandoned is None else state.abandon(now=format_instant())
    # Whatever the document has missed, an export does not build on it.
    state = state.trust(history, now=format_instant()).with_previous(serving, now=format_instant())
    state = state.with_intent(intent, now=format_instant())
    policies = context.build_policies()
    if policies.ends_with_export(state, is_trusted=is_trusted):
        # From here on the request is honoured: a restart continues this export.
        state = state.with_resync(policies.resync_nonce, policies.resync_id, now=format_instant())
    stored = context.store.replace(stored, state)
    if abandoned is not None and abandoned.index not in (state.index, *state.previous_indices):
        export_swap.delete_ours(context, abandoned.index)
    return stored


def _compute_next_ordinal(work: ExportWork, state: StateDocument) -> int:
    """Return the ordinal of a new export, above that of every dead letter.

    A lost or restored state document knows less than the dead letters, which are the only
    documents of an older ordinal that a new index is written beside.
    """
    of_dead_letters = dead_letters.read_last_ordinal(work.context.client, work.context.ownership)
    return max(state.last_ordinal, of_dead_letters) + 1


def _write_chunks(work: ExportWork, stored: Stored, planned: ExportPlan | None) -> Stored:
    """Write the chunks that are not done, wave by wave, until the run is asked to stop."""
    context = work.context
    intent = require_intent(stored.document)
    rows_total = planned.records if planned else 0
    rate = ExportRate(progress.build_export_progress(intent, rows_total))
    progress.report_export(context, intent, rows_total, rate)
    begun = identity.check_identity(context.client, intent.index, intent.index_uuid)
    context.nodes.see(begun)
    chunks = planned.iterate_chunks(intent.chunks_done) if planned else iter(())
    is_limited = build_rate(context.opensearch.limits) is not None
    waves = Waves(context.spec.spark.most_executors if is_limited else None)
    while not context.stop.is_set() and context.may_export():
        tasks = count_tasks(work.session)
        if not (wave := waves.take(chunks, tasks, lambda chunk: chunk.group.files)):
            break
        # A task for each chunk, so that none waits for a long one, nor do other tables.
        stored = _write_wave(work, stored, wave, max(tasks, len(wave)))
        progress.report_export(context, require_intent(stored.document), rows_total, rate)
    return stored


def _write_wave(work: ExportWork, stored: Stored, wave: list[Chunk], tasks: int) -> Stored:
    """Write some chunks in one Spark job, and record that they are done."""
    context, intent = work.context, require_intent(stored.document)
    version = compute_base_version(intent.ordinal)
    to_id, started = int(intent.to or 0), time.monotonic()
    with open_reader(work.session, work.table, to_id, work.documents, tasks) as reader:
        group = merge_groups(work.table, [chunk.group for chunk in wave])
        whole = replace(wave[0], group=group)
        lines = build_export_lines(reader, whole, work.documents, version=version)
        result = context.write(lines.frame, intent, version)
    seconds = time.monotonic() - started
    state = stored.document
    # Applied already, by a wave that died before it was recorded: they are documents as well.
    rows = result.upserted + result.already_applied + result.dead_letters
    for chunk in wave:
        # Rows are known for the wave only, and nothing is recorded between its chunks.
        share = rows if chunk is wave[-1] else 0
        state = state.complete_chunk(chunk.number, rows=share, now=format_instant())
    stored = context.store.replace(stored, state)
    non_finite = lines.read_non_finite()
    effort = Effort(writing_seconds=seconds, files_bytes=group.bytes, non_finite=non_finite)
    progress.report_batch(context, intent, result, effort)
    release_groups(work.table, [group, *(chunk.group for chunk in wave)])
    return stored


def _complete(
    work: ExportWork, stored: Stored, planned: ExportPlan | None
) -> tuple[Stored, str | None]:
    """Count and compare the new index, settle duplicate keys, and record that the alias may move.

    Where the index does not hold the snapshot, the second value says why for people, and the alias
    may not move.
    """
    context, intent = work.context, require_intent(stored.document)
    # Before the count: writes lost earlier are missing in it, and those lost later are noticed by
    # the sequence numbers.
    now = identity.check_identity(context.client, intent.index, intent.index_uuid)
    stored = node_check.settle(context, stored, now)
    reader = partial(open_reader, work.session, work.table, int(intent.to or 0), work.documents)
    new = NewIndex(context, intent, work.documents, planned, reader)
    duplicate_keys, problem = export_check.count(new)
    problem = problem or export_check.compare(new, has_duplicates=bool(duplicate_keys.count))
    if problem:
        return stored, problem
    if duplicate_keys.count:
        stored = duplicates.mark(context, stored, duplicate_keys)
    else:
        stored = duplicates.unmark(context, stored)
    swapping = stored.document.begin_swap(shards=now.shards, now=format_instant())
    return context.store.replace(stored, swapping), None


def _begin_anew(
    work: ExportWork, stored: Stored, step: Step, *, planned: ExportPlan | None, miscount: str
) -> Stored:
    """Begin a new export in place of one whose index somebody else changed.

    After MAX_MISCOUNTS in a row the export stays open, and the next reconcile stalls the table.
    """
    if stored.document.intent is None:
        return stored  # It was put back from a copy; the next observation shows it.
    index = stored.document.intent.index
    LOG.warning("%s: %s is not as written: %s", work.context.table.name, index, miscount)
    state = stored.document.add_miscount(miscount, now=format_instant())
    if (miscounts := require_intent(state).miscounts) >= MAX_MISCOUNTS:
        return work.context.store.replace(stored, state)
    return _record_intent(work, stored, step, planned=planned, miscounts=miscounts)
