"""What the diff hands to the sink: bulk operations as bytes, one per key, and what was counted.

The sink knows the two columns and nothing of tables.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.rows import ID, written_of
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.documents.serialise import delete_line, index_line

EXPECT = "expect"


@dataclass(frozen=True, kw_only=True)
class LineCounts:
    """What was counted while the lines were written."""

    lines: int
    non_finite: int
    """NaN and infinities that were written as null."""
    duplicate_keys: int | None
    """Keys that occur more than once among the rows added; None when they were not looked for."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """`frame` has the columns `line` (binary, whole NDJSON operations) and `expect`."""

    frame: DataFrame
    written: Observation
    keys_seen: Observation | None = None

    def counts(self) -> LineCounts:
        """The counts; blocks until an action has gone once through the whole of `frame`."""
        written = self.written.get
        duplicates = None
        if self.keys_seen is not None:
            duplicates = int(self.keys_seen.get["duplicates"] or 0)
        return LineCounts(
            lines=int(written["lines"] or 0),
            non_finite=int(written["non_finite"] or 0),
            duplicate_keys=duplicates,
        )


def to_lines(
    operations: DataFrame,
    spec: DocumentSpec,
    *,
    version: int,
    keys_seen: Observation | None = None,
) -> Lines:
    """Serialises operations: rows in the shape of `whole`, with `expect`; deletes need only ids."""
    deleted = F.col(EXPECT) == Expect.DELETED
    source, non_finite = written_of(spec)
    line = F.when(deleted, delete_line(F.col(ID), version=version)).otherwise(
        index_line(F.col(ID), source, version=version)
    )
    lost = F.when(deleted, F.lit(0)).otherwise(non_finite)
    made = operations.select(line.alias("line"), F.col(EXPECT), lost.alias("non_finite"))
    written = Observation()
    observed = made.observe(
        written, F.count(F.lit(1)).alias("lines"), F.sum("non_finite").alias("non_finite")
    )
    return Lines(frame=observed.select("line", EXPECT), written=written, keys_seen=keys_seen)


def with_expect(rows: DataFrame, expect: Expect | Column) -> DataFrame:
    """Adds what the index is expected to answer."""
    value = F.lit(expect) if isinstance(expect, Expect) else expect
    return rows.withColumn(EXPECT, value)
