"""Finds keys that occur in more than one row of a snapshot, and settles their documents.

Iceberg does not enforce unique keys. Within one batch such a key is written more than once, or
one of its rows lies in a file that the batch never reads; so once anything hints at it, the
snapshot itself is asked. The row of the greatest fingerprint is the document, always.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.rows import ID, select_ids
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import FIXUP_OFFSET, Intent, base_version
from icdc_spark.protocol.state_parts import MAX_SAMPLES
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.context import TableContext, instant

ROWS = "rows"


@dataclass(frozen=True)
class Twins:
    """How many keys occur more than once, and up to 20 of their ids."""

    count: int
    samples: list[str]
    surplus: int = 0
    """Rows of these keys beyond the first of each."""


def twin_ids(
    reader: SnapshotReader, spec: DocumentSpec, among: DataFrame | None = None
) -> DataFrame:
    """Ids (column `id`) of more than one row of the snapshot, and how many rows (column `rows`).

    `among` limits the search.

    Reads the key columns of the whole snapshot.
    """
    with source_errors(reader.table_name):
        found = select_ids(reader.read(reader.list_all_files()), spec)
        if among is not None:
            found = found.join(among.select(ID).distinct(), on=ID, how="left_semi")
        return found.groupBy(ID).agg(F.count(F.lit(1)).alias(ROWS)).where(F.col(ROWS) > 1)


def all_ids(reader: SnapshotReader, spec: DocumentSpec) -> DataFrame:
    """Every id of the snapshot, once (column `id`)."""
    with source_errors(reader.table_name):
        return select_ids(reader.read(reader.list_all_files()), spec).distinct()


def settle(
    context: TableContext,
    reader: SnapshotReader,
    spec: DocumentSpec,
    intent: Intent,
    among: DataFrame | None = None,
) -> Twins:
    """Rewrites the documents of keys with several rows, above whatever the batch wrote for them."""
    twins = reader.persist(twin_ids(reader, spec, among))
    with source_errors(reader.table_name):
        ((count, rows),) = twins.agg(F.count(F.lit(1)), F.coalesce(F.sum(ROWS), F.lit(0))).collect()
        samples = [row[ID] for row in twins.orderBy(ID).limit(MAX_SAMPLES).collect()]
    if count:
        version = base_version(intent.ordinal) + FIXUP_OFFSET
        context.write(
            look_up_ids(reader, twins.select(ID), spec, version=version).frame, intent, version
        )
    return Twins(count=count, samples=samples, surplus=rows - count)


def mark(context: TableContext, stored: Stored, twins: Twins) -> Stored:
    """From now on every batch of the table asks the snapshot about the keys that it touches."""
    if not twins.count:
        return stored
    return _marked(context, stored, twins)


def unmark(context: TableContext, stored: Stored) -> Stored:
    """An export has found every key once."""
    if stored.document.duplicates is None:
        return stored
    return _marked(context, stored, Twins(count=0, samples=[]))


def _marked(context: TableContext, stored: Stored, twins: Twins) -> Stored:
    marked = stored.document.with_duplicates(twins.count, twins.samples, now=instant())
    return context.store.replace(stored, marked)
