"""Analyse and evaluate the expressions of `fields`: Spark SQL over the columns of a row.

An expression is analysed over a frame without rows that has the columns of a schema, as readers
show them. What a row filter may not depend on, an expression may not either (`row_conditions`): a
document would change without a commit.

    price * n           decimal(20,2), reads price and n
    sum(price)          refused: not of one row
    rand() * price      refused: not deterministic
    prize * n           refused: no such column; Spark names the nearest

An expression may fail on a row, as 1 / n does where n is 0. `evaluate` gives null there, and a
struct of the values everywhere else: a plain null is a value, and so differs from a failure.
"""

import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.classic.column import Column as ClassicColumn

from icdc_api.base import shorten
from icdc_api.errors import FieldInvalid
from icdc_spark.documents.fields import MOST_SHOWN, Analyse, Analysis
from icdc_spark.documents.schema import Field, ListOf, MapOf, Primitive, Schema, Struct, Type
from icdc_spark.documents.wishes import Renamed, describe_renamed
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.row_conditions import find_dependency, find_reader, list_classes
from icdc_spark.iceberg.jvm.source_errors import translate_analysis_errors
from icdc_spark.iceberg.table.interpreted import EXPRESSION_UTILS

_ROWS = re.compile(
    r"INVALID_WHERE_CONDITION|window functions|UNSUPPORTED_GENERATOR|TABLE_OR_VIEW_NOT_FOUND"
    r"|UNSUPPORTED_GROUPING_EXPRESSION"
)
"""What Spark says of an expression that is not of one row; it speaks of a query around it."""

_ALONE = (
    ". A field is made of its row alone: aggregates, windows, subqueries and functions that give "
    "several rows are refused"
)

_TRY = "org.apache.spark.sql.catalyst.expressions.TryEval"

_SPARK_TYPES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "date": T.DateType(),
    "timestamp": T.TimestampNTZType(),
    "timestamptz": T.TimestampType(),
    "binary": T.BinaryType(),
    "fixed": T.BinaryType(),
    "variant": T.VariantType(),
}
"""What Spark has for a type. Text stands for all others, as readers give it."""

_NAMES: dict[type[T.DataType], str] = {
    T.BooleanType: "boolean",
    T.ByteType: "int",
    T.ShortType: "int",
    T.IntegerType: "int",
    T.LongType: "long",
    T.FloatType: "float",
    T.DoubleType: "double",
    T.DateType: "date",
    T.TimestampNTZType: "timestamp",
    T.TimestampType: "timestamptz",
    T.StringType: "string",
    T.BinaryType: "binary",
    T.VariantType: "variant",
}
"""The types that an expression may have, and those of the table that have the same documents."""


def build_analyser(session: SparkSession, table: str, renamed: Renamed | None = None) -> Analyse:
    """Return the function that analyses the expressions of a table's fields.

    What is wrong is said with the present names of the columns that were `renamed`.
    """

    def analyse(schema: Schema, field: str, text: str) -> Analysis:
        # A status takes a kilobyte, and what is wrong stands behind the expression.
        short = shorten(text, MOST_SHOWN)
        shown = f"{table}: fields: the expression `{short}` of field `{field}`"
        bridge = Bridge(session)
        reader = find_reader(text)
        if reader:
            raise FieldInvalid(f"{shown} {reader}")
        with translate_analysis_errors(table, FieldInvalid, shown):
            if _has_star(bridge, text):
                raise FieldInvalid(f"{shown} has a star, and not one value: name the columns")
            rows = session.createDataFrame([], build_struct(schema.fields))
            # As a condition: there Spark refuses aggregates, windows and generators by itself.
            condition = rows.where(F.expr(text).isNotNull())
            problem = find_dependency(bridge, rows, condition, text)
            if problem:
                raise FieldInvalid(
                    f"{shown} {problem}. A document may change only when its row changes: let the "
                    "writer of the table set a column, and use that"
                )
            (made,) = rows.select(F.expr(text)).schema.fields
            return Analysis(_convert(made.dataType), _list_references(condition))

    def analyse_named(schema: Schema, field: str, text: str) -> Analysis:
        try:
            return analyse(schema, field, text)
        except FieldInvalid as error:
            hint = _ALONE if _ROWS.search(error.message) else ""
            hint += describe_renamed(renamed or {}, text)
            raise FieldInvalid(
                f"{error.message.rstrip('.')}{hint}" if hint else error.message
            ) from error

    return analyse_named


def evaluate(session: SparkSession, values: Mapping[str, str]) -> Column:
    """Return a struct with the values of expressions under their names; null where one fails."""
    bridge = Bridge(session)
    utils = bridge.get_statics(EXPRESSION_UTILS)
    made = F.struct(*(F.expr(text).alias(name) for name, text in values.items()))
    # What `try_cast` and its like are made of; Spark has no function that tries anything.
    tried = bridge.create_object(_TRY, utils.expression(made._jc))
    return ClassicColumn(utils.column(tried))


def _has_star(bridge: Bridge, text: str) -> bool:
    """Return whether a star in the text would stand for all columns, ours among them."""
    parsed = bridge.java_session.sessionState().sqlParser().parseExpression(text)
    # Each form of it, as `* except (…)` and a name that is a pattern, has a class of its own.
    return any(
        name.rpartition(".")[2].startswith(("UnresolvedStar", "UnresolvedRegex"))
        for name in list_classes(bridge, parsed)
    )


def _list_references(condition: DataFrame) -> frozenset[str]:
    analysed = condition._jdf.queryExecution().analyzed()
    references = analysed.expressions().head().references().toList()
    return frozenset(
        str(references.apply(position).name()) for position in range(references.size())
    )


def build_struct(fields: tuple[Field, ...]) -> T.StructType:
    """Return what Spark has for the columns of a table, as readers show them."""
    return T.StructType([T.StructField(entry.name, _build_type(entry.type)) for entry in fields])


def _build_type(kind: Type) -> T.DataType:
    match kind:
        case Primitive("decimal", precision, scale):
            return T.DecimalType(precision, scale)
        case Primitive(name):
            return _SPARK_TYPES.get(name, T.StringType())
        case Struct(fields):
            return build_struct(fields)
        case ListOf(element):
            return T.ArrayType(_build_type(element.type))
        case MapOf(key, value):
            return T.MapType(_build_type(key.type), _build_type(value.type))


def _convert(kind: T.DataType) -> Type:
    """Return the type as tables have it; one of Spark's own name where they have none."""
    match kind:
        case T.DecimalType():
            return Primitive("decimal", kind.precision, kind.scale)
        case T.StructType():
            return Struct(
                tuple(Field(0, entry.name, _convert(entry.dataType)) for entry in kind.fields)
            )
        case T.ArrayType():
            return ListOf(Field(0, "element", _convert(kind.elementType)))
        case T.MapType():
            key, value = _convert(kind.keyType), _convert(kind.valueType)
            return MapOf(Field(0, "key", key), Field(0, "value", value))
        case _:
            own = [name for python_type, name in _NAMES.items() if isinstance(kind, python_type)]
            return Primitive(own[0] if own else kind.simpleString())
