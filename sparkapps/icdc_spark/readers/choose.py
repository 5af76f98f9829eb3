"""Which reader a table needs: Spark's own wherever it reads all that documents are made of."""

import re
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from icdc_api.errors import UnsupportedType
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.forms import READ_AS_TEXT, has_type
from icdc_spark.documents.schema import Field, Primitive, Schema
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.readers.staged import NOT_BY_ROWS, StagedReader


def open_reader(
    session: SparkSession, table: IcebergTable, snapshot_id: int, spec: DocumentSpec
) -> SnapshotReader:
    """A reader of one snapshot for these documents; raises UnsupportedType where none fits."""
    needed = list(_needed(table.schema(snapshot_id), spec))
    if _reads(table, needed):
        return StagedReader(session, table, snapshot_id)
    # What it is made of takes as long to load as all the rest of the application, for few tables.
    from icdc_spark.readers.arrow import NOT_BY_ARROW, ArrowReader

    for column in needed:
        if has_type(column, NOT_BY_ARROW):
            texts = [f"column `{each.name}` a {each.type}" for each in _texts(needed)]
            raise UnsupportedType(
                f"{table.name}: column `{column.name}` holds a {column.type} and "
                f"{(*texts, 'files of the table a time')[0]}, and no reader can read both; leave "
                f"{'one of them' if texts else 'it'} out by naming the other columns in `columns`"
            )
    return ArrowReader(session, table, snapshot_id)


def can_read_lineage(table: IcebergTable, snapshot_id: int, spec: DocumentSpec) -> bool:
    """Return `can_read_lineage` of the reader that `open_reader` would open."""
    return _reads(table, list(_needed(table.schema(snapshot_id), spec)))


def _reads(table: IcebergTable, columns: Sequence[Field]) -> bool:
    """Whether Spark's own reader reads these columns of a table."""
    if _texts(columns):
        return False
    by_rows = any(not isinstance(column.type, Primitive) for column in columns)
    return not (by_rows and table.has_had(NOT_BY_ROWS))


def _texts(columns: Sequence[Field]) -> list[Field]:
    """The columns that Spark's own reader refuses."""
    return [column for column in columns if has_type(column, READ_AS_TEXT)]


def _needed(schema: Schema, spec: DocumentSpec) -> Iterator[Field]:
    """The top-level columns that documents, ids and the filter are made of."""
    wanted = {column.id for column in spec.columns} | {path[0].id for path in spec.identifiers}
    for column in schema.fields:
        if column.id in wanted or _mentions(spec.row_filter or "", column.name):
            yield column


def _mentions(row_filter: str, name: str) -> bool:
    """Whether the filter may speak of the column; a word too many costs speed, never a row."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", row_filter, re.IGNORECASE) is not None
