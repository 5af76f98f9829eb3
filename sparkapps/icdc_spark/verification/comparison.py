"""Compares an index with its table at the applied snapshot, document by document.

Rows and documents are reduced to (id, routing, digest of the canonical document) and joined once;
the driver reads counts and samples only. Repair writes the snapshot's documents for the ids that
differ, as a batch of its own.

Example, applied snapshot 77:

    row of the table     document of the index     kind
    1 {"a": "x"}         1 {"a": "x"}              equal
    2 {"a": "y"}         2 {"a": "z"}              different: somebody edited the document
    3 {"a": "x"}         -                         missing
    -                    4 {"a": "x"}              extra
    5 {"a": "x"}         -, and a dead letter      refused: no difference, counted apart

Another run may be writing meanwhile, so documents are read at a moment whose state is known, see
`moment`. What may be a part of a batch that is under way is never called a difference.

An append-only table is compared by content: a compaction moves a row to another file, and so to
another id, without changing it. `pairing` says how.

An index of mode StreamOnly has no documents for rows that did not change since its start, and no
record says which rows those are. There each document is compared with its row, and a row without
a document is no difference.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.errors import Gap
from icdc_api.job.answers import (
    BATCH_UNDER_WAY,
    DIFFERENCE_KINDS,
    ComparisonEntry,
    Differences,
)
from icdc_api.spec.pipeline import Mode
from icdc_spark.diff.rows import check_filter
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.matching import differences
from icdc_spark.matching.differences import EQUAL, KIND, MISSING, REFUSED
from icdc_spark.opensearch.stores import identity
from icdc_spark.opensearch.stores.creation import check_settings
from icdc_spark.opensearch.stores.view import require_whole_view
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.steps import StepKind
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.parallelism import count_tasks
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.changelog import Batch
from icdc_spark.replication.checks.alias_check import check_alias, keep_alias
from icdc_spark.replication.checks.table_observation import TableObservation, TableObserver
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import TableRun
from icdc_spark.verification.moment import (
    IndexMoment,
    NotSettledError,
    describes_same,
    open_moment,
    require_exported,
)
from icdc_spark.verification.rewriting import write_again

SAMPLES = 20
STREAMED_ONLY = (
    "the mode is StreamOnly: every document was compared with its row; a row without a document "
    "counts as unchanged since the start"
)
NOT_SETTLED = "not settled: the pipeline wrote meanwhile"


@dataclass(frozen=True, kw_only=True)
class _Compared:
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


def verify(context: TableContext, observer: TableObserver, *, repair: bool) -> ComparisonEntry:
    """Return whether they are equal, else counts and up to 20 ids of each kind of difference.

    Gap where the table was never exported, or the index is not the one that was recorded;
    TargetInvalid where readers do not see that index.
    """
    stored = require_exported(context, observer.load_state())
    observation = observer.observe(stored)
    anew = _find_export(observation)
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
        slices=count_tasks(observer.session),
    )
    try:
        with moment_opened as moment:
            if not describes_same(stored.document, moment.stored.document):
                # Of before the moment: it may lack the snapshot that was applied since.
                observation = observer.observe(moment.stored, compare_index=False)
            compared = _Compared(observer=observer, observation=observation, moment=moment)
            return _verify(compared, repair=repair)
    except NotSettledError:
        return {"equal": None, "reason": BATCH_UNDER_WAY, "message": f"{NOT_SETTLED}; ask again"}


def _verify(compared: _Compared, *, repair: bool) -> ComparisonEntry:
    context, moment = compared.context, compared.moment
    entry = _begin_entry(compared)
    if compared.snapshot_id is None:
        return entry | _compare_with_empty_table(context, moment)
    spec = compared.resolve(compared.snapshot_id)
    with compared.open_reader(compared.snapshot_id, spec) as reader:
        check_filter(reader, spec)
        kinds = _find_kinds(compared, reader, spec)
        entry |= _summarise(reader, kinds)
        if entry["equal"]:
            return entry
        if moment.batch is not None:
            return _withdraw_differences(context, entry)
        # Another batch may be open, of an export, which is repeated before anything is written.
        if repair and compared.state.intent is None:
            session, table = compared.observer.session, compared.observation.table
            work = Batch(context=context, session=session, table=table, documents=spec)
            differing = kinds.where(F.col(KIND).isin(*DIFFERENCE_KINDS))
            strays = differences.select_strays(differing, spec)
            entry["repaired"] = write_again(work, reader, moment.stored, differing, strays)
    return entry


def _find_export(observation: TableObservation) -> str | None:
    """Return why the next run exports the table anew; None if it does not."""
    step = observation.step
    return step.reason if step.kind is StepKind.EXPORT else None


def _begin_entry(compared: _Compared) -> ComparisonEntry:
    """Return the part of the entry that is known before anything is compared."""
    context, anew = compared.context, _find_export(compared.observation)
    entry: ComparisonEntry = {
        "snapshotId": compared.snapshot_id,
        "documents": compared.moment.documents,
        "repaired": None,
    }
    if compared.state.intent is not None:
        # An export writes another index: what differs in this one is a difference all the same.
        if compared.moment.batch is not None:
            entry["underWay"] = True
        entry["message"] = explain_under_way(context)
    elif anew:
        entry["message"] = f"the next run exports the table anew ({anew})"
    elif _is_streamed_only(context):
        entry["message"] = STREAMED_ONLY
    return entry


def _withdraw_differences(context: TableContext, entry: ComparisonEntry) -> ComparisonEntry:
    """Return `entry` without differences that an open batch, or the one after it, may explain."""
    parts = [entry.pop(kind, None) for kind in DIFFERENCE_KINDS]
    left = sum(part["count"] for part in parts if part is not None)
    message = f"{NOT_SETTLED} ({left} documents); {explain_under_way(context)}"
    return entry | {"equal": None, "reason": BATCH_UNDER_WAY, "message": message}


def _is_streamed_only(context: TableContext) -> bool:
    return context.spec.mode is Mode.STREAM_ONLY


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


def finish_batch(run: TableRun) -> None:
    """Repeat the open batch, if there is one, and apply nothing newer."""
    stored = run.observer.load_state()
    if stored is not None and stored.document.intent is not None:
        run.advance()


def _compare_with_empty_table(context: TableContext, moment: IndexMoment) -> ComparisonEntry:
    """Return the entry of a table that had no snapshot yet: its index must be empty."""
    none: Differences = {"count": 0, "samples": []}
    entry: ComparisonEntry = {
        "rows": 0,
        "equal": moment.documents == 0,
        "missing": none,
        "extra": {"count": moment.documents, "samples": []},
        "different": none,
        "refused": 0,
    }
    if moment.batch is not None and not entry["equal"]:
        return _withdraw_differences(context, entry)
    return entry


def _find_kinds(compared: _Compared, reader: SnapshotReader, spec: DocumentSpec) -> DataFrame:
    """Return one row per id of table or index, with its `kind`, persisted."""
    state, moment = compared.state, compared.moment
    # Before the table, which may take hours: the scan expires where nobody asks for more.
    index = differences.read_index(reader, moment.scan, spec)
    table = differences.read_table(reader, spec, has_duplicates=state.duplicates is not None)
    kinds = differences.compare(table, index, spec)
    to = moment.batch.to if moment.batch is not None else None
    # Where the batch ends at no snapshot, or at one that was expired, nothing more is known.
    if to is not None and int(to) in compared.observation.table.snapshots:
        kinds = _compare_with_end_of_batch(compared, to, reader, kinds, index)
    kinds = differences.mark_refused(reader, kinds, moment.refused_ids)
    if _is_streamed_only(compared.context):
        kinds = kinds.where(F.col(KIND) != MISSING)
    # Read up to five times, for counts, samples and the repair.
    return reader.persist(kinds)


def _compare_with_end_of_batch(
    compared: _Compared, to: str, reader: SnapshotReader, kinds: DataFrame, index: DataFrame
) -> DataFrame:
    """Return `kinds`, in which what differs was compared with the snapshot that is being applied.

    Computed before the reader of that snapshot closes.
    """
    spec = compared.resolve(to)
    with compared.open_reader(to, spec) as later, translate_source_errors(reader.table_name):
        kinds = reader.persist(kinds)
        if kinds.where(F.col(KIND) != EQUAL).isEmpty():
            return kinds
        again = reader.persist(differences.compare_again(later, kinds, index, spec))
        # Frames are lazy: only an action reads.
        again.count()
    return again


def _summarise(reader: SnapshotReader, kinds: DataFrame) -> ComparisonEntry:
    """Return the part of the entry that says what differs: counts, and samples in order."""
    counts = differences.count_kinds(reader, kinds)
    entry: ComparisonEntry = {
        "rows": sum(count for kind, count in counts.items() if kind != "extra"),
        "equal": not any(counts.get(kind) for kind in DIFFERENCE_KINDS),
        "refused": counts.get(REFUSED, 0),
    }
    for kind in DIFFERENCE_KINDS:
        count = counts.get(kind, 0)
        samples = differences.list_samples(reader, kinds, kind, SAMPLES) if count else []
        entry[kind] = {"count": count, "samples": samples}
    return entry


def explain_under_way(context: TableContext) -> str:
    """Return what somebody who asks has to do about an open batch."""
    finish = "the run finishes it" if context.request.continuous else "run the pipeline"
    return f"a batch is under way: {finish}, then ask again"
