"""Lists the rows that an index refused, and sends them again: `icdc dead-letters`.

Rows are sent again as a recorded batch of their own, with the documents that the applied snapshot
gives them. What the index accepts is no dead letter any more; what it refuses again stays one.

Example, three dead letters; the administrator has raised a limit of the mapping:

    row 7    still in the table           sent, accepted: the dead letter is removed
    row 8    still in the table           sent, refused again: stays, and counts as left
    row 9    deleted from the table       a delete is sent: the dead letter is removed

It must not know why rows are refused.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from icdc_api.errors import Gap, IncompatibleSchema
from icdc_api.job.answers import BATCH_UNDER_WAY, DeadLettersEntry, ReplayEntry
from icdc_spark.diff.rows import ID, check_filter, list_id_metadata, select_ids
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.opensearch.stores import dead_letters, identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.steps import StepKind
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.readers.whole_snapshot import read_whole
from icdc_spark.replication import progress
from icdc_spark.replication.changelog import Batch
from icdc_spark.replication.checks.table_observation import TableObservation, TableObserver
from icdc_spark.replication.context import TableContext
from icdc_spark.verification.entries import explain_under_way
from icdc_spark.verification.rewriting import write_again

MAX_LISTED = 1000
"""Dead letters in one answer, which goes through the run's report."""
SAMPLES = 20


def list_refused(context: TableContext) -> DeadLettersEntry:
    """Return the number of dead letters, and those of the newest batches; reads OpenSearch alone.

    Documents are in the answer only if the request asks for them: they hold values of rows.
    """
    newest = dead_letters.list_newest(
        context.client,
        context.ownership,
        ids=context.request.ids,
        size=MAX_LISTED,
        documents=bool(context.request.documents),
    )
    count = dead_letters.count(context.client, context.ownership)
    entry: DeadLettersEntry = {"count": count, "letters": newest}
    if context.request.ids is None and count > len(newest):
        entry["message"] = f"{count - len(newest)} more are not shown"
    return entry


def replay(context: TableContext, observer: TableObserver) -> ReplayEntry:
    """Send the rows of the dead letters that the request names again; count those that are `left`.

    Gap for a table that was never exported; IncompatibleSchema where the next run exports it anew.
    """
    stored = observer.load_state()
    if stored is None or stored.document.applied is None or stored.document.index is None:
        raise Gap(f"Table {context.table.name} was never exported: no row of it was refused.")
    observation = observer.observe(stored)
    ids = _list_refused_ids(context, context.request.ids)
    # The state document holds one intent at a time, and the open one is repeated first.
    if stored.document.intent is not None:
        message = explain_under_way(context)
        return {
            "resent": 0,
            "left": len(ids),
            "reason": BATCH_UNDER_WAY,
            "message": message,
        }
    if observation.step.kind is StepKind.EXPORT:
        # Documents of the new form need not fit the old index, and the export replaces it anyway.
        raise IncompatibleSchema(
            f"Table {context.table.name}: nothing is sent again, because the next run exports the "
            f"table anew ({observation.step.reason}) and sends every row."
        )
    state = stored.document
    # As before any batch: only the recorded index equals the table at the applied snapshot.
    identity.check_identity(context.client, state.index or "", state.index_uuid or "", state.shards)
    applied = stored.document.applied.snapshot_id
    if not ids or applied is None:
        return {"resent": 0, "left": 0, "message": "there is no such dead letter"}
    _send(observer, observation, stored, ids)
    # The status says how many rows are refused; without this it would say so until the next batch.
    after = observer.load_state()
    progress.report_observation(
        context.reporter, observer.observe(after or stored, compare_index=False)
    )
    # A row that was refused again has a new dead letter with the same id.
    left = _list_refused_ids(context, ids)
    return {"resent": len(ids), "left": len(left), "samples": left[:SAMPLES]}


def _list_refused_ids(context: TableContext, among: Sequence[str] | None) -> list[str]:
    """Return the ids of the dead letters in order; `among` limits them."""
    refused_ids = dead_letters.list_ids(context.client, context.ownership)
    return sorted(refused_ids if among is None else refused_ids & set(among))


def _send(
    observer: TableObserver,
    observation: TableObservation,
    stored: Stored,
    refused_ids: Sequence[str],
) -> None:
    """Write the documents that the applied snapshot gives to `refused_ids`, as a batch."""
    session, table = observer.session, observation.table
    applied = stored.document.applied
    if applied is None or applied.snapshot_id is None:
        return
    spec = observer.resolve_documents_at(observation, applied.snapshot_id)
    with open_reader(session, table, int(applied.snapshot_id), spec) as reader:
        check_filter(reader, spec)
        ids = session.createDataFrame([(row_id,) for row_id in refused_ids], f"{ID} string")
        if spec.append_only:
            ids = _select_ids_in_snapshot(reader, ids, spec)
        work = Batch(context=observer.context, session=session, table=table, documents=spec)
        write_again(work, reader, stored, ids)


def _select_ids_in_snapshot(
    reader: SnapshotReader, ids: DataFrame, spec: DocumentSpec
) -> DataFrame:
    """Return `ids` without those of rows that a compaction has moved.

    Another id stands for such a row now, and a delete for the old id would remove its dead letter:
    all there is of the row until a comparison finds it missing.
    """

    def select_present(group: FileGroup) -> DataFrame:
        rows = reader.read(group, metadata=list_id_metadata(spec))
        return select_ids(rows, spec).join(ids, on=ID, how="left_semi")

    return read_whole(reader, select_present)
