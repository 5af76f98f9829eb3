"""Advances one table of one run by one step at a time.

The order within a step is fixed, and each line of it has a reason:

    1. claim      the state document: older runs are fenced, and their requests waited for; a
                  rollback that was only stored is finished
    2. observe    table, index and document, which decide the step
    3. choose     an export in place of changes, if the spec says that it is cheaper
    4. check      that readers use the index, and record the shards of an upgraded one
    5. limit      a batch to the bytes that one batch may read
    6. settle     and end here if there is nothing to write
    7. execute    an export or a changelog batch, which record their own intent
    8. report     what is applied now

The next step begins at 2 with the document that 7 left, unless 7 failed: then at 1. It must know
neither the other tables nor how the run was started.
"""

import logging
from dataclasses import replace

from icdc_api.errors import Fenced, TargetUnavailable
from icdc_api.status.pipeline_status import TableState
from icdc_api.status.table_parts import GAP_CAUSE
from icdc_spark.diff.change_plan import choose_planner
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.stores import aliases, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import IntentKind, StateDocument
from icdc_spark.protocol.steps import Step, StepKind
from icdc_spark.replication import batches, changelog, export, export_swap, pins, progress
from icdc_spark.replication.applied import format_instant
from icdc_spark.replication.checks import alias_check, index_check, node_check
from icdc_spark.replication.checks.table_observation import TableObservation, TableObserver
from icdc_spark.replication.context import TableContext

LOG = logging.getLogger(__name__)


