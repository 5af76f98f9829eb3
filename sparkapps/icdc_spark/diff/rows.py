"""Rows of a table in the shapes in which they are compared.

| shape | columns | made by |
|---|---|---|
| ids | `id`, and columns of the caller | `select_ids` |
| keys | `k0`, `k1` .. , the identifier columns, and columns of the caller | `select_keys` |
| cells | `id`, `fingerprint`, and `c0`, `c1` .. , what fields are made of | `select_cells` |

Columns have names of our own, because a table may have columns called anything.

Large sets are compared as keys, not as ids: no two keys share an id, and numbers are smaller and
cheaper to compare than text. The few keys that differ get their ids then (`replace_keys_by_ids`).
It must not know what a comparison is for.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.errors import FilterInvalid
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.fingerprint import compute_choice, compute_fingerprint
from icdc_spark.documents.ids import build_id, join_key, read_cell
from icdc_spark.documents.serialise import Cells
from icdc_spark.iceberg.jvm.row_conditions import check_condition, find_reader
from icdc_spark.iceberg.jvm.source_errors import translate_analysis_errors
from icdc_spark.readers.snapshot_reader import SnapshotReader

ID, FINGERPRINT = "id", "fingerprint"

ROUTING = "routing"
"""The column of routings, beside ids of documents that may be where their ids do not say."""

EXPECT = "expect"
"""The column of `Expect` values, where rows have become operations."""

ROW_POSITION = ("_file", "_pos")
"""The metadata columns that name one row of a data file."""

GROUPED_ROWS = 250_000
"""Rows to group in one partition: the hash table of their keys should fit into a processor's cache.
Left to itself, Spark makes one partition for each core."""

MAX_PARTITIONS = 1_000
"""Partitions of one grouping, where there are more rows than 250 million."""

_TASK_PARTITIONS = 8
"""Such partitions that one task takes at most, one after the other, where there are fewer cores."""


def list_id_metadata(spec: DocumentSpec) -> tuple[str, ...]:
    """Return the metadata columns without which ids cannot be built."""
    return ROW_POSITION if spec.append_only else ()


def filter_rows(rows: DataFrame, spec: DocumentSpec) -> DataFrame:
    """Return the rows that belong into the index; FilterInvalid where `rowFilter` does not fit."""
    if spec.row_filter is None:
        return rows
    shown = f"{spec.table}: rowFilter `{spec.row_filter}`"
    with translate_analysis_errors(spec.table, FilterInvalid, shown):
        return rows.where(F.expr(spec.row_filter))


def select_ids(rows: DataFrame, spec: DocumentSpec, *columns: Column) -> DataFrame:
    """Return the id of each row of the index, and further columns."""
    indexed = filter_rows(rows, spec)
    return indexed.select(build_id(indexed, spec).alias(ID), *columns)


def select_keys(rows: DataFrame, spec: DocumentSpec, *columns: Column) -> DataFrame:
    """Return the key values of each row of the index, and further columns."""
    indexed = filter_rows(rows, spec)
    named_paths = zip(spec.identifiers, name_key_columns(spec), strict=True)
    values = (read_cell(indexed, path).alias(name) for path, name in named_paths)
    return indexed.select(*values, *columns)


def name_key_columns(spec: DocumentSpec) -> list[str]:
    """Return the names of the key columns of `select_keys`."""
    return [f"k{number}" for number in range(len(spec.identifiers))]


def group_by_key(
    rows: DataFrame, spec: DocumentSpec, *aggregates: Column, max_rows: int | None
) -> DataFrame:
    """Aggregate rows in the shape of `select_keys` by their keys; at most `max_rows`, if known.

    12 million rows on 4 cores give 48 partitions of 250,000 rows, which 6 tasks take, 8 each.
    """
    names = name_key_columns(spec)
    # Shuffled before: else Spark first groups what each task has read, where nearly every key is
    # alone. That is a fifth of the cost of comparing two snapshots, for nothing.
    if max_rows is None:
        return rows.repartition(*names).groupBy(*names).agg(*aggregates)
    partitions = max(1, min(MAX_PARTITIONS, -(-max_rows // GROUPED_ROWS)))
    grouped = rows.repartition(partitions, *names).groupBy(*names).agg(*aggregates)
    return merge_into_few_tasks(grouped, least=-(-partitions // _TASK_PARTITIONS))


def merge_into_few_tasks(grouped: DataFrame, *, least: int = 1) -> DataFrame:
    """Return the frame in as many tasks as there are cores, or `least` if that is more."""
    # What is left of a partition after its rows were grouped is too little for a task of its own.
    return grouped.coalesce(max(grouped.sparkSession.sparkContext.defaultParallelism, least))


def replace_keys_by_ids(rows: DataFrame, spec: DocumentSpec) -> DataFrame:
    """Return rows in the shape of `select_keys` with their ids in place of the key values."""
    names = name_key_columns(spec)
    parts = [(F.col(name), path[-1]) for name, path in zip(names, spec.identifiers, strict=True)]
    return rows.withColumn(ID, join_key(parts, spec.routing)).drop(*names)


def build_number_of_batch(number: int, beside: str) -> str:
    """Return SQL for a number that each batch has another one of; `beside`: SQL for any bigint.

    Written as it is, it would be part of the code that Spark generates: each batch would compile
    its own, and begin without what the JVM has optimised. An element of an array is no part of it.
    Which element is made of a value of the row, or Spark would put the number in its place.
    """
    return f"get(array({number}L), int(({beside}) & 0L))"


def select_rows_with_ids(
    rows: DataFrame, few: DataFrame, column: str, spec: DocumentSpec
) -> DataFrame:
    """Return the rows, as read, whose id is in a column of a small frame."""
    indexed = filter_rows(rows, spec)
    ids = F.broadcast(few.select(column))
    return indexed.join(ids, on=build_id(indexed, spec) == ids[column], how="left_semi")


def compute_row_fingerprint(rows: DataFrame, spec: DocumentSpec, *, salt: str) -> Column:
    """Return the column with the fingerprint of each row."""
    return _compute_fingerprint(_read_cells(rows, spec), spec, salt)


def select_cells(
    rows: DataFrame, spec: DocumentSpec, *, compared: bool = True, salt: str | None = None
) -> DataFrame:
    """Return the id and all cells of each row of the index, with a fingerprint if `compared`.

    Fingerprints with a salt can be compared only with those of the same salt. Those without choose
    among the rows of one key (`compute_choice`).
    """
    indexed = filter_rows(rows, spec)
    cells = _read_cells(indexed, spec)
    return indexed.select(
        build_id(indexed, spec).alias(ID),
        *([_compute_fingerprint(cells, spec, salt)] if compared else []),
        *[value.alias(name_cell(number)) for number, (_, value) in enumerate(cells)],
    )


def check_filter(reader: SnapshotReader, spec: DocumentSpec) -> None:
    """Check `rowFilter` without reading a row.

    FilterInvalid where it does not fit the table, or needs more than the row.
    """
    if spec.row_filter is None:
        return
    reader_called = find_reader(spec.row_filter)
    if reader_called:
        raise FilterInvalid(f"{spec.table}: rowFilter `{spec.row_filter}` {reader_called}")
    # Without the metadata columns: which file a row is in changes with a compaction.
    empty = reader.read(reader.empty_group)
    check_condition(empty, filter_rows(empty, spec), spec.table, spec.row_filter)


def _compute_fingerprint(cells: Cells, spec: DocumentSpec, salt: str | None) -> Column:
    read = {column.id for _, expression in spec.expressions for column in expression.reads}
    if salt is None:
        return compute_choice(cells, exact=read).alias(FINGERPRINT)
    return compute_fingerprint(cells, salt=salt, exact=read).alias(FINGERPRINT)


def _read_cells(rows: DataFrame, spec: DocumentSpec) -> Cells:
    return [(entry, read_cell(rows, (entry,))) for entry in spec.columns]


def name_cell(number: int) -> str:
    """Return the name of the column with the cells of one of `DocumentSpec.columns`."""
    return f"c{number}"
