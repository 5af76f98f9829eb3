"""Compares an index with its table at the applied snapshot, document by document.

Rows and documents are reduced to (id, digest of the canonical document) in tasks and joined once;
the driver reads counts and samples only. Repair writes the snapshot's documents for the ids that
differ, as a batch of its own.

Example, applied snapshot 77:

    row of the table     document of the index     kind
    1 {"a": "x"}         1 {"a": "x"}              equal
    2 {"a": "y"}         2 {"a": "z"}              different: somebody edited the document
    3 {"a": "x"}         -                         missing
    -                    4 {"a": "x"}              extra

An append-only table is compared by content: a compaction moves a row to another file, and so to
another id, without changing it. `pairing` says how.

An index of mode StreamOnly has no documents for rows that did not change since its start, and no
record says which rows those are. There each document is compared with its row, and a row without
a document is no difference.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.errors import Gap
from icdc_api.job.answers import DIFFERENCE_KINDS, ComparisonEntry, Differences
from icdc_api.spec.pipeline import Mode
from icdc_spark.diff.export_plan import Chunk
from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.rows import ID, check_filter
from icdc_spark.diff.strategies import build_export_lines
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.jvm.errors import translate_source_errors
from icdc_spark.opensearch.client.scan import close_scan, open_scan
from icdc_spark.opensearch.stores import identity, indices
from icdc_spark.opensearch.stores.creation import check_settings
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.opensearch.stores.view import require_whole_view
from icdc_spark.protocol.next_step import StepKind
from icdc_spark.protocol.state_document import (
    Intent,
    IntentKind,
    StateDocument,
    Totals,
    compute_base_version,
)
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.parallelism import count_tasks
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication import duplicates
from icdc_spark.replication.changelog import Batch
from icdc_spark.replication.checks import node_check
from icdc_spark.replication.checks.alias_check import check_alias, keep_alias
from icdc_spark.replication.checks.table_observation import TableObserver
from icdc_spark.replication.context import TableContext, build_applied, format_instant
from icdc_spark.replication.table_run import TableRun
from icdc_spark.verification.digests import (
    ID_AND_DIGEST,
    build_digest_task,
    digest_lines,
)
from icdc_spark.verification.pairing import compare_by_id, compare_contents

SAMPLES = 20
STREAMED_ONLY = (
    "the mode is StreamOnly: every document was compared with its row; a row without a document "
    "counts as unchanged since the start"
)


def verify(context: TableContext, observer: TableObserver, *, repair: bool) -> ComparisonEntry:
    """Return whether they are equal, else counts and up to 20 ids of each kind of difference.

    Gap where the table was never exported, or the index is not the one that was recorded;
    TargetInvalid where readers do not see that index.
    """
    stored = observer.load_state()
    if stored is None or stored.document.applied is None or stored.document.index is None:
        raise Gap(f"Table {context.table.name} was never exported: there is nothing to verify.")
    observation = observer.observe(stored)
    step = observation.step
    anew = step.reason if step.kind is StepKind.EXPORT else None
    # The export writes every document, and until then nobody knows what the index holds.
    if repair and anew:
        raise Gap(
            f"Table {context.table.name}: nothing is repaired, because the next run exports the "
            f"table anew ({anew})."
        )
    applied = stored.document.applied.snapshot_id
    recorded, uuid = stored.document, stored.document.index_uuid or ""
    # First: what another index holds, or who reads it, would say nothing about this one.
    identity.check_identity(context.client, recorded.index or "", uuid, recorded.shards)
    _check_target(context, recorded, repair=repair)
    # Before anything is read: what is hidden would count as missing, and be written again.
    require_whole_view(context.client.connection, recorded.index or "")
    # Refreshed, because a scan reads refreshed documents only.
    documents = indices.refresh_and_count(context.client, stored.document.index)
    entry: ComparisonEntry = {"snapshotId": applied, "documents": documents, "repaired": None}
    is_under_way = stored.document.intent is not None
    if is_under_way:
        # Its writes are part of the difference, and it is repeated before anything is written.
        entry["underWay"] = True
        entry["message"] = explain_under_way(context)
    elif anew:
        entry["message"] = f"the next run exports the table anew ({anew})"
    elif _is_streamed_only(context):
        entry["message"] = STREAMED_ONLY
    if applied is None:
        return entry | _compare_with_empty_table(documents)
    spec = observer.resolve_documents_at(observation, applied)
    session, table = observer.session, observation.table
    with open_reader(session, table, int(applied), spec) as reader:
        check_filter(reader, spec)
        difference = _compare(context, reader, spec, stored)
        entry |= _summarise(reader, difference)
        if repair and not entry["equal"] and not is_under_way:
            work = Batch(context=context, session=session, table=table, documents=spec)
            ids = difference.where("kind != 'equal'").select(ID)
            entry["repaired"] = write_again(work, reader, stored, ids)
    return entry


def _is_streamed_only(context: TableContext) -> bool:
    return context.spec.mode is Mode.STREAM_ONLY


def _check_target(context: TableContext, state: StateDocument, *, repair: bool) -> None:
    """Check what documents do not show: the alias, and index settings that were changed later."""
    if repair:
        keep_alias(context, state)
    else:
        check_alias(context, state)
    check_settings(context.client, state.index or "")


def finish_batch(run: TableRun) -> None:
    """Repeat the open batch, if there is one, and apply nothing newer."""
    stored = run.observer.load_state()
    if stored is not None and stored.document.intent is not None:
        run.advance()


def _compare_with_empty_table(documents: int) -> ComparisonEntry:
    """Return the entry of a table that had no snapshot yet: its index must be empty."""
    none: Differences = {"count": 0, "samples": []}
    return {
        "rows": 0,
        "equal": documents == 0,
        "missing": none,
        "extra": {"count": documents, "samples": []},
        "different": none,
    }


def _compare(
    context: TableContext, reader: SnapshotReader, spec: DocumentSpec, stored: Stored
) -> DataFrame:
    """Return one row per id of table or index, with `kind`: equal, missing, extra, different."""
    has_duplicates = stored.document.duplicates is not None
    table = _digest_table(reader, spec, has_duplicates=has_duplicates)
    index = _digest_index(context, reader, stored.document.index or "")
    compare = compare_contents if spec.append_only else compare_by_id
    kinds = compare(table, index)
    return kinds.where("kind != 'missing'") if _is_streamed_only(context) else kinds


def _digest_table(reader: SnapshotReader, spec: DocumentSpec, *, has_duplicates: bool) -> DataFrame:
    """Return id and digest of each document that the snapshot gives."""
    with translate_source_errors(reader.table_name):
        everything = Chunk(number=0, group=reader.list_all_files())
        if has_duplicates:
            # One document for each key: `build_export_lines` gives one for each row.
            ids = duplicates.select_all_ids(reader, spec)
            lines = look_up_ids(reader, ids, spec, version=0).frame
        else:
            lines = build_export_lines(reader, everything, spec, version=0).frame
        return lines.select("line").mapInArrow(digest_lines, ID_AND_DIGEST)


def _digest_index(context: TableContext, reader: SnapshotReader, index: str) -> DataFrame:
    """Return id and digest of each document in the index; each task reads one slice."""
    # As many slices as tasks run at a time: each slice is read by one request after the other.
    scan = open_scan(context.client, index, count_tasks(reader.session))
    try:
        numbers = reader.session.range(0, scan.slices, 1, scan.slices)
        return _read_now(reader, numbers.mapInArrow(build_digest_task(scan), ID_AND_DIGEST))
    finally:
        close_scan(context.client, scan)


def _read_now(reader: SnapshotReader, frame: DataFrame) -> DataFrame:
    """Store the index's part now, while its point in time is open."""
    stored = reader.persist(frame)
    with translate_source_errors(reader.table_name):
        # Frames are lazy: only an action reads.
        stored.count()
    return stored


