"""Opens a table and its index for a comparison: at one moment, after what is cheap to check.

It must not know how rows and documents are compared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from icdc_api.errors import Gap
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.opensearch.stores import identity
from icdc_spark.opensearch.stores.creation import check_settings
from icdc_spark.opensearch.stores.view import require_whole_view
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.steps import StepKind
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.checks.alias_check import check_alias, keep_alias
from icdc_spark.replication.checks.table_observation import TableObservation, TableObserver
from icdc_spark.replication.context import TableContext
from icdc_spark.verification.moment import (
    IndexMoment,
    describes_same,
    open_moment,
    require_exported,
)


@dataclass(frozen=True, kw_only=True)
class TableAndIndex:
    """A table and its index at one moment."""

    observer: TableObserver
    """The table's session and metadata."""
    observation: TableObservation
    """The table at that moment or later."""
    moment: IndexMoment
    """The index."""

    @property
    def context(self) -> TableContext:
        """The table in its run."""
        return self.observer.context

    @property
    def state(self) -> StateDocument:
        """The state document at that moment."""
        return self.moment.stored.document

    @property
    def snapshot_id(self) -> str | None:
        """The applied snapshot; None of a table without any."""
        return self.state.applied.snapshot_id if self.state.applied else None

    def resolve(self, snapshot_id: str) -> DocumentSpec:
        """Return the documents in the schema of a snapshot."""
        return self.observer.resolve_documents_at(self.observation, snapshot_id)

    def open_reader(self, snapshot_id: str, spec: DocumentSpec) -> SnapshotReader:
        """Return a reader of a snapshot."""
        session, table = self.observer.session, self.observation.table
        return open_reader(session, table, int(snapshot_id), spec)


@contextmanager
def open_table_and_index(
    context: TableContext, observer: TableObserver, *, repair: bool
) -> Iterator[TableAndIndex]:
    """Open table and index at one moment; close the index at the end.

    Gap where the table was never exported, the index is not the one that was recorded, or a repair
    would be undone by the next export; TargetInvalid where readers do not see that index.
    NotSettledError where the pipeline writes all the time.
    """
    stored = require_exported(context, observer.load_state())
    observation = observer.observe(stored)
    anew = find_export(observation)
    # The export writes every document, and until then nobody knows what the index holds.
    if repair and anew:
        raise Gap(
            f"Table {context.table.name}: nothing is repaired, because the next run exports the "
            f"table anew ({anew})."
        )
    moment_opened = open_moment(
        context,
        observer.load_state,
        lambda state: _check_index(context, state, repair=repair),
    )
    with moment_opened as moment:
        if not describes_same(stored.document, moment.stored.document):
            # Of before the moment: it may lack the snapshot that was applied since.
            observation = observer.observe(moment.stored, compare_index=False)
        yield TableAndIndex(observer=observer, observation=observation, moment=moment)


def find_export(observation: TableObservation) -> str | None:
    """Return why the next run exports the table anew; None if it does not."""
    step = observation.step
    return step.reason if step.kind is StepKind.EXPORT else None


def _check_index(context: TableContext, state: StateDocument, *, repair: bool) -> None:
    """Check what documents do not show: whose index it is, who reads it, and its settings."""
    index, uuid = state.index or "", state.index_uuid or ""
    # First: what another index holds, or who reads it, would say nothing about this one.
    identity.check_identity(context.client, index, uuid, state.shards)
    if repair:
        keep_alias(context, state)
    else:
        check_alias(context, state)
    check_settings(context.client, index)
    # What is hidden would count as missing, and be written again.
    require_whole_view(context.client.connection, index)
