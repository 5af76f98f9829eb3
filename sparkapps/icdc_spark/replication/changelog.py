"""Applies what changed between two snapshots, as one recorded batch.

First the intent is recorded, then the documents are written, then the state advances. A crash
leaves either nothing, or an open intent that is repeated exactly: the same two snapshots give the
same documents with the same versions, and OpenSearch ignores those that it has.

Example, snapshot 78 updates row 1 and deletes row 2; the applied one is 77, the last ordinal 4:

    pin        tag `…-next` on 78, so that a repetition can read it
    intent     {kind: Changelog, from: 77, to: 78, ordinal: 5} in the state document
    mapping    fields of new columns, if 78 has any, and `_meta`, if the spec is another
    write      index 1, version 5 · 2^20; delete 2, version 5 · 2^20
    (crash)    the next run reads the intent and repeats from "mapping"; document 1 has version
               5 · 2^20 already, so OpenSearch refuses it, and it counts as already applied
    advance    applied 78, ordinal 5, no intent; shards and sequence numbers of the index
    pin        the tag moves from 77 to 78, `…-next` is removed

It must not know how two snapshots are compared.
"""

import logging
import time
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from icdc_api.errors import Bug, DataFileMissing
from icdc_spark.diff.change_plan import ChangePlan, choose_planner
from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.strategies import build_change_lines, list_changed_ids
from icdc_spark.documents.compatibility import SAME, Compatibility
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.opensearch.stores import indices
from icdc_spark.opensearch.stores.identity import Identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import (
    Intent,
    IntentKind,
    StateDocument,
    Totals,
    compute_base_version,
)
from icdc_spark.protocol.steps import Step, StepKind
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication import duplicates, pins, progress
from icdc_spark.replication.applied import build_applied, format_instant
from icdc_spark.replication.batches import check_plan
from icdc_spark.replication.checks import node_check
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.duplicates import NO_DUPLICATES, DuplicateSummary
from icdc_spark.replication.progress import Effort

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The inputs of one batch."""

    context: TableContext
    """The table's part of the run."""
    session: SparkSession
    """The session that knows the table's catalog."""
    table: IcebergTable
    """The table's metadata, in which both snapshots are retained."""
    documents: DocumentSpec
    """The documents in the schema of the later snapshot."""
    compatibility: Compatibility = SAME
    """What the mapping gains before the batch is written."""


@dataclass(frozen=True, kw_only=True)
class WriteResult:
    """The writes of one batch."""

    result: BatchResult
    """Counts by what became of the operations."""
    duplicates: DuplicateSummary
    """Keys of the batch that have several rows in the snapshot."""
    non_finite: int = 0
    """NaN and infinite numbers that were written as null."""
    effort: Effort = field(default_factory=Effort)
    """What they took."""
    is_repeated: bool = False
    """Whether an earlier attempt may have written a part of it."""

    @property
    def acknowledged(self) -> int:
        """The operations of the batch that the index has applied, each with a number of its own.

        Of a batch that is repeated those of the earlier attempts too. No older batch has their
        version, so their numbers are above those that were recorded before the batch. Left out is
        what may have none: rows beyond the first of their key, and writes that a second pass
        followed.
        """
        result, before = self.result, 0
        if self.is_repeated:
            before = result.already_applied - result.settled - self.duplicates.surplus
        return result.acknowledged + max(before, 0)


NOTHING_WRITTEN = WriteResult(result=BatchResult(), duplicates=NO_DUPLICATES)


def run(batch: Batch, stored: Stored, step: Step) -> Stored:
    """Apply the step's snapshots and advance; a replay repeats the recorded intent.

    Gap where the index is no longer the one that was recorded; Fenced where another run has taken
    over, or the index is newer than the state document.
    """
    context = batch.context
    replay = step.kind is StepKind.REPLAY
    if not replay:
        # Before the intent is recorded: a replay must be able to read the snapshot.
        pins.pin_next(context, batch.table, step.to_id)
        # Read back before a row is written, unlike other changes: see there.
        stored = context.store.begin(
            stored,
            stored.document.with_intent(
                _build_intent(batch, stored.document, step), now=format_instant()
            ),
        )
    intent = stored.document.intent
    if intent is not None and intent.kind is IntentKind.REPAIR:
        # The ids that it was to write are lost with the run; the next comparison finds the rest.
        return context.store.replace(stored, stored.document.abandon(now=format_instant()))
    if intent is None or intent.to is None:
        raise Bug(f"{context.table.name}: a changelog batch has no target snapshot")
    _extend_mapping(batch, intent)
    opened, document = intent, stored.document
    stored, written, now = node_check.write_until_settled(
        context,
        stored,
        intent,
        lambda again: write(batch, opened, document, replay=replay or again),
    )
    stored = duplicates.mark(context, stored, written.duplicates)
    stored = _advance(batch, stored, intent, result=written.result, now=now)
    progress.report_batch(context, intent, written.result, written.effort)
    return stored


def write(batch: Batch, intent: Intent, state: StateDocument, *, replay: bool) -> WriteResult:
    """Write the batch of the intent; it may be repeated."""
    started = time.monotonic()
    plan = plan_between(batch, intent)
    planned = time.monotonic()
    effort = Effort(planning_seconds=planned - started, files_bytes=plan.bytes)
    if plan.is_empty:
        # Such as after a compaction: only the applied snapshot changes.
        return replace(NOTHING_WRITTEN, effort=effort)
    try:
        written = _write_plan(batch, plan, intent, state, replay=replay)
        seconds = time.monotonic() - planned
        effort = replace(effort, writing_seconds=seconds, non_finite=written.non_finite)
        return replace(written, effort=effort, is_repeated=replay)
    except DataFileMissing as error:
        # Raises a passing error where the snapshots expired: only a file that a new plan reads as
        # well is really missing.
        check_plan(batch.table, plan, choose_planner(batch.documents), error)
        raise


