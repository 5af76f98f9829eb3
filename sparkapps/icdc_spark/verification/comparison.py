"""Compares an index with its table at the applied snapshot, document by document.

First sums over the bytes of rows and documents are compared (`matching.buckets`): nearly always
they prove all equal, for a part of what it costs to look at each. Rows and documents of the buckets
that differ are reduced to (id, routing, digest of the canonical document) and joined once; the
driver reads counts and samples only. A document that an earlier version wrote, or whose fields had
another order, is equal all the same. Repair writes the snapshot's documents for the ids that
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

from icdc_api.job.answers import (
    BATCH_UNDER_WAY,
    DIFFERENCE_KINDS,
    ComparisonEntry,
)
from icdc_api.spec.pipeline import Mode
from icdc_spark.diff.rows import check_filter
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.matching import differences
from icdc_spark.matching.buckets import NOTHING, Buckets, ProvenBuckets
from icdc_spark.matching.differences import EQUAL, KIND, MISSING
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication import pins
from icdc_spark.replication.changelog import Batch
from icdc_spark.replication.checks.table_observation import TableObserver
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import TableRun
from icdc_spark.verification import entries
from icdc_spark.verification.entries import NOT_SETTLED
from icdc_spark.verification.moment import (
    NotSettledError,
    describes_same,
)
from icdc_spark.verification.rewriting import write_again
from icdc_spark.verification.table_and_index import TableAndIndex, find_export, open_table_and_index


@dataclass(frozen=True, kw_only=True)
class _Proven:
    """What the bytes of a table and its index prove, at one moment."""

    entry: ComparisonEntry
    """The entry of the table, if all are equal."""
    proof: ProvenBuckets
    """What is equal."""
    state: StateDocument
    """The state document at that moment."""


def verify(context: TableContext, observer: TableObserver, *, repair: bool) -> ComparisonEntry:
    """Return whether they are equal, else counts and up to 20 ids of each kind of difference.

    Gap where the table was never exported, or the index is not the one that was recorded;
    TargetInvalid where readers do not see that index.
    """
    try:
        with open_table_and_index(context, observer, repair=repair) as both:
            proven = _prove(both)
            if proven is None:
                return _verify(both, None, repair=repair)
        if proven.entry["equal"]:
            return proven.entry
        with open_table_and_index(context, observer, repair=repair) as both:
            # Where a batch was applied since, what was equal need not be any more.
            holds = describes_same(proven.state, both.state)
            return _verify(both, proven.proof if holds else None, repair=repair)
    except NotSettledError:
        return {"equal": None, "reason": BATCH_UNDER_WAY, "message": f"{NOT_SETTLED}; ask again"}


def _prove(both: TableAndIndex) -> _Proven | None:
    """Return what the bytes prove; None where they prove nothing."""
    if both.snapshot_id is None or entries.is_streamed_only(both.context):
        return None
    spec = both.resolve(both.snapshot_id)
    if spec.added is not None:
        # OpenSearch writes documents anew, with what it adds.
        return None
    with both.open_reader(both.snapshot_id, spec) as reader:
        check_filter(reader, spec)
        proof = differences.prove(
            reader,
            both.moment.scan,
            spec,
            has_duplicates=both.state.duplicates is not None,
            refused_ids=both.moment.refused_ids,
            by_content=spec.append_only,
        )
    entry = entries.begin_entry(both.context, both.moment, find_export(both.observation))
    entry |= entries.count_equal(proof.others) | {"equal": proof.is_equal}
    return _Proven(entry=entry, proof=proof, state=both.state)


def _verify(both: TableAndIndex, proof: ProvenBuckets | None, *, repair: bool) -> ComparisonEntry:
    context, moment = both.context, both.moment
    entry = entries.begin_entry(context, moment, find_export(both.observation))
    if both.snapshot_id is None:
        entry |= entries.count_documents_of_no_table(moment)
        is_settled = entry["equal"] or moment.batch is None
        return entry if is_settled else entries.withdraw_differences(context, entry)
    spec = both.resolve(both.snapshot_id)
    with both.open_reader(both.snapshot_id, spec) as reader:
        check_filter(reader, spec)
        kinds = _find_kinds(both, reader, spec, proof.differing if proof else None)
        entry |= entries.summarise(reader, kinds, proof.others if proof else NOTHING)
        if entry["equal"]:
            return entry
        if moment.batch is not None:
            return entries.withdraw_differences(context, entry)
        # Another batch may be open, of an export, which is repeated before anything is written.
        if repair and both.state.intent is None:
            session, table = both.observer.session, both.observation.table
            work = Batch(context=context, session=session, table=table, documents=spec)
            differing = kinds.where(F.col(KIND).isin(*DIFFERENCE_KINDS))
            strays = differences.select_strays(differing, spec)
            entry["repaired"] = write_again(work, reader, moment.stored, differing, strays)
    return entry


def finish_batch(run: TableRun) -> None:
    """Repeat the open batch, if there is one, and apply nothing newer."""
    stored = run.observer.load_state()
    if stored is not None and stored.document.intent is not None:
        run.advance()


def renew_tag(run: TableRun) -> None:
    """Keep the snapshot of a complete table for the next comparison, in mode ExportOnly.

    No other run comes to such a table, so the tag that its export has set would expire.
    """
    context, stored = run.context, run.observer.load_state()
    # While an export is open, its own tag must stay.
    if context.spec.mode is not Mode.EXPORT_ONLY or stored is None or stored.document.intent:
        return
    applied = stored.document.applied
    if applied is not None:
        pins.pin(context, run.observer.read_table()[0], applied.snapshot_id)


def _find_kinds(
    both: TableAndIndex, reader: SnapshotReader, spec: DocumentSpec, within: Buckets | None
) -> DataFrame:
    """Return one row per id of table or index, with its `kind`, persisted.

    Of those in the buckets `within` alone, where they are given.
    """
    state, moment = both.state, both.moment
    # Before the table, which may take hours: the scan expires where nobody asks for more.
    has_duplicates = state.duplicates is not None
    index = differences.read_index(reader, moment.scan, spec, within)
    table = differences.read_table(reader, spec, within, has_duplicates=has_duplicates)
    kinds = differences.compare(table, index, spec)
    to = moment.batch.to if moment.batch is not None else None
    # Where the batch ends at no snapshot, or at one that was expired, nothing more is known.
    if to is not None and int(to) in both.observation.table.snapshots:
        kinds = _compare_with_end_of_batch(both, to, reader, kinds, index)
    kinds = differences.mark_refused(reader, kinds, moment.refused_ids)
    if entries.is_streamed_only(both.context):
        kinds = kinds.where(F.col(KIND) != MISSING)
    # Read up to five times, for counts, samples and the repair.
    return reader.persist(kinds)


def _compare_with_end_of_batch(
    both: TableAndIndex, to: str, reader: SnapshotReader, kinds: DataFrame, index: DataFrame
) -> DataFrame:
    """Return `kinds`, in which what differs was compared with the snapshot that is being applied.

    Computed before the reader of that snapshot closes.
    """
    spec = both.resolve(to)
    with both.open_reader(to, spec) as later, translate_source_errors(reader.table_name):
        kinds = reader.persist(kinds)
        if kinds.where(F.col(KIND) != EQUAL).isEmpty():
            return kinds
        again = reader.persist(differences.compare_again(later, kinds, index, spec))
        # Frames are lazy: only an action reads.
        again.count()
    return again
