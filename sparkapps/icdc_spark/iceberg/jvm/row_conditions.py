"""Refuse conditions that depend on more than the row: the time, the user, chance, other tables.

Suppose that a filter accepts a row today and refuses it tomorrow, without a commit. The row is in
no changed file, so it would stay in the index for ever. So a filter may depend on the row alone,
and so may the expression of a field (`table.expressions`), for the same reason.

Checked is Spark's analysed plan of the filter, not its text: functions have many names. Two steps:

1. Spark's own rules replace each function by what it stands for.
2. Every class of the resulting expressions has to be one that is computed from the row. A leaf
   expression that is not listed here is refused, so functions of later Spark versions are as well.

Example:

    filter                       analysed                        result
    day > date '2024-01-01'      AttributeReference, Literal     accepted
    day > curdate()              CurrentDate, after step 1       refused: an unlisted leaf
    rand() < 0.5                 Rand                            refused: not deterministic
    id in (select id from t)     a PlanExpression                refused: another table
    day > 'yesterday'            a text cast to a date           refused: depends on the time
    at > '10:30'                 a text cast to a timestamp      refused: of the day of the run
    window(at, '1 day') …        a Project below the Filter      refused: Spark changes the rows
    from_protobuf(x, 'M', path)  not analysed                    refused: the analysis reads a file
"""

import re
from typing import Any

from pyspark.sql import DataFrame

from icdc_api.errors import FilterInvalid
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors

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
"""Leaf expressions that are values of the row, or constants."""

_REWRITTEN = frozenset({"CommonExpressionDef", "With"})
"""Expressions that Spark replaces before execution, by others that depend on the row alone.

All other expressions that cannot be evaluated stand for what is set when the query starts, such as
the time."""

_TIMES = frozenset({"CurrentTime"})
"""Functions of the time that are no leaves, since they take a precision, and that Spark evaluates
as any other function of their argument."""

_TOKEN = re.compile(
    r"(?P<skipped>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<text>r'[^']*'|r\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|`[^`]*`|\w+|.",
    re.IGNORECASE | re.DOTALL,
)
_TIME_TYPE = re.compile(r"date|time|timestamp(_ltz|_ntz)?", re.IGNORECASE)
_FIXED = re.compile(r"r?['\"]\s*([+-]?\d{4}|epoch)", re.IGNORECASE)
"""The beginning of a text that names a day, the same one in every run."""
_FIXED_TIME = re.compile(r"r?['\"]\s*\d", re.IGNORECASE)
"""The same of the type `time`, which has no day."""
_TIME_ALONE = re.compile(r"['\"]\s*(T\d|\d{1,2}:)", re.IGNORECASE)
_CAST_OF_TIME_ALONE = re.compile(r"cast\(\s*(T\d|\d{1,2}:)[^#()\n]* as timestamp\)", re.IGNORECASE)
"""To a timestamp Spark casts the text `10:30` as half past ten of the day on which it does so."""

_READERS = re.compile(r"(from|to)_protobuf|identifier", re.IGNORECASE)
"""Functions that read a file while Spark analyses them, and the clause that gives a function its
name by an expression: these may not even be analysed."""

_XML = frozenset({"XmlToStructs", "SchemaOfXml"})
_XML_FILE = "rowvalidationxsdpath"
"""The option of functions of XML that names a file, whose content decides on the result."""

_RANDOM = frozenset(
    {"AesEncrypt", "KllSketchMergeBigint", "KllSketchMergeDouble", "KllSketchMergeFloat"}
)
"""Functions that draw random bytes, or drop values by chance, but that Spark takes for
deterministic."""

_VERSION_OF_ICEBERG = "IcebergVersionFunction"

_INSTEAD = (
    "A row may enter or leave the index only when the row itself changes. Filter by a column that "
    "the writer of the table sets, and let the writer update it, for example when a row grows too "
    "old"
)


_VERDICTS: dict[str, bool] = {}
"""What was found out about classes. They never change, and all expressions have much the same."""


def find_reader(text: str) -> str:
    """Return a clause that says what would read a file once the text is analysed; mostly empty."""
    previous = ""
    for token in _TOKEN.finditer(text):
        if token["skipped"]:
            continue
        if token[0] == "(" and _READERS.fullmatch(previous):
            return f"calls {previous.lower()}(), which may read a file"
        previous = token[0].strip("`")
    return ""


def check_condition(rows: DataFrame, filtered: DataFrame, table: str, row_filter: str) -> None:
    """Raise FilterInvalid if the condition of a filtered frame depends on more than the row.

    `row_filter` is the condition as the user wrote it. Reads no row.
    """
    with translate_source_errors(table):
        problem = find_dependency(Bridge(rows.sparkSession), rows, filtered, row_filter)
    if problem:
        raise FilterInvalid(f"{table}: rowFilter `{row_filter}` {problem}. {_INSTEAD}.")


