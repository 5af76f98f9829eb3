"""Finds duplicate keys, which are in more than one row of a snapshot, and writes their documents.

Iceberg does not enforce unique keys. Within one batch such a key is written more than once, or
one of its rows is in a file that the batch never reads. So once anything hints at duplicates, the
snapshot itself is read. The document is always the row of the greatest fingerprint.

Example, one batch of ordinal 5 that inserts a second row of key 7 in a file of its own:

    first row    in an older file, document of an earlier batch, fingerprint 30
    second row   written by the batch, with version 5 · 2^20, fingerprint 20
    hint         the row was expected to create its document, and OpenSearch answered "updated"
    settle       key 7 has two rows: the first one wins (30 > 20), and is written with version
                 5 · 2^20 + 2^19, above whatever the batch wrote
    mark         the state document counts one duplicate key: from now on each batch reads the
                 snapshot for the keys that it changes

It must not know what a batch is written for.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.operation_lines import LineCounts
from icdc_spark.diff.rows import ID, select_ids
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.shards import require_all_shards
from icdc_spark.opensearch.client.target_errors import repeat_passing
from icdc_spark.opensearch.stores import dead_letters
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import FIXUP_OFFSET, Intent, compute_base_version
from icdc_spark.protocol.state_parts import MAX_SAMPLES
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.readers.whole_snapshot import read_whole
from icdc_spark.replication.applied import format_instant
from icdc_spark.replication.context import TableContext

ROWS = "rows"
_PAGE = 1000
"""Ids in one request that counts their documents."""


@dataclass(frozen=True)
class DuplicateSummary:
    """The duplicate keys of a snapshot, or of the keys that a batch changed."""

    count: int
    """Number of keys that are in more than one row."""
    samples: list[str]
    """Up to 20 of their ids, in order."""
    surplus: int = 0
    """Number of rows of these keys beyond the first of each."""
    dead_letters: int | None = None
    """Dead letters that the pipeline has since their documents were written; None if none were."""


NO_DUPLICATES = DuplicateSummary(count=0, samples=[])


def select_duplicate_ids(
    reader: SnapshotReader, spec: DocumentSpec, among: DataFrame | None = None
) -> DataFrame:
    """Return the ids (column `id`) of several rows of the snapshot, and their number (`rows`).

    Reads the key columns of the whole snapshot. `among` (column `id`) limits the ids.
    """

    def read_ids(group: FileGroup) -> DataFrame:
        ids = select_ids(reader.read(group), spec)
        if among is None:
            return ids
        # Before grouping: the batch is small, so this keeps most rows out of the shuffle.
        return ids.join(among.select(ID).distinct(), on=ID, how="left_semi")

    with translate_source_errors(reader.table_name):
        ids = read_whole(reader, read_ids)
        return ids.groupBy(ID).agg(F.count(F.lit(1)).alias(ROWS)).where(F.col(ROWS) > 1)


@repeat_passing
def are_hidden(client: Client, owner: Ownership, index: str, ordinal: int) -> bool:
    """Return whether an id has a document in `index` and a dead letter of the batch that wrote it.

    Then the key is in several rows, of which one was accepted and another refused. So there are as
    many documents and dead letters as rows: their number is no hint. `index` has been refreshed.
    """
    ids = sorted(dead_letters.list_ids(client, owner, ordinal))
    for start in range(0, len(ids), _PAGE):
        query = {"ids": {"values": ids[start : start + _PAGE]}}
        counted = client.count(index=index, body={"query": query})
        require_all_shards(counted, f"count of refused rows in {index!r}")
        if counted["count"]:
            return True
    return False


def are_hinted(result: BatchResult, counts: LineCounts) -> bool:
    """Return whether a key of the batch, which was written once, may be in several rows."""
    met = result.created_unexpectedly_updated.count + result.met_new
    return bool(result.already_applied or met or counts.duplicate_keys)


def settle(
    context: TableContext,
    reader: SnapshotReader,
    spec: DocumentSpec,
    *,
    intent: Intent,
    among: DataFrame | None = None,
) -> DuplicateSummary:
    """Write the documents of duplicate keys again, above whatever the batch wrote for them."""
    # Stored: it is read three times, and each time it would read the whole snapshot.
    duplicates = reader.persist(select_duplicate_ids(reader, spec, among))
    with translate_source_errors(reader.table_name):
        totals = duplicates.agg(F.count(F.lit(1)), F.coalesce(F.sum(ROWS), F.lit(0)))
        ((count, rows),) = totals.collect()
        samples = [row[ID] for row in duplicates.orderBy(ID).limit(MAX_SAMPLES).collect()]
    total = None
    if count:
        # Above the versions of the batch, and below those of the next one.
        version = compute_base_version(intent.ordinal) + FIXUP_OFFSET
        lines = look_up_ids(reader, duplicates.select(ID), spec, version=version)
        total = context.write(lines.frame, intent, version).dead_letters_total
    return DuplicateSummary(count, samples, surplus=rows - count, dead_letters=total)


def mark(context: TableContext, stored: Stored, duplicates: DuplicateSummary) -> Stored:
    """Record duplicate keys, if there are any.

    From then on every batch of the table reads the snapshot for the keys that it changes.
    """
    if not duplicates.count:
        # A batch that met none has seen its own keys only: an earlier mark stays.
        return stored
    return _record(context, stored, duplicates)


def unmark(context: TableContext, stored: Stored) -> Stored:
    """Remove the mark, after an export that met every key once."""
    if stored.document.duplicates is None:
        return stored
    return _record(context, stored, NO_DUPLICATES)


def _record(context: TableContext, stored: Stored, duplicates: DuplicateSummary) -> Stored:
    document = stored.document.with_duplicates(
        duplicates.count, duplicates.samples, now=format_instant()
    )
    return context.store.replace(stored, document)
