"""One table of one run: looks at table, index and state, and does the next step.

The order of a step is fixed: claim the state document, look, decide, act. It knows neither the
other tables nor how the run was started.
"""

from dataclasses import dataclass, replace

from icdc_api.errors import Fenced, StateCorrupt, TargetUnavailable
from icdc_api.status import Duplicates, TableState
from icdc_spark.diff.change_plan import choose_planner
from icdc_spark.diff.rows import check_filter
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.schema import Schema, has_names_differing_by_case
from icdc_spark.iceberg.jvm.session import make_case_sensitive
from icdc_spark.iceberg.table.cached_table import CachedTable
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo
from icdc_spark.opensearch.stores import aliases, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol import next_step
from icdc_spark.protocol.next_step import Step, StepInputs, StepKind
from icdc_spark.protocol.state_document import IntentKind, StateDocument
from icdc_spark.readers.choose import open_reader
from icdc_spark.replication import alias_check, batches, changelog, export, index_check, pins
from icdc_spark.replication.context import TableContext, instant
from icdc_spark.replication.index_check import IndexCheck
from icdc_spark.replication.stream_start import stream_start
from icdc_spark.reporting.reporter import utc_now


@dataclass(frozen=True, kw_only=True)
class Look:
    """The table and its state document as they are now, and what follows from them."""

    table: IcebergTable
    head: SnapshotInfo | None
    documents: DocumentSpec
    stored: Stored | None
    step: Step
    index: IndexCheck
    """How the index compares with the state document."""
    added_fields: tuple[str, ...] = ()
    """Fields that the mapping gains, in a way that changes no document already written."""