def find_dependency(bridge: Bridge, rows: DataFrame, filtered: DataFrame, row_filter: str) -> str:
    """Return a clause that says what the condition depends on; empty if on the row alone.

    `filtered` is the rows for which the condition holds.
    """
    if _has_typed_now(row_filter):
        return "depends on the time of the run"
    # Not the optimised plan: there Spark has put today's date in the place of `curdate()`.
    analysed = filtered._jdf.queryExecution().analyzed()
    # For `window` and its like Spark drops rows or multiplies them below the condition, which then
    # reads the result as if it were a column.
    if not analysed.children().head().fastEquals(rows._jdf.queryExecution().analyzed()):
        return "stands for several rows or none, as window() does"
    plan = bridge.get_statics(_RULES + "ReplaceExpressions").apply(analysed)
    condition = plan.expressions().head()
    # Before and after the replacement: `version()` is replaced by a call of any static method.
    before = list_classes(bridge, analysed.expressions().head())
    classes = before | list_classes(bridge, condition)
    foreign = sorted(name for name in classes if not _is_row_expression(bridge, name))
    if foreign:
        names = ", ".join(name.rpartition(".")[2] for name in foreign)
        return f"depends on more than the row ({names})"
    is_random = any(name.rpartition(".")[2] in _RANDOM for name in before)
    if is_random or not condition.deterministic():
        return "is not deterministic: it may give two answers for one row"
    if _names_xml_file(bridge, analysed.expressions().head(), before):
        return f"depends on a file ({_XML_FILE})"
    # This rule replaces a text that is compared with a time, such as `day > 'yesterday'`.
    if not bridge.get_statics(_RULES + "SpecialDatetimeValues").apply(plan).fastEquals(plan):
        return "depends on the time of the run"
    if _TIME_ALONE.search(row_filter) and _casts_time_alone(bridge, condition):
        return "depends on the day of the run: name the date as well"
    # To Spark this is a call like any other, whose classes pass above.
    if _VERSION_OF_ICEBERG in str(condition.toString()):
        return "depends on the version of Iceberg"
    return ""


def _has_typed_now(text: str) -> bool:
    """Return whether a text has a literal such as `date 'today'`, which is a plain day once parsed.

    Only those count as fixed that begin with a year: words may be written with escapes.
    """
    previous = ""
    for token in _TOKEN.finditer(text):
        if token["skipped"]:
            continue
        fixed = _FIXED_TIME if previous.lower() == "time" else _FIXED
        if token["text"] and _TIME_TYPE.fullmatch(previous) and not fixed.match(token[0]):
            return True
        previous = token[0]
    return False


def list_classes(bridge: Bridge, expression: Any) -> set[str]:
    """Return the names of the classes of an expression and of all expressions inside it."""
    distinct = expression.map(
        bridge.build_scala_function("java.lang.Object", "getClass")
    ).distinct()
    return {text.removeprefix("class ") for text in str(distinct.mkString("\n")).split("\n")}


def _names_xml_file(bridge: Bridge, expression: Any, classes: set[str]) -> bool:
    """Return whether a function of XML has the option that names a file."""
    if not any(name.rpartition(".")[2] in _XML for name in classes):
        return False
    # The text of each part: that of a whole is cut where it has many arguments.
    texts = expression.map(bridge.build_scala_function("java.lang.Object", "toString"))
    return _XML_FILE in str(texts.mkString("\n")).lower()


def _casts_time_alone(bridge: Bridge, expression: Any) -> bool:
    """Return whether a constant text with a time and without a day is cast to a timestamp."""
    texts = expression.map(bridge.build_scala_function("java.lang.Object", "toString"))
    return bool(_CAST_OF_TIME_ALONE.search(str(texts.mkString("\n"))))


def _is_row_expression(bridge: Bridge, class_name: str) -> bool:
    """Return whether expressions of a class are computed from the row alone."""
    if class_name not in _VERDICTS:
        _VERDICTS[class_name] = _judge_class(bridge, class_name)
    return _VERDICTS[class_name]


def _judge_class(bridge: Bridge, class_name: str) -> bool:
    simple = class_name.rpartition(".")[2]
    if simple in _TIMES or bridge.is_subclass(class_name, _EXPRESSIONS + "PlanExpression"):
        return False
    if bridge.is_subclass(class_name, _EXPRESSIONS + "LeafExpression"):
        return simple in _LEAVES
    return simple in _REWRITTEN or not bridge.is_subclass(class_name, _EXPRESSIONS + "Unevaluable")
