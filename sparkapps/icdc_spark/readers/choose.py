"""Choose the reader of a table: Spark's own wherever it reads all that documents are made of.

| columns that documents need | reader |
|---|---|
| `id long`, `name string` | Spark's (`staged`) |
| `id long`, `at time` | pyarrow's (`arrow`): Spark has no type for `time` |
| `id long`, `data variant` | Spark's: pyarrow has no type for `variant` |
| `at time`, `data variant` | none: UnsupportedType |

Columns that documents do not need count only where Iceberg's reader fails at them all the same.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from icdc_api.errors import UnsupportedType
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.forms import READ_AS_TEXT, has_type
from icdc_spark.documents.schema import Field, Primitive, Schema, list_mentioned
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.readers.staged import NOT_BY_ROWS, StagedReader


def open_reader(
    session: SparkSession,
    table: IcebergTable,
    snapshot_id: int,
    spec: DocumentSpec,
    tasks: int | None = None,
) -> SnapshotReader:
    """Return a reader of one snapshot for these documents; UnsupportedType where none fits.

    `tasks` read a group of files at most; None for as many as there are cores.
    """
    needed = list(_list_needed_columns(table.read_schema(snapshot_id), spec))
    if _spark_reads(table, needed):
        return StagedReader(session, table, snapshot_id, tasks)
    # Imported here: pyarrow and pyiceberg take as long to load as all the rest of the application,
    # and few tables need them.
    from icdc_spark.readers.arrow import NOT_BY_ARROW, ArrowReader

    for column in needed:
        if has_type(column, NOT_BY_ARROW):
            texts = [
                f"column `{text.name}` has the type {text.type}"
                for text in _list_text_columns(needed)
            ]
            raise UnsupportedType(
                f"{table.name}: column `{column.name}` has the type {column.type}, "
                f"{(*texts, 'files of the table contain a time')[0]}, and no reader can read both; "
                f"leave {'one of them' if texts else 'it'} out by naming the other columns in "
                "`columns`"
            )
    return ArrowReader(session, table, snapshot_id, tasks)


def can_read_lineage(table: IcebergTable, snapshot_id: int, spec: DocumentSpec) -> bool:
    """Return `can_read_lineage` of the reader that `open_reader` would open."""
    return _spark_reads(table, list(_list_needed_columns(table.read_schema(snapshot_id), spec)))


def _spark_reads(table: IcebergTable, columns: Sequence[Field]) -> bool:
    """Return whether Spark's own reader reads these columns of a table."""
    if _list_text_columns(columns):
        return False
    # Columns with fields inside are read by rows, by a code path of Iceberg that has other limits.
    by_rows = any(not isinstance(column.type, Primitive) for column in columns)
    return not (by_rows and table.has_had(NOT_BY_ROWS))


def _list_text_columns(columns: Sequence[Field]) -> list[Field]:
    """Return the columns that Spark's own reader refuses."""
    return [column for column in columns if has_type(column, READ_AS_TEXT)]


def _list_needed_columns(schema: Schema, spec: DocumentSpec) -> Iterator[Field]:
    """Return the top-level columns that documents, ids and the filter are made of."""
    wanted = {column.id for column in spec.columns} | {path[0].id for path in spec.identifiers}
    # One column too many, as a word in a string literal is, costs speed, never a row.
    wanted |= {column.id for column in list_mentioned(schema, spec.row_filter or "")}
    return (column for column in schema.fields if column.id in wanted)
