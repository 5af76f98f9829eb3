"""Observes one table: the table, its state document and its index as they are now.

`icdc plan` and `icdc verify` observe as a run does, so nothing here may write: a run claims the
state document before it observes, and acts afterwards (`icdc_spark.replication.table_run`).

Example, an index that is one commit behind:

    table       current snapshot 78, retained 70 … 78
    document    applied 77, no intent, document spec "abc"
    index       the one that the document names, with all its writes
    spec        makes documents of "abc", so nothing differs
    step        Changelog from 77 to 78
"""

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from icdc_api.errors import (
    FilterInvalid,
    SourceUnavailable,
    StateCorrupt,
    TargetReadOnly,
    TargetUnavailable,
)
from icdc_api.job.modes import RunMode
from icdc_api.spec.pipeline import Mode
from icdc_spark.diff.change_plan import choose_planner
from icdc_spark.diff.rows import check_filter
from icdc_spark.documents.compatibility import SAME, Compatibility
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.wishes import describe_renamed
from icdc_spark.iceberg.table.cached_table import CachedTable
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo
from icdc_spark.opensearch.stores import identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol import next_step
from icdc_spark.protocol.export_wait import choose_meanwhile
from icdc_spark.protocol.steps import Step, StepInputs, StepKind
from icdc_spark.readers.choose import open_reader
from icdc_spark.replication import batches
from icdc_spark.replication.checks import index_check, rollback_check
from icdc_spark.replication.checks.document_resolver import DocumentResolver
from icdc_spark.replication.checks.index_check import IndexCheck
from icdc_spark.replication.checks.spec_check import PresentDocuments, compare_spec
from icdc_spark.replication.checks.stream_start import find_stream_start
from icdc_spark.replication.context import TableContext


@dataclass(frozen=True, kw_only=True)
class TableObservation:
    """One table at one moment, and the step that follows."""

    table: IcebergTable
    """The table's metadata."""
    current: SnapshotInfo | None
    """The current snapshot of the followed branch; None while the table is empty."""
    documents: DocumentSpec
    """The documents of the current snapshot's schema, under the present spec."""
    stored: Stored | None
    """The state document; None if the table was never exported."""
    step: Step
    """What is to be done next."""
    meanwhile: Step
    """What is to be done instead while no export may write."""
    index: IndexCheck
    """How the index compares with the state document."""
    compatibility: Compatibility = SAME
    """How the documents already written compare with those of the present spec."""


