"""The rows that a changelog batch looks at, and what its strategies do alike with them.

It must not know which strategy asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.plan import ChangePlan
from icdc_spark.diff.rows import FINGERPRINT, ID, PLACE
from icdc_spark.readers.reader import Reader

OLD_ID, TWIN = "old_id", "twin"


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The four kinds of rows, as read; nothing is computed before an action."""

    added: DataFrame
    removed: DataFrame
    gone: DataFrame
    undone: DataFrame


def read_sides(reader: Reader, plan: ChangePlan, *, metadata: Sequence[str] = ()) -> Sides:
    """Reads positions deleted at both ends; a row deleted at one end only is gone, or undone.

    `metadata` is asked of the added and the removed rows.
    """
    marks = (*PLACE, "_deleted")
    before = reader.read(plan.deletes_before, metadata=marks).where("_deleted")
    after = reader.read(plan.deletes_after, metadata=marks).where("_deleted")
    place = list(PLACE)
    return Sides(
        added=reader.read(plan.added, metadata=metadata),
        removed=reader.read(plan.removed, metadata=metadata),
        gone=after.join(before.select(*place), on=place, how="left_anti"),
        undone=before.join(after.select(*place), on=place, how="left_anti"),
    )


def winners(rows: DataFrame) -> DataFrame:
    """One row per id, the one of the greatest fingerprint, so that the choice is repeatable.

    Column `twin` tells whether the id had other rows.
    """
    per_id = Window.partitionBy(ID).orderBy(F.col(FINGERPRINT).desc())
    ranked = rows.withColumn("rank", F.row_number().over(per_id)).withColumn(
        TWIN, F.lead(F.col(FINGERPRINT)).over(per_id).isNotNull()
    )
    return ranked.where(F.col("rank") == 1).drop("rank")


def observed(rows: DataFrame, is_twin: Column, seen: Observation) -> DataFrame:
    """The rows; once they were computed, `seen` tells how many of them are twins."""
    return rows.observe(seen, F.count_if(is_twin).alias("duplicates"))


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns."""
    return reduce(DataFrame.unionByName, frames)