class TableRun:
    """Repeats `advance` until there is nothing to do."""

    def __init__(self, context: TableContext) -> None:
        self.context = context
        self.session = context.open_session()
        self._stored: Stored | None = None
        self._by_case = False
        self._table = CachedTable(self.session, context.catalog, context.table.name)

    def advance(self) -> StepKind:
        """Does the next step and says which it was; raises TableError, PassingError or Fenced."""
        context = self.context
        remembered = self._stored is not None
        self._stored = self._stored or self._claim()
        look = self.look(self._stored)
        if remembered and look.index.store_changed:
            raise TargetUnavailable(
                "The index icdc-state was restored or made anew: its document is read again."
            )
        self._report(look)
        if look.stored is not None and not self._is_export(look.step):
            alias_check.keep_alias(context, look.stored.document)
            self._stored = index_check.record_shards(context, look.stored, look.index)
            look = replace(look, stored=self._stored)
        look = replace(look, step=self._bounded(look))
        if look.step.kind in (StepKind.IDLE, StepKind.COMPLETE):
            self._settle(look)
            return look.step.kind
        documents = self.documents_at(look, look.step.to_id)
        self.check_filter(look, documents)
        stored = look.stored
        if stored is None:
            stored = self._create(look)
        # If the step dies half-way the document must be read anew, not remembered.
        self._stored = None
        self._stored = self._execute(look, documents, stored)
        if self._stored is not None:
            self._report(self.look(self._stored, just_written=True))
        return look.step.kind

    def _execute(self, look: Look, documents: DocumentSpec, stored: Stored) -> Stored | None:
        """Do the step; None where the index shows that the state document is an older copy."""
        context = self.context
        if self._is_export(look.step):
            context.reporter.working(TableState.EXPORTING)
            work = export.ExportWork(
                context=context, session=self.session, table=look.table, documents=documents
            )
            return export.run(work, stored, look.step)
        context.reporter.working(TableState.STREAMING)
        batch = changelog.Batch(
            context=context,
            session=self.session,
            table=look.table,
            documents=documents,
            added_fields=look.added_fields,
        )
        try:
            return changelog.run(batch, stored, look.step)
        except Fenced as error:
            index_check.withdraw(context, error)
            return None

    def look(self, stored: Stored | None, *, just_written: bool = False) -> Look:
        """What there is to do, without doing anything.

        `just_written`: index and document were compared when the step ended, and are again before
        the next one begins; the request in between is saved.
        """
        context = self.context
        with context.catalog_call():
            table = self._table.load()
        head = table.current_snapshot(context.table.branch)
        documents = self._documents(table.schema(head.id if head else None))
        state = stored.document if stored else None
        check = (
            index_check.IndexCheck(loss=None)
            if just_written
            else index_check.compare_with_index(context.client, stored)
        )
        change, added = self._spec_change(state, documents, intact=check.loss is None)
        view = StepInputs(
            state=state,
            table=context.table.name,
            table_uuid=table.uuid,
            head=str(head.id) if head else None,
            start=stream_start(table, head, context.table),
            document_spec=documents.hash,
            spec_change=change,
            readable=frozenset(str(number) for number in table.snapshots),
            index_loss=check.loss,
        )
        return Look(
            table=table,
            head=head,
            documents=documents,
            stored=stored,
            step=next_step.next_step(view, context.policies()),
            added_fields=added,
            index=check,
        )

    def _bounded(self, look: Look) -> Step:
        """The step, or less where it is a batch that would be too large."""
        step, context = look.step, self.context
        if step.kind is not StepKind.CHANGELOG or step.to_id is None:
            return step
        end = batches.end_of_batch(
            look.table,
            int(step.from_id) if step.from_id else None,
            int(step.to_id),
            max_bytes=context.spec.changelog.max_bytes_per_batch,
            plan=choose_planner(look.documents),
            documents_at=lambda number: self.documents_at(look, str(number)),
        )
        return replace(step, to_id=str(end))

    def documents_at(self, look: Look, snapshot_id: str | None) -> DocumentSpec:
        """The documents in the schema of a snapshot, which may be older than the head's."""
        if look.head is None or snapshot_id in (None, str(look.head.id)):
            return look.documents
        return self._documents(look.table.schema(int(snapshot_id)))

    def _documents(self, schema: Schema) -> DocumentSpec:
        if not self._by_case and has_names_differing_by_case(schema.fields):
            self._by_case = True
            make_case_sensitive(self.session)
        return resolve_spec(self.context.table.name, schema, self.context.wishes())

    def check_filter(self, look: Look, documents: DocumentSpec) -> None:
        """Raises FilterInvalid before anything is made that only a valid filter could fill."""
        if documents.row_filter is None or look.step.to_id is None:
            return
        to_id = int(look.step.to_id)
        with open_reader(self.session, look.table, to_id, documents) as reader:
            check_filter(reader, documents)

    def load(self) -> Stored | None:
        """The state document as it is, unclaimed."""
        return self.context.store.load(self.context.alias)

    def _claim(self) -> Stored | None:
        context = self.context
        stored = self.load()
        if stored is None:
            return None
        claimed = stored.document.claim(context.owner, now=instant())
        stored = context.store.replace(stored, claimed)
        context.outwait_older_runs(stored.document)
        return stored

    def _create(self, look: Look) -> Stored:
        context = self.context
        aliases.check_free(context.client, context.ownership)
        if indices.owned_indices(context.client, context.alias):
            # The state document was lost, and the run that had it may have a request under way.
            context.outwait_older_runs(None)
        return context.store.create(self._first_document(look))

    def _first_document(self, look: Look) -> StateDocument:
        context = self.context
        return StateDocument(
            alias=context.alias,
            owner=context.owner,
            source=context.source(look.table.uuid),
            document_spec=look.documents.hash,
            updated_at=instant(),
        )

    def _is_export(self, step: Step) -> bool:
        if step.intent is not None:
            return step.intent.kind is IntentKind.EXPORT
        return step.kind in (StepKind.EXPORT, StepKind.BEGIN)

    def _spec_change(
        self, state: StateDocument | None, documents: DocumentSpec, *, intact: bool
    ) -> tuple[str | None, tuple[str, ...]]:
        """Why documents would differ, and which fields are merely new."""
        at_work = (state.intent or state) if state else None
        if state is None or at_work is None or at_work.index is None or not intact:
            return None, ()
        if state.intent is None and state.document_spec == documents.hash:
            return None, ()
        meta = indices.read_mapping(self.context.client, at_work.index).get("_meta", {})
        if "documentSpec" not in meta:
            raise StateCorrupt(
                f"Index {at_work.index} no longer says in its mapping's _meta what its documents "
                f"were made of. Delete the document {state.alias!r} in icdc-state to force a "
                "re-export."
            )
        compatibility = documents.compare_with_stored(meta["documentSpec"])
        return compatibility.reason, compatibility.added

    def _settle(self, look: Look) -> None:
        """Nothing is to be written: says so, and keeps the applied snapshot from expiring."""
        done = look.step.kind is StepKind.COMPLETE
        state = TableState.COMPLETE if done else TableState.STREAMING
        self.context.reporter.working(state)
        if look.stored and look.stored.document.applied and not done:
            pins.pin(self.context, look.table, look.stored.document.applied.snapshot_id)

    def _report(self, look: Look) -> None:
        reporter, head = self.context.reporter, look.head
        reporter.set(table_uuid=look.table.uuid, current_snapshot_id=str(head.id) if head else None)
        state = look.stored.document if look.stored else None
        if state is None:
            return
        applied = state.applied
        reporter.set(
            rows_upserted=state.totals.upserted,
            rows_deleted=state.totals.deleted,
            dead_letters=state.totals.dead_letters,
            duplicates=_duplicates(state),
            **_lag(look, applied.snapshot_id if applied else None, exported=applied is not None),
        )
        if applied is not None:
            reporter.set(
                applied_snapshot_id=applied.snapshot_id,
                applied_sequence_number=applied.sequence_number,
                applied_at=state.updated_at,
            )


def _duplicates(state: StateDocument) -> Duplicates | None:
    if state.duplicates is None:
        return None
    return Duplicates(count=state.duplicates.count, samples=tuple(state.duplicates.samples))


def _lag(look: Look, applied: str | None, *, exported: bool) -> dict[str, int | None]:
    """How far the index is behind: in snapshots, and in seconds since the oldest unapplied one."""
    if look.head is None or not exported:
        return {"snapshots_behind": None, "lag_seconds": None}
    if applied == str(look.head.id):
        return {"snapshots_behind": 0, "lag_seconds": 0}
    chain = look.table.snapshots_between(int(applied) if applied else None, look.head.id)
    if not chain:
        # Rolled back, or the way is no longer retained: behind by one difference.
        chain = [look.head]
    seconds = utc_now() - chain[0].committed_at
    return {
        "snapshots_behind": len(chain),
        "lag_seconds": max(0, int(seconds.total_seconds())),
    }
