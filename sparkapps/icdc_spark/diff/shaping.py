"""Make documents of the cells of rows, where a diff ends.

Rows are compared by the columns that fields are made of, and only those that are written get here.
So the expression of a field is evaluated once for each document that is sent, however many rows
were read. An example, where `total` is `price / n`:

| operation | price | n | `total` | what is sent |
|---|---|---|---|---|
| index 1 | 6.0 | 2 | 3.0 | a document with `"total": 3.0` |
| index 2 | 6.0 | null | null | a document without `total` |
| index 3 | 6.0 | 0 | fails | nothing: the row is refused, for the field `total` |
| delete 4 | | | not evaluated | a delete |

Export, changelog, lookups, verify and preview all come through here. It must not know what becomes
of a row that is refused.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.rows import EXPECT, ID, name_cell
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.documents.fields import DocumentField, Expression
from icdc_spark.documents.ids import quote_name
from icdc_spark.documents.serialise import count_non_finite, serialise_document
from icdc_spark.iceberg.table.expressions import VALUE, evaluate

_VALUES = "values"
"""The column with the values of all expressions."""


@dataclass(frozen=True, kw_only=True)
class ExpressionColumns:
    """The columns that evaluate the expressions of fields."""

    named: tuple[Column, ...]
    """Over the shape of `select_cells` with `expect`: the cells under the names of the table."""
    evaluated: tuple[Column, ...]
    """Over `named`: the cells under their own names again, and a struct with the values of all
    expressions."""
    raw: Column
    """Over `evaluated`: the columns that fields are made of as JSON text, for a refused row."""
    failed: Column
    """Over `evaluated`: the first field whose expression fails on the row; null if none does."""


@dataclass(frozen=True, kw_only=True)
class DocumentColumns:
    """The columns that make documents of cells. None of them is resolved: they fit each batch."""

    expressions: ExpressionColumns | None
    """Of the fields that expressions make; None where there are none."""
    source: Column
    """Over rows in the shape of `evaluate_expressions`: the document as JSON text."""
    non_finite: Column
    """Over the same: the count of NaN and infinities in the document, which become null."""


_BUILT: WeakKeyDictionary[Any, dict[Any, DocumentColumns]] = WeakKeyDictionary()
"""What `build_columns` has built, by gateway and fields. A column costs several calls into the JVM,
so those of twenty expressions take as long to build as the rest of a small batch."""
_MOST_BUILT = 1_000


def build_columns(session: SparkSession, spec: DocumentSpec) -> DocumentColumns:
    """Return the columns that make the documents; the same ones for every batch of a table."""
    built = _BUILT.setdefault(session.sparkContext._gateway, {})
    key = (spec.columns, spec.fields)
    columns = built.get(key)
    if columns is None:
        # Tables of one run share it, and any of their threads may clear it.
        if len(built) >= _MOST_BUILT:
            built.clear()
        source, non_finite = build_document(spec)
        columns = built[key] = DocumentColumns(
            expressions=_build_expressions(session, spec) if spec.expressions else None,
            source=source,
            non_finite=non_finite,
        )
    return columns


def evaluate_expressions(operations: DataFrame, columns: DocumentColumns) -> DataFrame:
    """Return rows in the shape of `select_cells` with `expect`, and a column of a struct.

    The struct has a field for each expression, as `evaluate` gives it. It is null for deletes,
    which may have no cells: their expressions are not evaluated.
    """
    if columns.expressions is None:
        return operations
    return operations.select(*columns.expressions.named).select(*columns.expressions.evaluated)


def build_document(spec: DocumentSpec) -> tuple[Column, Column]:
    """Return `source` and `non_finite` of `DocumentColumns`."""
    numbers = {made: number for number, (made, _) in enumerate(spec.expressions)}
    columns = {column.id: name_cell(number) for number, column in enumerate(spec.columns)}
    cells = [(made.entry, _read_field(made, columns, numbers)) for made in spec.fields]
    return serialise_document(cells), count_non_finite(cells)


def _build_expressions(session: SparkSession, spec: DocumentSpec) -> ExpressionColumns:
    names = [column.name for column in spec.columns]
    own_id, own_expect = _choose_free_names(names)
    cells = {name_cell(number): name for number, name in enumerate(names)}
    # An expression names columns as the table does: cells have these names while it is evaluated.
    named = (
        F.col(ID).alias(own_id),
        F.col(EXPECT).alias(own_expect),
        *(F.col(cell).alias(name) for cell, name in cells.items()),
    )
    # What two expressions share Spark evaluates once, before both, where no failure is caught; but
    # not what is in a branch. The second condition, true of all ids, is one that it cannot fold:
    # of an export it would see that every row is written, and take the branch away. One branch for
    # all of them: Spark takes longer to analyse one for each.
    is_written = (F.col(own_expect) != Expect.DELETED) & (F.length(own_id) >= 0)
    values = F.struct(
        *(
            evaluate(session, expression.text).alias(_name_value(number))
            for number, (_, expression) in enumerate(spec.expressions)
        )
    )
    evaluated = (
        F.col(own_id).alias(ID),
        F.col(own_expect).alias(EXPECT),
        *(F.col(quote_name(name)).alias(cell) for cell, name in cells.items()),
        F.when(is_written, values).alias(_VALUES),
    )
    return ExpressionColumns(
        named=named,
        evaluated=evaluated,
        raw=_build_raw_document(spec),
        failed=_name_failed_field(spec),
    )


def _build_raw_document(spec: DocumentSpec) -> Column:
    return serialise_document(
        [(column, F.col(name_cell(number))) for number, column in enumerate(spec.columns)]
    )


def _name_failed_field(spec: DocumentSpec) -> Column:
    values = F.col(_VALUES)
    first = F.coalesce(
        F.lit(None).cast("string"),
        *(
            F.when(values.getField(_name_value(number)).isNull(), F.lit(made.entry.name))
            for number, (made, _) in enumerate(spec.expressions)
        ),
    )
    return F.when(values.isNotNull(), first)


def _read_field(
    made: DocumentField, columns: dict[int, str], numbers: dict[DocumentField, int]
) -> Column:
    if isinstance(made.source, Expression):
        return F.col(_VALUES).getField(_name_value(numbers[made])).getField(VALUE)
    top, *inner = made.source
    cell = F.col(columns[top.id])
    for entry in inner:
        cell = cell.getField(entry.name)
    return cell


def _choose_free_names(taken: list[str]) -> tuple[str, str]:
    """Return names for id and `expect` that no column has, in any case."""
    # Longer than every name, and so equal to none, however Spark compares upper and lower case.
    length = max((len(name) for name in taken), default=0) + 1
    return "i" * length, "e" * length


def _name_value(number: int) -> str:
    return f"f{number}"
