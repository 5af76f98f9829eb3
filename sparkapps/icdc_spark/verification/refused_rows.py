"""What `icdc dead-letters` answers for one table: the rows that its index refused, and a new try.

Rows are sent again as a recorded batch of its own, with the documents that the applied snapshot
gives. What the index takes is no dead letter any more; what it refuses again stays one.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from icdc_api.errors import Gap, IncompatibleSchema
from icdc_spark.diff.rows import ID, check_filter, id_metadata, select_ids
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.opensearch.stores import dead_letters, identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.next_step import StepKind
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.changelog import Batch
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import Look, TableRun
from icdc_spark.verification.comparison import write_again

MOST_LISTED = 1000
SAMPLES = 20

UNDER_WAY = "BatchUnderWay"
"""Reason: what is under way has to be finished first."""

Entry = dict[str, Any]


def listed(context: TableContext) -> Entry:
    """How many rows the index refuses, and those of the newest batches; reads OpenSearch alone."""
    letters = dead_letters.newest(
        context.client,
        context.ownership,
        ids=context.request.ids,
        size=MOST_LISTED,
        documents=bool(context.request.documents),
    )
    count = dead_letters.count(context.client, context.alias)
    entry: Entry = {"count": count, "letters": letters}
    if context.request.ids is None and count > len(letters):
        entry["message"] = f"{count - len(letters)} more are not shown"
    return entry


def replay(context: TableContext, run: TableRun) -> Entry:
    """Send the rows of the dead letters that the request names again; how many are `left`.

    Raises Gap for a table that was never exported, and IncompatibleSchema where the next run
    exports it anew.
    """
    stored = run.load()
    if stored is None or stored.document.applied is None or stored.document.index is None:
        raise Gap(f"Table {context.table.name} was never exported: no row of it was refused.")
    look = run.look(stored)
    asked = _letters_among(context, context.request.ids)
    if stored.document.intent is not None:
        message = "a batch is under way: run the pipeline to finish it, then ask again"
        return {"resent": 0, "left": len(asked), "reason": UNDER_WAY, "message": message}
    if look.step.kind is StepKind.EXPORT:
        raise IncompatibleSchema(
            f"Table {context.table.name}: nothing is sent again, because the next run exports the "
            f"table anew ({look.step.reason}) and sends every row."
        )
    state = stored.document
    identity.check_identity(context.client, state.index or "", state.index_uuid or "", state.shards)
    applied = stored.document.applied.snapshot_id
    if not asked or applied is None:
        return {"resent": 0, "left": 0, "message": "there is no such dead letter"}
    _send(run, look, stored, int(applied), asked)
    left = _letters_among(context, asked)
    return {"resent": len(asked), "left": len(left), "samples": left[:SAMPLES]}


def _letters_among(context: TableContext, ids: Sequence[str] | None) -> list[str]:
    known = dead_letters.known_ids(context.client, context.alias)
    return sorted(known if ids is None else known & set(ids))


def _send(run: TableRun, look: Look, stored: Stored, applied: int, asked: Sequence[str]) -> None:
    spec = run.documents_at(look, str(applied))
    with open_reader(run.session, look.table, applied, spec) as reader:
        check_filter(reader, spec)
        ids = run.session.createDataFrame([(each,) for each in asked], f"{ID} string")
        if spec.append_only:
            ids = _in_snapshot(reader, ids, spec)
        work = Batch(context=run.context, session=run.session, table=look.table, documents=spec)
        write_again(work, reader, stored, ids)


def _in_snapshot(reader: SnapshotReader, ids: DataFrame, spec: DocumentSpec) -> DataFrame:
    """Without the ids of rows that a compaction has moved: another id stands for them now, and
    their dead letters are all there is of them until a comparison finds the rows missing."""
    rows = reader.read(reader.list_all_files(), metadata=id_metadata(spec))
    return ids.join(select_ids(rows, spec), on=ID, how="left_semi")