class TableRun:
    """Repeat `advance` until it returns Idle or Complete; for one thread at a time.

    Its observer has a session of the table open until `close`.
    """

    def __init__(self, context: TableContext) -> None:
        self.context = context
        self.observer = TableObserver(context)
        # The claimed state document; None where it must be claimed (again) first.
        self._stored: Stored | None = None

    def close(self) -> None:
        """Close what was opened of the table; a further step raises SessionClosedError."""
        self.observer.close()

    def advance(self) -> StepKind:
        """Do the next step and return its kind. TableError, PassingError or Fenced if it fails."""
        observation = self._observe_claimed()
        if not self.context.may_export():
            observation = replace(observation, step=observation.meanwhile)
        else:
            observation = self.observer.choose_cheaper(observation)
        self.context.reporter.set(export_waits=observation.step.export_waits or None)
        # Before the step, which may take an hour.
        progress.report_observation(self.context.reporter, observation)
        if observation.step.kind is StepKind.WAIT:
            self._report_wait()
            return StepKind.WAIT
        if observation.step.kind is StepKind.ROLLBACK:
            return self._roll_back(observation)
        if not _is_export(observation.step):
            # An export moves the alias itself, to an index whose shards it records.
            observation = self._check_index(observation)
        observation = replace(observation, step=self._limit(observation))
        if observation.step.kind in (StepKind.IDLE, StepKind.COMPLETE):
            self._settle(observation)
            return observation.step.kind
        # A batch may end before the current snapshot, at an older schema.
        documents = self.observer.resolve_documents_at(observation, observation.step.to_id)
        self.observer.check_filter(observation.table, observation.step.to_id, documents)
        stored = observation.stored
        if stored is None:
            observation, stored = self._create_state(observation)
        # If the step dies half-way the document must be read again, not remembered.
        self._stored = None
        self._stored = self._execute(observation, documents, stored)
        if self._stored is not None:
            # Only for the report: the index was compared when the step ended, and is compared
            # again before the next one.
            after = self.observer.observe(self._stored, compare_index=False)
            progress.report_observation(self.context.reporter, after)
        return observation.step.kind

    def _observe_claimed(self) -> TableObservation:
        was_claimed = self._stored is not None
        self._stored = self._stored or self._claim() or self._record_forgotten()
        if self._stored is not None:
            # Before the step is decided: what it records is what decides.
            self._stored = node_check.reconsider(self.context, self._stored)
        observation = self.observer.observe(self._stored)
        if observation.index.identity is not None:
            self.context.nodes.see(observation.index.identity)
        if was_claimed and observation.index.store_changed:
            # A passing error: the next attempt claims the document that exists now.
            raise TargetUnavailable(
                "The index icdc-state was restored or created again. Its document is read again."
            )
        return observation

    def _claim(self) -> Stored | None:
        """Claim the state document, and wait until no request of an older run can arrive."""
        context = self.context
        stored = self.observer.load_state()
        if stored is None:
            return None
        claimed = stored.document.claim(context.owner, now=format_instant())
        stored = context.store.replace(stored, claimed)
        # Not before the claim: an older run goes on until it finds that it lost the document.
        context.outwait_older_runs(stored.document)
        export_swap.repeat_rollback(context, stored.document)
        return node_check.take_over(context, stored)

    def _record_forgotten(self) -> Stored | None:
        """Store that the document of an index of ours is gone, if it is (StreamOnly).

        What is asked for afterwards answers that. Of an earlier request nobody knows any more
        whether it was honoured, so it is not made again.
        """
        context = self.context
        lost, policies = index_check.find_forgotten(context), context.build_policies()
        if lost is None:
            return None
        context.outwait_older_runs(None)
        table, _, documents = self.observer.read_table()
        now = format_instant()
        document = self._build_state(table, documents).with_fault(lost, now=now)
        if not policies.is_new:
            document = document.with_resync(policies.resync_nonce, policies.resync_id, now=now)
        return context.store.create(document)

    def _check_index(self, observation: TableObservation) -> TableObservation:
        stored = observation.stored
        if stored is None:
            return observation
        alias_check.keep_alias(self.context, stored.document)
        self._stored = index_check.record_shards(self.context, stored, observation.index)
        return replace(observation, stored=self._stored)

    def _limit(self, observation: TableObservation) -> Step:
        """Return the step, up to an earlier snapshot if it is a batch that reads too much."""
        step, context = observation.step, self.context
        if step.kind is not StepKind.CHANGELOG or step.to_id is None:
            return step
        end = batches.find_end_of_batch(
            observation.table,
            int(step.from_id) if step.from_id else None,
            int(step.to_id),
            max_bytes=context.spec.changelog.max_bytes_per_batch,
            plan=choose_planner(observation.documents),
            documents_at=lambda number: self.observer.resolve_documents_at(
                observation, str(number)
            ),
            note_progress=context.note_progress,
        )
        return replace(step, to_id=str(end))

    def _roll_back(self, observation: TableObservation) -> StepKind:
        """Switch readers back, whatever the alias points to now."""
        stored, self._stored = observation.stored, None
        if stored is not None:
            table, served = observation.table, observation.index
            self._stored = export_swap.roll_back(
                self.context, table, stored, observation.step, served
            )
        return StepKind.ROLLBACK

    def _settle(self, observation: TableObservation) -> None:
        """Report that nothing is to be written, and keep the applied snapshot from expiring.

        Where the spec asks for fewer older indices than before, the others are deleted.
        """
        is_complete = observation.step.kind is StepKind.COMPLETE
        state = TableState.COMPLETE if is_complete else TableState.STREAMING
        self.context.reporter.mark_working(state)
        stored, limit = observation.stored, self.context.opensearch.retained_indices
        if stored is not None and stored.document.list_surplus(limit):
            self._stored = export_swap.delete_surplus(self.context, stored)
        applied = stored.document.applied if stored else None
        # A complete table is never read again from there on.
        if applied is not None and not is_complete:
            pins.pin(self.context, observation.table, applied.snapshot_id)

    def _report_wait(self) -> None:
        window = self.context.opensearch.export_window
        self.context.reporter.mark_working(TableState.EXPORTING)
        self.context.reporter.set(message=window.describe() if window else None)

    def _create_state(self, observation: TableObservation) -> tuple[TableObservation, Stored]:
        """Store the first state document; AliasTaken if the alias is somebody else's.

        Returned with the observation, whose step says if there was one before.
        """
        context = self.context
        aliases.check_free(context.client, context.ownership)
        found = indices.list_indices(context.client, context.alias)
        if found:
            # The state document was lost, and the run that had it may have a request under way.
            context.outwait_older_runs(None)
        ours = sorted(name for name, owner in found.items() if owner == context.ownership)
        if ours and observation.step.kind is StepKind.EXPORT:
            reason = f"{GAP_CAUSE}the state document of {', '.join(ours)} is gone"
            observation = replace(observation, step=replace(observation.step, reason=reason))
        document = self._build_state(observation.table, observation.documents)
        return observation, context.store.create(document)

    def _build_state(self, table: IcebergTable, documents: DocumentSpec) -> StateDocument:
        return StateDocument(
            alias=self.context.alias,
            owner=self.context.owner,
            source=self.context.build_source(table.uuid),
            document_spec=documents.hash,
            updated_at=format_instant(),
        )

    def _execute(
        self, observation: TableObservation, documents: DocumentSpec, stored: Stored
    ) -> Stored | None:
        """Do the step and return the advanced state document.

        None where the index shows that the document is an older copy: it is then read again.
        """
        context, session = self.context, self.observer.session
        step = observation.step
        if _is_export(step):
            begins = export.only_begins(step)
            is_lost = step.reason.startswith(GAP_CAUSE)
            again = step.kind is StepKind.EXPORT and (is_lost or bool(stored.document.applied))
            if again:
                LOG.info("%s is exported to a new index: %s", context.table.name, step.reason)
            context.reporter.mark_working(
                TableState.PENDING if begins else TableState.EXPORTING,
                step.reason if again else None,
            )
            work = export.ExportWork(
                context=context,
                session=session,
                table=observation.table,
                documents=documents,
                served=observation.index,
            )
            return export.run(work, stored, step)
        context.reporter.mark_working(TableState.STREAMING)
        batch = changelog.Batch(
            context=context,
            session=session,
            table=observation.table,
            documents=documents,
            compatibility=observation.compatibility,
        )
        try:
            return changelog.run(batch, stored, step)
        except Fenced as error:
            index_check.withdraw(context, error)
            return None


def _is_export(step: Step) -> bool:
    if step.intent is not None:
        return step.intent.kind is IntentKind.EXPORT
    return step.kind in (StepKind.EXPORT, StepKind.BEGIN)
