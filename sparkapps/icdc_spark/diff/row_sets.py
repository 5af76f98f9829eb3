"""The rows that a changelog batch looks at, and what its strategies do alike with them.

It must not know which strategy asks.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.change_plan import ChangePlan
from icdc_spark.diff.rows import FINGERPRINT, ID, PLACE
from icdc_spark.documents.ids import cell
from icdc_spark.iceberg.changes.value_deletes import ValueDeletes
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.reader import Reader

OLD_ID, TWIN = "old_id", "twin"
MARKED = (*PLACE, "_deleted")

BROADCAST_VALUES = 200_000
"""Rows of equality deletes up to which the rows of files are not shuffled to find theirs."""

Make = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The four kinds of rows, as read; None where the plan has no file that could hold any.

    Nothing is computed before an action. `nothing` reads the same columns without rows. `count` is
    how many rows added and removed files have at most, None where there are other rows as well.
    """

    added: DataFrame | None
    removed: DataFrame | None
    gone: DataFrame | None
    undone: DataFrame | None
    nothing: Callable[[], DataFrame]
    count: int | None
    salt: int = field(default_factory=lambda: secrets.randbits(63))
    """Goes into the hashes by which rows are compared; another one each time."""

    def united(self, *parts: tuple[DataFrame | None, Make]) -> DataFrame:
        """What is made of some kinds, together: what cannot be there costs no planning."""
        made = [make(rows) for rows, make in parts if rows is not None]
        return union(made) if made else parts[0][1](self.nothing())

    def fresh_united(self, make: Make) -> DataFrame:
        """What is made of all rows that are there now."""
        return self.united((self.added, make), (self.undone, make))


def read_sides(reader: Reader, plan: ChangePlan, *, metadata: Sequence[str] = ()) -> Sides:
    """Reads positions deleted at both ends; a row deleted at one end only is gone, or undone.

    `metadata` is asked of the added and the removed rows. Where deletes tell which documents are
    gone, there are in place of these rows those of the deletes, of the same ids and nothing else,
    also of ids that never were.
    """
    before = _marked(reader, plan.deletes_before)
    after = _marked(reader, plan.deletes_after)
    gone = [_having(reader, each) for each in plan.by_value]
    if plan.keys_gone.files:
        gone.append(reader.read(plan.keys_gone))
    hidden = _without(after, before)
    if hidden is not None:
        gone.append(hidden.drop(*MARKED))
    undone = _without(before, after)
    counted = plan.added.records + plan.removed.records
    return Sides(
        added=_read(reader, plan.added, metadata),
        removed=_read(reader, plan.removed, metadata),
        gone=union(gone) if gone else None,
        undone=undone,
        nothing=lambda: reader.read(reader.nothing, metadata=metadata),
        count=None if gone or undone is not None else counted,
    )


def _read(reader: Reader, group: FileGroup, metadata: Sequence[str]) -> DataFrame | None:
    return reader.read(group, metadata=metadata) if group.files else None


def _marked(reader: Reader, group: FileGroup) -> DataFrame | None:
    """The deleted rows of files, with their places."""
    rows = _read(reader, group, MARKED)
    return None if rows is None else rows.where("_deleted")


def _having(reader: Reader, deletes: ValueDeletes) -> DataFrame:
    """The rows that have the values of a delete."""
    rows, deleted = reader.read(deletes.data), reader.read(deletes.deletes)
    values = deleted.select(
        *(cell(deleted, (each,)).alias(f"v{at}") for at, each in enumerate(deletes.fields))
    )
    if deletes.deletes.records <= BROADCAST_VALUES:
        values = F.broadcast(values)
    same = (
        cell(rows, (each,)).eqNullSafe(values[f"v{at}"]) for at, each in enumerate(deletes.fields)
    )
    return rows.join(values, on=reduce(Column.__and__, same), how="left_semi")


def _without(rows: DataFrame | None, others: DataFrame | None) -> DataFrame | None:
    """The rows that are not among others, by their places."""
    if rows is None or others is None:
        return rows
    place = list(PLACE)
    return rows.join(others.select(*place), on=place, how="left_anti")


def winners(rows: DataFrame) -> DataFrame:
    """One row per id, the one of the greatest fingerprint: always the same one, where that has no
    salt.

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