def _write_plan(
    batch: Batch, plan: ChangePlan, intent: Intent, state: StateDocument, *, replay: bool
) -> WriteResult:
    """Read the plan's files and write their changes, by one of three ways.

    append-only table            changes; a row's position is its id, so no key is twice
    known to have duplicates     each key that changed is read in the snapshot
    any other                    changes; duplicates are looked up if something hints at them
    """
    context, spec = batch.context, batch.documents
    with open_reader(batch.session, batch.table, int(intent.to or 0), spec) as reader:
        if spec.append_only:
            lines = build_change_lines(
                reader, plan, spec, version=compute_base_version(intent.ordinal)
            )
            result = context.write(lines.frame, intent, compute_base_version(intent.ordinal))
            non_finite = lines.read_non_finite()
            return WriteResult(result=result, duplicates=NO_DUPLICATES, non_finite=non_finite)
        if state.duplicates is not None:
            return _write_by_lookup(context, reader, plan, spec=spec, intent=intent)
        return _write_changes(context, reader, plan, spec=spec, intent=intent, replay=replay)


def plan_between(batch: Batch, intent: Intent) -> ChangePlan:
    """Plan which files differ between the intent's two snapshots."""
    from_id = int(intent.from_) if intent.from_ else None
    plan = choose_planner(batch.documents)
    return plan(batch.table, from_id, int(intent.to or 0))


def _build_intent(batch: Batch, state: StateDocument, step: Step) -> Intent:
    if state.index is None or state.index_uuid is None:
        raise Bug(f"State of {state.alias!r}: a changelog needs an index.")
    return Intent(
        kind=IntentKind.CHANGELOG,
        from_=step.from_id,
        to=step.to_id,
        ordinal=state.last_ordinal + 1,
        index=state.index,
        index_uuid=state.index_uuid,
        nodes=node_check.list_nodes(batch.context),
    )


def _extend_mapping(batch: Batch, intent: Intent) -> None:
    # Before the first document that has the new fields, so that they are mapped as the spec says.
    # With them, or without: what the spec leaves out of documents of now on is known from `_meta`.
    if batch.compatibility.is_meta_old:
        context = batch.context
        mapping = build_index_mapping(batch.documents, table_uuid=batch.table.uuid)
        with context.name_refusals():
            indices.extend_mapping(
                context.client,
                intent.index,
                mapping,
                context.ownership,
                added=batch.compatibility.added,
            )


def _write_changes(
    context: TableContext,
    reader: SnapshotReader,
    plan: ChangePlan,
    *,
    spec: DocumentSpec,
    intent: Intent,
    replay: bool,
) -> WriteResult:
    version = compute_base_version(intent.ordinal)
    lines = build_change_lines(reader, plan, spec, version=version)
    result = context.write(lines.frame, intent, version)
    # A replay meets its own earlier writes, so the index's answers no longer show duplicates.
    counts = lines.read_counts()
    if not replay and not duplicates.are_hinted(result, counts):
        return WriteResult(result=result, duplicates=NO_DUPLICATES, non_finite=counts.non_finite)
    among = reader.persist(list_changed_ids(reader, plan, spec))
    # Limited to the keys of this batch: others are as they were.
    duplicate_keys = duplicates.settle(context, reader, spec, intent=intent, among=among)
    if duplicate_keys.dead_letters is not None:
        result = replace(result, dead_letters_total=duplicate_keys.dead_letters)
    return WriteResult(result=result, duplicates=duplicate_keys, non_finite=counts.non_finite)


def _write_by_lookup(
    context: TableContext,
    reader: SnapshotReader,
    plan: ChangePlan,
    *,
    spec: DocumentSpec,
    intent: Intent,
) -> WriteResult:
    """Write, for each key that changed, the document that the whole snapshot gives it."""
    version = compute_base_version(intent.ordinal)
    ids = reader.persist(list_changed_ids(reader, plan, spec))
    lines = look_up_ids(reader, ids, spec, version=version)
    result = context.write(lines.frame, intent, version)
    non_finite = lines.read_non_finite()
    return WriteResult(result=result, duplicates=NO_DUPLICATES, non_finite=non_finite)


def _advance(
    batch: Batch, stored: Stored, intent: Intent, *, result: BatchResult, now: Identity
) -> Stored:
    """Record that the index, which is `now`, equals the intent's snapshot."""
    context = batch.context
    if result.foreign_edits.count:
        LOG.warning(
            "%s: %d documents were edited by somebody else and left alone, such as %s; "
            "`icdc verify --repair` corrects them",
            context.table.name,
            result.foreign_edits.count,
            result.foreign_edits.ids[:3],
        )
    snapshot = batch.table.require(int(intent.to or 0))
    advanced = stored.document.advance(
        build_applied(snapshot, intent),
        now=format_instant(),
        batch=Totals(
            upserted=result.upserted + result.already_applied,
            deleted=result.deleted,
            dead_letters=result.dead_letters_total,
        ),
        source=context.build_source(batch.table.uuid),
        document_spec=batch.documents.hash,
        shards=now.shards,
        store_history=now.store_history or None,
    )
    stored = context.store.replace(stored, advanced)
    pins.pin(context, batch.table, intent.to)
    return stored