class TableObserver:
    """Observe one table of one run, again and again; for one thread at a time.

    It has a session of the table open until `close`.
    """

    def __init__(self, context: TableContext) -> None:
        self.context = context
        self._opened = context.open_session()
        self._resolver = DocumentResolver(context, self.session)
        self._found: dict[Hashable, bool] = {}
        # Between two observations it keeps the metadata that has not changed.
        self._table = CachedTable(self.session, context.catalog, context.table.name)

    @property
    def session(self) -> SparkSession:
        """The table's session; SessionClosedError after `close`."""
        return self._opened.spark

    def close(self) -> None:
        """Close the table and its session; nothing can be observed any more."""
        # Where it takes too long, the others do not wait for it, as for any call of a catalog.
        with suppress(SourceUnavailable), self.context.catalog_call():
            self._table.close()
            self._opened.close()

    def load_state(self) -> Stored | None:
        """Return the state document as it is, unclaimed; None if there is none."""
        return self.context.store.load(self.context.alias)

    def observe(self, stored: Stored | None, *, compare_index: bool = True) -> TableObservation:
        """Read table and index, and decide the next step from them and `stored`.

        Without `compare_index` the index counts as the one that was recorded; it saves a request.
        Gap, IncompatibleSchema or TargetInvalid where a person must decide; SourceUnavailable or
        TargetUnavailable where something does not answer, or answers with an older state.
        """
        table, current, documents = self.read_table()
        state, policies = stored.document if stored else None, self.context.build_policies()
        present = self._build_present(table, current, documents)
        index, compatibility = IndexCheck(loss=None), SAME
        try:
            if compare_index:
                index = index_check.compare_with_index(self.context, stored)
            compatibility = compare_spec(self.context, state, index, present)
        except (StateCorrupt, TargetReadOnly, TargetUnavailable) as error:
            # What is asked for is how a person answers, and builds on nothing of it.
            if state is None or not (policies.owe_reexport(state) or policies.owe_rollback(state)):
                raise
            index = IndexCheck(loss=f"the index cannot be read ({error.message})")
        is_trusted, refusal = True, None
        if stored and compare_index and policies.owe_rollback(stored.document):
            is_trusted, refusal = self._check_rollback(stored, present)
        begins = not (state and (state.applied or state.intent)) and not index.loss
        inputs = StepInputs(
            state=state,
            table=self.context.table.name,
            table_uuid=table.uuid,
            head=str(current.id) if current else None,
            last_sequence_number=table.last_sequence_number,
            start=find_stream_start(table, current, self.context.table) if begins else None,
            document_spec=documents.hash,
            spec_change=compatibility.reason,
            readable=frozenset(str(snapshot_id) for snapshot_id in table.snapshots),
            index_loss=index.loss,
            is_trusted=is_trusted,
            rollback_refusal=refusal,
        )
        step = next_step.choose_step(inputs, policies)
        return TableObservation(
            table=table,
            current=current,
            documents=documents,
            stored=stored,
            step=step,
            meanwhile=choose_meanwhile(step, inputs, policies),
            index=index,
            compatibility=compatibility,
        )

    def read_table(self) -> tuple[IcebergTable, SnapshotInfo | None, DocumentSpec]:
        """Return the table, its current snapshot if it has one, and the documents of its rows.

        The catalog alone is asked. BranchNotFound, ColumnNotFound, UnsupportedType or NoIdentifier
        where the spec does not fit the table.
        """
        with self.context.catalog_call():
            table = self._table.load()
        current = table.find_current_snapshot(self.context.table.branch)
        schema = table.read_schema(current.id if current else None)
        documents = self._resolver.resolve_at(
            table,
            schema,
            schema,
            "The table's newest schema fits, and takes effect with the next snapshot: give the "
            "earlier names until then",
        )
        return table, current, documents

    def choose_cheaper(self, observation: TableObservation) -> TableObservation:
        """Return the observation, with an export as its step if the spec prefers one to changes.

        Not after a rollback, which it would undo, before its changes are applied again.
        """
        context, step = self.context, observation.step
        above = context.spec.changelog.rebuild_above
        # StreamOnly wants no rows from before its start, which an export would write.
        is_followed = context.spec.mode is Mode.EXPORT_AND_STREAM
        if not above or not is_followed or step.kind is not StepKind.CHANGELOG:
            return observation
        # What follows an empty table is all new: an export would write the same.
        if step.from_id is None or step.to_id is None:
            return observation
        if observation.stored is None or observation.stored.document.is_rolled_back:
            return observation
        reason = batches.find_reason_to_rebuild(
            observation.table,
            int(step.from_id),
            int(step.to_id),
            above=above,
            plan=choose_planner(observation.documents),
            note_progress=context.note_progress,
        )
        if reason is None:
            return observation
        export = Step(kind=StepKind.EXPORT, to_id=step.to_id, reason=reason)
        return replace(observation, step=export)

    def resolve_documents_at(
        self, observation: TableObservation, snapshot_id: str | None
    ) -> DocumentSpec:
        """Return the documents in the schema of a snapshot; None stands for the current one.

        FieldInvalid or ColumnNotFound where a column had another name then.
        """
        current = observation.current
        if current is None or snapshot_id is None or snapshot_id == str(current.id):
            return observation.documents
        # An older snapshot may have an older schema.
        table = observation.table
        return self._resolver.resolve_at(
            table,
            table.read_schema(int(snapshot_id)),
            table.read_schema(current.id),
            f"So it was at snapshot {snapshot_id}, which has to be read first: let a run follow "
            "the table to its current snapshot, or raise spec.resync.nonce",
        )

    def check_filter(
        self, table: IcebergTable, snapshot_id: str | None, documents: DocumentSpec
    ) -> None:
        """Raise FilterInvalid before anything is created that only a valid filter could fill."""
        if documents.row_filter is None or snapshot_id is None:
            return
        with open_reader(self.session, table, int(snapshot_id), documents) as reader:
            try:
                check_filter(reader, documents)
            except FilterInvalid as error:
                renamed = self._resolver.find_renamed(table, table.read_schema(int(snapshot_id)))
                hint = describe_renamed(renamed, documents.row_filter)
                raise FilterInvalid(f"{error.message}{hint}") from error

    def _build_present(
        self, table: IcebergTable, current: SnapshotInfo | None, documents: DocumentSpec
    ) -> PresentDocuments:
        is_plan = self.context.request.mode is RunMode.PLAN
        return PresentDocuments(self.session, table, current, documents, not is_plan, self._found)

    def _check_rollback(self, stored: Stored, present: PresentDocuments) -> tuple[bool, str | None]:
        """Return whether the document is trusted, and why there can be no rollback, as a clause."""
        if not index_check.is_trusted(stored, identity.read_store_history(self.context.client)):
            return False, None
        return True, rollback_check.find_refusal(self.context, stored.document, present.compare)
