"""Rows of a table in the shape in which they are compared: id, fingerprint, numbered cells.

Cells travel under names of our own, because a table may have columns called anything.

Where many rows are told from few, they are grouped by the values that make their ids: no two share
an id, and values are cheaper to compare, and smaller. The few are given their ids then.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.fingerprint import fingerprint
from icdc_spark.documents.ids import cell, document_id, joined
from icdc_spark.documents.serialise import Cells, document, non_finite
from icdc_spark.iceberg.jvm.errors import filter_errors
from icdc_spark.iceberg.jvm.row_conditions import check_condition
from icdc_spark.readers.reader import Reader

ID, FINGERPRINT = "id", "fingerprint"

PLACE = ("_file", "_pos")
"""The metadata columns that name one row of a data file."""

GROUPED_ROWS, MOST_PARTITIONS = 250_000, 1_000
"""Rows that are grouped together, and partitions up to which there are so few: what keys are looked
up in should fit into a processor's cache. Left to itself, Spark makes a partition for each core."""

_TASK_PARTITIONS = 8
"""Such partitions that one task takes at most, one after the other, where there are fewer cores."""


def metadata_of(spec: DocumentSpec) -> tuple[str, ...]:
    """The metadata columns without which ids cannot be made."""
    return PLACE if spec.append_only else ()


def filtered(rows: DataFrame, spec: DocumentSpec) -> DataFrame:
    """Only the rows that belong into the index; raises FilterInvalid."""
    if spec.row_filter is None:
        return rows
    with filter_errors(spec.table, spec.row_filter):
        return rows.where(F.expr(spec.row_filter))


def keys(rows: DataFrame, spec: DocumentSpec, *also: Column) -> DataFrame:
    """The id of each row of the index, and further columns."""
    found = filtered(rows, spec)
    return found.select(document_id(found, spec).alias(ID), *also)


def values(rows: DataFrame, spec: DocumentSpec, *also: Column) -> DataFrame:
    """The values that make the id of each row of the index, and further columns."""
    found = filtered(rows, spec)
    own = zip(spec.identifiers, value_names(spec), strict=True)
    return found.select(*(cell(found, path).alias(name) for path, name in own), *also)


def value_names(spec: DocumentSpec) -> list[str]:
    """What the columns of `values` are called that make ids."""
    return [f"k{number}" for number in range(len(spec.identifiers))]


def by_values(rows: DataFrame, spec: DocumentSpec, *told: Column, count: int | None) -> DataFrame:
    """What is told of each key, of rows in the shape of `values`; `count` of them, if known.

    They are brought to one partition before. Without that Spark first groups what each task has
    read, where nearly every key is alone: a fifth of the cost of comparing two sides, for nothing.
    """
    names = value_names(spec)
    if count is None:
        return rows.repartition(*names).groupBy(*names).agg(*told)
    partitions = max(1, min(MOST_PARTITIONS, -(-count // GROUPED_ROWS)))
    grouped = rows.repartition(partitions, *names).groupBy(*names).agg(*told)
    return in_few_tasks(grouped, least=-(-partitions // _TASK_PARTITIONS))


def in_few_tasks(grouped: DataFrame, *, least: int = 1) -> DataFrame:
    """In as many tasks as there are cores, or more: what is left of a partition after many rows
    were grouped is too little for a task of its own."""
    return grouped.coalesce(max(grouped.sparkSession.sparkContext.defaultParallelism, least))


def with_ids(rows: DataFrame, spec: DocumentSpec) -> DataFrame:
    """Rows in the shape of `values` with their ids in place of these."""
    names = value_names(spec)
    parts = [(F.col(name), path[-1]) for name, path in zip(names, spec.identifiers, strict=True)]
    return rows.withColumn(ID, joined(parts)).drop(*names)


def among(rows: DataFrame, few: DataFrame, column: str, spec: DocumentSpec) -> DataFrame:
    """The rows, as read, whose id is in a column of a small frame."""
    found = filtered(rows, spec)
    ids = F.broadcast(few.select(column))
    return found.join(ids, on=document_id(found, spec) == ids[column], how="left_semi")


def print_of(rows: DataFrame, spec: DocumentSpec, *, salt: int) -> Column:
    """The fingerprint of each row."""
    return fingerprint(_read(rows, spec), salt=salt).alias(FINGERPRINT)


def whole(
    rows: DataFrame, spec: DocumentSpec, *, compared: bool = True, salt: int | None = None
) -> DataFrame:
    """Id, fingerprint where rows are compared, and all cells of each row of the index.

    With a salt the fingerprints can be compared with those of the same salt alone.
    """
    found = filtered(rows, spec)
    cells = _read(found, spec)
    return found.select(
        document_id(found, spec).alias(ID),
        *([fingerprint(cells, salt=salt).alias(FINGERPRINT)] if compared else []),
        *[value.alias(_cell_name(number)) for number, (_, value) in enumerate(cells)],
    )


def written_of(spec: DocumentSpec) -> tuple[Column, Column]:
    """Of a row in the shape of `whole` the document, and how many numbers it has as null that are
    none in the table."""
    cells = [(entry, F.col(_cell_name(number))) for number, entry in enumerate(spec.columns)]
    return document(cells), non_finite(cells)


def check_filter(reader: Reader, spec: DocumentSpec) -> None:
    """Raises FilterInvalid when `rowFilter` does not fit the table, or needs more than the row;
    reads no row."""
    if spec.row_filter is None:
        return
    # Without the metadata columns: which file a row is in changes with a compaction.
    nothing = reader.read(reader.nothing)
    check_condition(filtered(nothing, spec), spec.table, spec.row_filter)


def _read(rows: DataFrame, spec: DocumentSpec) -> Cells:
    return [(entry, cell(rows, (entry,))) for entry in spec.columns]


def _cell_name(number: int) -> str:
    return f"c{number}"
