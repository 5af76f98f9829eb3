"""The result of the diff: bulk operations as bytes, one per key, and counts of what was written.

For the sink a frame of two columns:

| line | expect |
|---|---|
| `{"index":{"version":..,"_id":"7"}}\\n{"name":"a"}\\n` | `c` |
| `{"delete":{"version":..,"_id":"8"}}\\n` | `d` |
| `{"delete":{"version":..,"_id":"a|8","routing":"a"}}\\n` | `d` |
| `{"index":{"version":..,"_id":"9","failed":"total"}}\\n{"name":"c"}\\n` | `r` |

The sink knows these columns and nothing of tables; nothing here knows the sink.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.rows import EXPECT, ID, ROUTING
from icdc_spark.diff.shaping import build_columns, evaluate_expressions
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.documents.forms import has_type
from icdc_spark.documents.serialise import (
    FLOATS,
    Address,
    build_delete_line,
    build_index_line,
    build_refused_line,
)


@dataclass(frozen=True, kw_only=True)
class LineCounts:
    """Counts taken while the lines were written."""

    lines: int
    """Operations, one for each document."""
    non_finite: int
    """NaN and infinities that were written as null."""
    duplicate_keys: int | None
    """Keys that occur more than once among the new rows; None where they were not counted."""


@dataclass(frozen=True, kw_only=True)
class OperationLines:
    """Serialised operations that nothing has computed yet."""

    frame: DataFrame
    """Columns `line` (binary, one whole NDJSON operation) and `expect`; and what the line names,
    for who compares: `id` and `routing`, which is empty where there is none."""
    written: Observation
    """The counts of lines, filled by the first action on `frame`."""
    keys_seen: Observation | None = None
    """The count of duplicate keys, filled likewise; None where they are not counted."""
    has_floats: bool = True
    """Whether a document can have a number that JSON does not have."""

    def read_non_finite(self) -> int:
        """Return `LineCounts.non_finite`; at once where no document can have such numbers."""
        return self.read_counts().non_finite if self.has_floats else 0

    def read_counts(self) -> LineCounts:
        """Return the counts. Blocks until an action has read the whole of `frame`."""
        written = self.written.get
        duplicates = None
        if self.keys_seen is not None:
            duplicates = int(self.keys_seen.get["duplicates"] or 0)
        return LineCounts(
            # An observation over no row has nulls for sums.
            lines=int(written["lines"] or 0),
            non_finite=int(written["non_finite"] or 0),
            duplicate_keys=duplicates,
        )


def serialise_operations(
    operations: DataFrame,
    spec: DocumentSpec,
    *,
    version: int,
    keys_seen: Observation | None = None,
) -> OperationLines:
    """Serialise rows in the shape of `select_cells` with `expect`; deletes need only ids."""
    columns = build_columns(operations, spec)
    operations = evaluate_expressions(operations, columns)
    is_delete = columns.expect == Expect.DELETED
    line = F.when(is_delete, build_delete_line(columns.address, version=version))
    expect = columns.expect
    if made := columns.expressions:
        line = line.when(made.is_refused, build_refused_line(made.refused, version=version))
        refused = F.when(expect == Expect.CREATED, Expect.REFUSED_NEW).otherwise(Expect.REFUSED)
        expect = F.when(made.is_refused, refused).otherwise(expect)
    line = line.otherwise(build_index_line(columns.address, columns.source, version=version))
    # A delete has no document in which a number could be lost; its cells may come from a join.
    lost = F.when(is_delete, F.lit(0)).otherwise(columns.non_finite)
    lines = operations.select(
        line.alias("line"),
        expect.alias(EXPECT),
        *_name_address(columns.address),
        lost.alias("non_finite"),
    )
    # Counted on the way to the sink: counts need no pass over the lines of their own.
    written = Observation()
    counted = lines.observe(
        written,
        F.count(F.lit(1)).alias("lines"),
        F.sum("non_finite").alias("non_finite"),
    )
    return OperationLines(
        frame=counted.drop("non_finite"),
        written=written,
        keys_seen=keys_seen,
        has_floats=any(has_type(made.entry, FLOATS) for made in spec.fields),
    )


def _name_address(address: Address) -> tuple[Column, Column]:
    identifier, *routing = address
    return identifier.alias(ID), (routing[0] if routing else F.lit("")).alias(ROUTING)


def serialise_removals(strays: DataFrame, *, version: int) -> DataFrame:
    """Return lines as `OperationLines.frame` has them, which delete documents by `id` and `routing`
    whatever the ids say."""
    address = [F.col(ID).alias("_id"), F.col(ROUTING)]
    line = build_delete_line(address, version=version)
    return add_expect(strays.select(line.alias("line")), Expect.DELETED)


def add_expect(rows: DataFrame, expect: Expect | Column) -> DataFrame:
    """Add the column `expect`: which document each operation is expected to find."""
    value = F.lit(expect) if isinstance(expect, Expect) else expect
    return rows.withColumn(EXPECT, value)
