"""Evaluate columns that are needed for few rows without generating code for them.

Spark writes all that follows a join into one Java method, also what is behind a condition that
hardly a row meets. The JVM compiles no method of more than 8,000 bytes, so what few rows need makes
all others slow, and each query analyses it anew. Here an expression is resolved once, and the plan
has only a call of it:

    case when n = 0 then explain(a, b, n) end           three pages of code
    case when n = 0 then resolved.eval(struct(a, b, n)) end         one call

A row takes several times as long that way.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.column import Column as ClassicColumn

from icdc_spark.iceberg.jvm.bridge import Bridge

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
EXPRESSION_UTILS = "org.apache.spark.sql.classic.ExpressionUtils"
"""What makes expressions of columns, and the reverse."""
_OBJECT_TYPE = "org.apache.spark.sql.types.ObjectType"


def interpret(rows: DataFrame, made: Column, values: Sequence[Column]) -> Column:
    """Return a column with what `made` is over `rows`, a frame whose own rows nobody needs.

    values: what the columns of `rows` are, in their order and of their types.
    """
    bridge = Bridge(rows.sparkSession)
    utils = bridge.get_statics(EXPRESSION_UTILS)
    resolved = _resolve(bridge, rows, made)
    kind = bridge.create_object(_OBJECT_TYPE, bridge.load_class(f"{_EXPRESSIONS}Expression"))
    evaluator = bridge.create_object(f"{_EXPRESSIONS}Literal", resolved, kind)
    to_list: Any = bridge.jvm.PythonUtils.toList
    row = utils.expression(F.struct(*values)._jc)
    propagates_null, may_be_null, is_deterministic = True, True, True
    call = bridge.create_object(
        f"{_EXPRESSIONS}objects.Invoke",
        *(evaluator, "eval", resolved.dataType(), to_list([row]), to_list([])),
        *(propagates_null, may_be_null, is_deterministic),
    )
    return ClassicColumn(utils.column(call))


def _resolve(bridge: Bridge, rows: DataFrame, made: Column) -> Any:
    """Return a column of `rows` as an expression that reads a row by positions."""
    # Of the optimised plan, as there are expressions that Spark replaces before it evaluates any.
    plan = rows.select(made)._jdf.queryExecution().optimizedPlan()
    columns = rows._jdf.queryExecution().analyzed().output()
    attributes = bridge.create_object(f"{_EXPRESSIONS}package$AttributeSeq", columns)
    binding = bridge.get_statics(f"{_EXPRESSIONS}BindReferences")
    return binding.bindReference(plan.expressions().head().child(), attributes, False)
