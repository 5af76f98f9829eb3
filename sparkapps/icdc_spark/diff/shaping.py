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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from icdc_spark.diff.rows import EXPECT, ID, name_cell
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.documents.fields import DocumentField, Expression
from icdc_spark.documents.ids import build_routing, quote_name
from icdc_spark.documents.serialise import (
    Address,
    count_non_finite,
    finish_refused_line,
    serialise_document,
)
from icdc_spark.iceberg.table.expressions import evaluate
from icdc_spark.iceberg.table.interpreted import interpret


@dataclass(frozen=True, kw_only=True)
class ExpressionColumns:
    """The columns that evaluate the expressions of fields, and tell where one fails."""

    named: tuple[Column, ...]
    """Over the shape of `select_cells` with `expect`: the same, the cells under the names that the
    table has for them, since expressions name columns as the table does."""
    values: Column
    """Over `named`: a struct with the values of all expressions; null for deletes, and where one
    fails."""
    is_refused: Column
    """Over both: whether an expression fails on the row."""
    refused: Column
    """Over `named`, of a refused row: its lines, as `build_refused_line` takes them, with the first
    field whose expression fails, and the columns that fields are made of. Resolved already, for
    every session of the application."""


@dataclass(frozen=True, kw_only=True)
class DocumentColumns:
    """The columns that make documents of cells. They name what they read, and so fit each batch."""

    expressions: ExpressionColumns | None
    """Of the fields that expressions make; None where there are none."""
    address: Address
    """Over the result of `evaluate_expressions`, as all others: id and routing."""
    expect: Column
    """Which document each operation is expected to find."""
    source: Column
    """The document as JSON text."""
    non_finite: Column
    """The count of NaN and infinities in the document, which become null."""


_BUILT: WeakKeyDictionary[Any, dict[Any, DocumentColumns]] = WeakKeyDictionary()
"""What `build_columns` has built, by gateway and fields. A column costs several calls into the JVM,
so those of twenty expressions take as long to build as the rest of a small batch."""
_MOST_BUILT = 1_000


def build_columns(operations: DataFrame, spec: DocumentSpec) -> DocumentColumns:
    """Return the columns that make the documents of rows in the shape of `select_cells`.

    They are the same ones for every batch of a table, as long as its cells have the same types.
    """
    session = operations.sparkSession
    built = _BUILT.setdefault(session.sparkContext._gateway, {})
    types = _list_cell_types(operations, spec) if spec.expressions else ()
    key = (spec.columns, spec.fields, spec.identifiers, spec.routing, types)
    columns = built.get(key)
    if columns is None:
        # Tables of one run share it, and any of their threads may clear it.
        if len(built) >= _MOST_BUILT:
            built.clear()
        columns = built[key] = _build_columns(session, spec, types)
    return columns


def evaluate_expressions(operations: DataFrame, columns: DocumentColumns) -> DataFrame:
    """Return rows in the shape of `select_cells` with `expect` as `DocumentColumns` reads them."""
    made = columns.expressions
    if made is None:
        return operations
    return operations.select(*made.named).select("*", made.values)


def build_document(spec: DocumentSpec) -> tuple[Column, Column]:
    """Return `source` and `non_finite` of `DocumentColumns`."""
    names = _name_columns(spec)
    numbers = {made: number for number, (made, _) in enumerate(spec.expressions)}
    cells = [(made.entry, _read_field(made, names, numbers)) for made in spec.fields]
    return serialise_document(cells), count_non_finite(cells)


@dataclass(frozen=True, kw_only=True)
class _Names:
    """The names of the columns that `evaluate_expressions` returns."""

    id: str
    expect: str
    values: str
    cells: dict[int, str]
    """By the ids of the columns that fields are made of."""


def _name_columns(spec: DocumentSpec) -> _Names:
    if not spec.expressions:
        cells = {column.id: name_cell(number) for number, column in enumerate(spec.columns)}
        return _Names(id=ID, expect=EXPECT, values="", cells=cells)
    # An expression names columns as the table does, so cells have those names. Ours are longer than
    # every one of them, and so equal to none, however Spark compares upper and lower case.
    length = max((len(column.name) for column in spec.columns), default=0) + 1
    return _Names(
        id="i" * length,
        expect="e" * length,
        values="v" * length,
        cells={column.id: quote_name(column.name) for column in spec.columns},
    )