def _summarise(reader: SnapshotReader, difference: DataFrame) -> ComparisonEntry:
    """Return the part of the entry that says what differs: counts, and samples in order."""
    with translate_source_errors(reader.table_name):
        # Read up to five times, for counts, samples and the repair.
        reader.persist(difference)
        counts = {row["kind"]: row["count"] for row in difference.groupBy("kind").count().collect()}
        entry: ComparisonEntry = {
            "rows": sum(count for kind, count in counts.items() if kind != "extra"),
            "equal": not any(counts.get(kind) for kind in DIFFERENCE_KINDS),
        }
        for kind in DIFFERENCE_KINDS:
            samples: list[str] = []
            if counts.get(kind):
                ids = difference.where(F.col("kind") == kind).select(ID).orderBy(ID)
                samples = [row[ID] for row in ids.limit(SAMPLES).collect()]
            entry[kind] = {"count": counts.get(kind, 0), "samples": samples}
    return entry


def explain_under_way(context: TableContext) -> str:
    """Return what somebody who asks has to do about an open batch."""
    finish = "the run finishes it" if context.request.continuous else "run the pipeline"
    return f"a batch is under way: {finish}, then ask again"


def write_again(work: Batch, reader: SnapshotReader, stored: Stored, ids: DataFrame) -> int:
    """Write the applied snapshot's documents of `ids` (column `id`), as a recorded batch.

    Return the number of documents that were written or deleted. A crash leaves an open batch,
    which the next run abandons; Fenced where another run has taken over.
    """
    context = work.context
    # Claimed only here: a comparison that changes nothing must not fence the run of the table.
    claimed = stored.document.claim(context.owner, now=format_instant())
    stored = context.store.replace(stored, claimed)
    context.outwait_older_runs(stored.document)
    state = stored.document
    index, uuid = state.index or "", state.index_uuid or ""
    context.nodes.see(identity.check_identity(context.client, index, uuid, state.shards))
    applied = state.applied.snapshot_id if state.applied else None
    # Recorded like any batch, so that another run waits for it and ordinals stay unique.
    intent = Intent(
        kind=IntentKind.REPAIR,
        from_=applied,
        to=applied,
        ordinal=state.last_ordinal + 1,
        index=index,
        index_uuid=uuid,
        nodes=node_check.list_nodes(context),
    )
    stored = context.store.begin(stored, state.with_intent(intent, now=format_instant()))
    version = compute_base_version(intent.ordinal)
    lines = look_up_ids(reader, reader.persist(ids), work.documents, version=version)
    stored, result, now = node_check.write_until_settled(
        context, stored, intent, lambda _: context.write(lines.frame, intent, version)
    )
    # What is written again after a primary has moved is already there.
    upserted = result.upserted + result.already_applied
    snapshot = work.table.require(int(applied)) if applied else None
    totals = Totals(
        upserted=upserted, deleted=result.deleted, dead_letters=result.dead_letters_total
    )
    advanced = stored.document.advance(
        build_applied(snapshot, intent), now=format_instant(), batch=totals, shards=now.shards
    )
    context.store.replace(stored, advanced)
    return upserted + result.deleted
