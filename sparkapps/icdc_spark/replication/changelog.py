"""Applies what changed between two snapshots, as one recorded batch.

Intent first, then the writes, then the advance: a crash anywhere leaves either nothing or an open
intent that is repeated exactly. It must not know how two snapshots are compared.
"""

import logging
from dataclasses import dataclass

from pyspark.sql import SparkSession

from icdc_api.errors import Bug, DataFileMissing
from icdc_spark.diff.change_plan import ChangePlan, choose_planner
from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.strategies import build_change_lines, list_changed_ids
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.opensearch.stores import identity, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.next_step import Step, StepKind
from icdc_spark.protocol.state_document import (
    Applied,
    Intent,
    IntentKind,
    StateDocument,
    Totals,
    base_version,
)
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication import duplicates, pins
from icdc_spark.replication.batches import check_plan
from icdc_spark.replication.context import TableContext, instant
from icdc_spark.replication.duplicates import Twins

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one batch works with."""

    context: TableContext
    session: SparkSession
    table: IcebergTable
    documents: DocumentSpec
    added_fields: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a batch wrote, and which of its keys have several rows."""

    result: BatchResult
    twins: Twins


NOTHING = Written(result=BatchResult(), twins=Twins(0, []))


def run(batch: Batch, stored: Stored, step: Step) -> Stored:
    """Applies the step's snapshots and advances; a replay repeats the recorded intent."""
    context = batch.context
    replay = step.kind is StepKind.REPLAY
    if not replay:
        pins.pin_next(context, batch.table, step.to_id)
        stored = context.store.begin(
            stored, stored.document.with_intent(_intent(stored.document, step), now=instant())
        )
    intent = stored.document.intent
    if intent is not None and intent.kind is IntentKind.REPAIR:
        # Which documents it was to write is known to the comparison alone, which finds the rest.
        return context.store.replace(stored, stored.document.abandon(now=instant()))
    if intent is None or intent.to is None:
        raise Bug(f"{context.table.name}: a changelog batch has no target snapshot")
    _extend_mapping(batch, intent)
    written = write(batch, intent, stored.document, replay=replay)
    stored = duplicates.mark(context, stored, written.twins)
    return _advance(batch, stored, intent, written.result)


def write(batch: Batch, intent: Intent, state: StateDocument, *, replay: bool) -> Written:
    """Writes the batch of the intent; may be repeated."""
    plan = plan_between(batch, intent)
    if plan.is_empty:
        return NOTHING
    try:
        return _written(batch, plan, intent, state, replay=replay)
    except DataFileMissing as error:
        check_plan(batch.table, plan, choose_planner(batch.documents), error)
        raise


def _written(
    batch: Batch, plan: ChangePlan, intent: Intent, state: StateDocument, *, replay: bool
) -> Written:
    context, spec = batch.context, batch.documents
    with open_reader(batch.session, batch.table, int(intent.to or 0), spec) as reader:
        if spec.append_only:
            lines = build_change_lines(reader, plan, spec, version=base_version(intent.ordinal))
            result = context.write(lines.frame, intent, base_version(intent.ordinal))
            return Written(result=result, twins=NOTHING.twins)
        if state.duplicates is not None:
            return _write_resolved(context, reader, plan, spec, intent)
        return _write_changes(context, reader, plan, spec, intent, replay=replay)


def plan_between(batch: Batch, intent: Intent) -> ChangePlan:
    """What differs between the intent's snapshots, by files."""
    from_id = int(intent.from_) if intent.from_ else None
    plan = choose_planner(batch.documents)
    return plan(batch.table, from_id, int(intent.to or 0))


def _intent(state: StateDocument, step: Step) -> Intent:
    if state.index is None or state.index_uuid is None:
        raise Bug(f"State of {state.alias!r}: a changelog needs an index.")
    return Intent(
        kind=IntentKind.CHANGELOG,
        from_=step.from_id,
        to=step.to_id,
        ordinal=state.last_ordinal + 1,
        index=state.index,
        index_uuid=state.index_uuid,
    )


def _extend_mapping(batch: Batch, intent: Intent) -> None:
    if batch.added_fields:
        context = batch.context
        mapping = build_index_mapping(batch.documents, table_uuid=batch.table.uuid)
        with context.named_refusals():
            indices.extend_mapping(
                context.client,
                intent.index,
                mapping,
                context.ownership,
                added=batch.added_fields,
            )


def _write_changes(
    context: TableContext,
    reader: SnapshotReader,
    plan: ChangePlan,
    spec: DocumentSpec,
    intent: Intent,
    *,
    replay: bool,
) -> Written:
    version = base_version(intent.ordinal)
    lines = build_change_lines(reader, plan, spec, version=version)
    result = context.write(lines.frame, intent, version)
    # A replay meets its own earlier writes, so the index's answers no longer show twins.
    hinted = replay or result.already_applied or result.created_unexpectedly_updated.count
    if not hinted and not lines.counts().duplicate_keys:
        return Written(result=result, twins=NOTHING.twins)
    among = reader.persist(list_changed_ids(reader, plan, spec))
    return Written(
        result=result, twins=duplicates.settle(context, reader, spec, intent, among=among)
    )


def _write_resolved(
    context: TableContext,
    reader: SnapshotReader,
    plan: ChangePlan,
    spec: DocumentSpec,
    intent: Intent,
) -> Written:
    """For a table with duplicate keys: the snapshot says what each touched key is."""
    version = base_version(intent.ordinal)
    ids = reader.persist(list_changed_ids(reader, plan, spec))
    result = context.write(look_up_ids(reader, ids, spec, version=version).frame, intent, version)
    return Written(result=result, twins=NOTHING.twins)


def _advance(batch: Batch, stored: Stored, intent: Intent, result: BatchResult) -> Stored:
    context = batch.context
    if result.foreign_edits.count:
        LOG.warning(
            "%s: %d documents were edited by somebody else and left alone, such as %s; "
            "`icdc verify --repair` mends them",
            context.table.name,
            result.foreign_edits.count,
            result.foreign_edits.ids[:3],
        )
    snapshot = batch.table.require(int(intent.to or 0))
    now = identity.check_identity(
        context.client, intent.index, intent.index_uuid, stored.document.shards
    )
    advanced = stored.document.advance(
        applied_state(snapshot, intent),
        now=instant(),
        batch=Totals(
            upserted=result.upserted + result.already_applied,
            deleted=result.deleted,
            dead_letters=result.dead_letters_total,
        ),
        source=context.source(batch.table.uuid),
        document_spec=batch.documents.hash,
        shards=now.shards,
        store_history=now.store_history or None,
    )
    stored = context.store.replace(stored, advanced)
    pins.pin(context, batch.table, intent.to)
    return stored


def applied_state(snapshot: SnapshotInfo | None, intent: Intent) -> Applied:
    """The state after the intent; None stands for the table before its first snapshot."""
    return Applied(
        snapshot_id=str(snapshot.id) if snapshot else None,
        sequence_number=snapshot.sequence_number if snapshot else 0,
        committed_at=instant(snapshot.committed_at) if snapshot else None,
        ordinal=intent.ordinal,
    )
