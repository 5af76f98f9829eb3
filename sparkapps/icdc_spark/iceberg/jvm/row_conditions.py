"""Refuses conditions on rows that need more than the row: the time, the user, chance, other tables.

A row whose verdict can change without a commit is in no changed file. It would stay in the index
after it left the filter, or never come into it. So a filter may depend on the row alone.

What Spark made of the filter is checked, not its text: functions have many names. Two steps:
1. Spark's own rules replace each function by what it stands for (`curdate()` by `current_date()`).
2. Every class of the resulting expressions has to be one that is computed from the row. A leaf that
   is not listed here is refused, so that functions of later versions of Spark are too.
"""

import re
from typing import Any

from pyspark.sql import DataFrame

from icdc_api.errors import FilterInvalid
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.errors import source_errors

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_RULES = "org.apache.spark.sql.catalyst.optimizer."

_LEAVES = frozenset(
    {
        "AttributeReference",
        "CommonExpressionRef",
        "EulerNumber",
        "Literal",
        "NamedLambdaVariable",
        "Pi",
        "ResolvedCollation",
    }
)
"""Expressions without a part that are the row's, or the same always."""

_REWRITTEN = frozenset({"CommonExpressionDef", "With"})
"""Of the expressions that Spark replaces before it computes anything those that keep to the row.
The others stand for what is known when the query starts, such as the time."""

_TYPED_NOW = re.compile(
    r"\b(date|time|timestamp(_ltz|_ntz)?)\s*r?['\"]\s*(now|today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)
"""Literals such as `date 'today'`, which the parser makes a plain day of."""

_VERSION_OF_ICEBERG = "IcebergVersionFunction"

_INSTEAD = (
    "A row has to enter and leave the index by a change of the row. Filter by a column that the "
    "writer of the table sets, and let the writer update it, for example when a row grows too old"
)


def check_condition(frame: DataFrame, table: str, row_filter: str) -> None:
    """Raise FilterInvalid unless the condition of `frame`, a filtered one, needs the row alone.

    `row_filter` is the condition as the user wrote it. Reads no row.
    """
    with source_errors(table):
        found = _dependency(Bridge(frame.sparkSession), frame, row_filter)
    if found:
        raise FilterInvalid(f"{table}: rowFilter `{row_filter}` {found}. {_INSTEAD}.")


def _dependency(bridge: Bridge, frame: DataFrame, row_filter: str) -> str:
    """What the condition depends on besides the row, in words; empty for nothing."""
    if _TYPED_NOW.search(row_filter):
        return "depends on the time of the run"
    analysed = frame._jdf.queryExecution().analyzed()
    plan = bridge.statics(_RULES + "ReplaceExpressions").apply(analysed)
    condition = plan.expressions().head()
    # Before and after: `version()` is replaced by a call that shows no more what it is.
    classes = _classes(bridge, analysed.expressions().head()) | _classes(bridge, condition)
    foreign = sorted(name for name in classes if not _is_of_row(bridge, name))
    if foreign:
        names = ", ".join(name.rpartition(".")[2] for name in foreign)
        return f"depends on more than the row ({names})"
    if not condition.deterministic():
        return "is not deterministic: it need not give the same answer twice for one row"
    # Text that is compared with a time, such as `day > 'yesterday'`.
    if not bridge.statics(_RULES + "SpecialDatetimeValues").apply(plan).fastEquals(plan):
        return "depends on the time of the run"
    if _VERSION_OF_ICEBERG in str(condition.toString()):
        return "depends on the version of Iceberg"
    return ""


def _classes(bridge: Bridge, expression: Any) -> set[str]:
    """The names of the classes of an expression and of all its parts."""
    seen = expression.map(bridge.scala_function("java.lang.Object", "getClass")).distinct()
    return {text.removeprefix("class ") for text in str(seen.mkString("\n")).split("\n")}


def _is_of_row(bridge: Bridge, class_name: str) -> bool:
    simple = class_name.rpartition(".")[2]
    if bridge.is_kind(class_name, _EXPRESSIONS + "PlanExpression"):
        return False
    if bridge.is_kind(class_name, _EXPRESSIONS + "LeafExpression"):
        return simple in _LEAVES
    return simple in _REWRITTEN or not bridge.is_kind(class_name, _EXPRESSIONS + "Unevaluable")