def _list_cell_types(operations: DataFrame, spec: DocumentSpec) -> tuple[T.DataType, ...]:
    # Not those of the spec: a column that was widened since is read as wide (`type_promotion`).
    schema = operations.schema
    return tuple(schema[name_cell(at)].dataType for at in range(len(spec.columns)))


def _build_columns(
    session: SparkSession, spec: DocumentSpec, types: Sequence[T.DataType]
) -> DocumentColumns:
    names = _name_columns(spec)
    source, non_finite = build_document(spec)
    return DocumentColumns(
        expressions=_build_expressions(session, spec, names, types) if types else None,
        address=_build_address(names, spec),
        expect=F.col(names.expect),
        source=source,
        non_finite=non_finite,
    )


def _build_expressions(
    session: SparkSession, spec: DocumentSpec, names: _Names, types: Sequence[T.DataType]
) -> ExpressionColumns:
    # What two expressions share Spark evaluates once, before both, where no failure is caught; but
    # not what is in a branch. The second condition, true of all ids, is one that it cannot fold:
    # of an export it would see that every row is written, and take the branch away.
    is_written = (F.col(names.expect) != Expect.DELETED) & (F.length(names.id) >= 0)
    texts = [expression.text for _, expression in spec.expressions]
    # Failures of all are caught at once: which one it was is worked out for rows that are refused.
    values = evaluate(session, {_name_value(number): text for number, text in enumerate(texts)})
    return ExpressionColumns(
        named=(
            F.col(ID).alias(names.id),
            F.col(EXPECT).alias(names.expect),
            *(F.col(name_cell(at)).alias(made.name) for at, made in enumerate(spec.columns)),
        ),
        values=F.when(is_written, values).alias(names.values),
        is_refused=(F.col(names.expect) != Expect.DELETED) & F.col(names.values).isNull(),
        refused=_explain_refusal(session, spec, names, types),
    )


def _build_address(names: _Names, spec: DocumentSpec) -> Address:
    identifier = F.col(names.id)
    address = [identifier.alias("_id")]
    if spec.routing:
        address.append(build_routing(identifier, spec).alias("routing"))
    return address


def _explain_refusal(
    session: SparkSession, spec: DocumentSpec, names: _Names, types: Sequence[T.DataType]
) -> Column:
    raw = [(column, F.col(names.cells[column.id])) for column in spec.columns]
    made = finish_refused_line(
        _build_address(names, spec), serialise_document(raw), _find_failed_field(session, spec)
    )
    # In a branch as above: an operand that an expression needs twice would get a column of its own,
    # which is evaluated before, and which the row does not have.
    made = F.when(F.length(names.id) >= 0, made)
    pairs = zip(spec.columns, types, strict=True)
    cells = [T.StructField(column.name, kind) for column, kind in pairs]
    rows = session.createDataFrame(
        [], T.StructType([T.StructField(names.id, T.StringType()), *cells])
    )
    # Few rows are refused, and what explains it would be two thirds of the code for all rows.
    return interpret(rows, made, [F.col(names.id), *(cell for _, cell in raw)])


def _find_failed_field(session: SparkSession, spec: DocumentSpec) -> Column:
    """Return the name of the first field that fails, of a row on which one does."""
    *earlier, (last, _) = spec.expressions
    return F.coalesce(
        *(
            F.when(evaluate(session, {"value": expression.text}).isNull(), F.lit(made.entry.name))
            for made, expression in earlier
        ),
        # If it is no other, it is this one: no row is refused without a name.
        F.lit(last.entry.name),
    )


def _read_field(made: DocumentField, names: _Names, numbers: dict[DocumentField, int]) -> Column:
    if isinstance(made.source, Expression):
        return F.col(names.values).getField(_name_value(numbers[made]))
    top, *inner = made.source
    cell = F.col(names.cells[top.id])
    for entry in inner:
        cell = cell.getField(entry.name)
    return cell


def _name_value(number: int) -> str:
    return f"f{number}"
