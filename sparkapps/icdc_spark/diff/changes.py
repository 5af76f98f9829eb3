"""From a plan to bulk operations: what changed between two snapshots, one operation per key.

New rows are those of added files and those whose deletion was undone; old rows are those of removed
files and those newly deleted. An id among the new rows is written, unless an old row of equal
fingerprint shows that it was only carried over; an id among the old rows alone is deleted. So a
compaction, which removes and adds the same rows, writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.lines import CREATED, DELETED, EXPECT, UPDATED, Lines, to_lines, with_expect
from icdc_spark.diff.plan import ChangePlan, Chunk
from icdc_spark.diff.rows import FINGERPRINT, ID, PLACE, compared, keys, metadata_of, whole
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.errors import source_errors
from icdc_spark.readers.reader import Reader

ONE_READ_BYTES = 64 * 1024 * 1024
"""Compressed bytes of added files up to which whole rows go through the join at once."""

BROADCAST_IDS = 200_000
"""Changed ids up to which the rows are fetched without a shuffle of the added files."""

_OLD_FINGERPRINT, _OLD_ID, _OLD_UNKNOWN, _DUPLICATE = "old_fp", "old_id", "old_unknown", "twin"


class Strategy(StrEnum):
    """How old and new rows meet. All give the same operations, at different cost."""

    APPEND = "Append"
    """There are no old rows: no shuffle."""
    ONE_READ = "OneRead"
    """Whole new rows travel to the join: one pass, for little data."""
    TWO_READS = "TwoReads"
    """Only ids and fingerprints travel; changed rows are fetched in a second, narrow read."""
    STREAM = "Stream"
    """Every row of added files is new, as merge-on-read writes them: only old ids travel."""


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """The four kinds of rows, as read; nothing is computed before an action."""

    added: DataFrame
    removed: DataFrame
    gone: DataFrame
    undone: DataFrame


def choose(plan: ChangePlan) -> Strategy:
    """The cheapest strategy by the plan's counts."""
    if plan.is_append:
        return Strategy.APPEND
    if plan.added.bytes <= ONE_READ_BYTES:
        return Strategy.ONE_READ
    return Strategy.STREAM if plan.removed.files == 0 else Strategy.TWO_READS


def export_lines(reader: Reader, chunk: Chunk, spec: DocumentSpec, *, version: int) -> Lines:
    """Every row of a chunk as an index operation."""
    with source_errors(reader.table_name):
        rows = whole(reader.read(chunk.group, metadata=metadata_of(spec)), spec)
        return to_lines(with_expect(rows, CREATED), spec, version=version)


def changes(
    reader: Reader,
    plan: ChangePlan,
    spec: DocumentSpec,
    *,
    version: int,
    strategy: Strategy | None = None,
) -> Lines:
    """The operations that bring an index from one snapshot to the other; `strategy` is for tests.

    TWO_READS and STREAM run a first pass at once; the rest is computed when lines are consumed.
    """
    with source_errors(reader.table_name):
        seen = Observation()
        match strategy or choose(plan):
            case Strategy.APPEND:
                rows = whole(reader.read(plan.added, metadata=metadata_of(spec)), spec)
                return to_lines(with_expect(rows, CREATED), spec, version=version)
            case Strategy.STREAM:
                return to_lines(_stream(reader, plan, spec), spec, version=version)
            case Strategy.ONE_READ:
                operations = _one_read(_sides(reader, plan), spec, seen)
            case Strategy.TWO_READS:
                operations = _two_reads(reader, _sides(reader, plan), spec, seen)
        return to_lines(operations, spec, version=version, keys_seen=seen)


def changed_ids(reader: Reader, plan: ChangePlan, spec: DocumentSpec) -> DataFrame:
    """The ids (column `id`, each once) of which any row was added, removed or deleted.

    More than those that `changes` writes: for tables with duplicate keys, whose ids are looked up
    in the snapshot itself.
    """
    with source_errors(reader.table_name):
        if spec.append_only:
            return keys(reader.read(plan.added, metadata=PLACE), spec).distinct()
        sides = _sides(reader, plan)
        found = [sides.added, sides.removed, sides.gone, sides.undone]
        return _union([keys(rows, spec) for rows in found]).distinct()


def winners(rows: DataFrame) -> DataFrame:
    """One row per id, the one of the greatest fingerprint, so that the choice is repeatable.

    Column `twin` tells whether the id had other rows.
    """
    per_id = Window.partitionBy(ID).orderBy(F.col(FINGERPRINT).desc())
    ranked = rows.withColumn("rank", F.row_number().over(per_id)).withColumn(
        _DUPLICATE, F.lead(F.col(FINGERPRINT)).over(per_id).isNotNull()
    )
    return ranked.where(F.col("rank") == 1).drop("rank")


def _sides(reader: Reader, plan: ChangePlan) -> _Sides:
    """Reads positions deleted at both ends; a row deleted at one end only is gone, or undone."""
    marks = (*PLACE, "_deleted")
    before = reader.read(plan.deletes_before, metadata=marks).where("_deleted")
    after = reader.read(plan.deletes_after, metadata=marks).where("_deleted")
    place = list(PLACE)
    return _Sides(
        added=reader.read(plan.added),
        removed=reader.read(plan.removed),
        gone=after.join(before.select(*place), on=place, how="left_anti"),
        undone=before.join(after.select(*place), on=place, how="left_anti"),
    )


def _one_read(sides: _Sides, spec: DocumentSpec, seen: Observation) -> DataFrame:
    fresh = whole(sides.added, spec).unionByName(whole(sides.undone, spec))
    chosen = _observed(winners(fresh), F.col(_DUPLICATE), seen)
    old = _old_rows(sides, spec)
    joined = chosen.join(old, on=F.col(ID) == F.col(_OLD_ID), how="full_outer")
    carried_over = (F.col(FINGERPRINT) == F.col(_OLD_FINGERPRINT)) & ~F.col(_OLD_UNKNOWN)
    differing = joined.where(~F.coalesce(carried_over, F.lit(False)))
    expect = (
        F.when(F.col(ID).isNull(), DELETED)
        .when(F.col(_OLD_ID).isNull(), CREATED)
        .otherwise(UPDATED)
    )
    either = F.coalesce(F.col(ID), F.col(_OLD_ID))
    return with_expect(differing, expect).withColumn(ID, either)


def _compared_old(sides: _Sides, spec: DocumentSpec) -> DataFrame:
    """Of newly deleted rows only keys are read: they have no fingerprint and equal nothing."""
    gone = keys(sides.gone, spec).withColumn(FINGERPRINT, F.lit(None).cast("long"))
    return compared(sides.removed, spec).unionByName(gone)


def _old_rows(sides: _Sides, spec: DocumentSpec) -> DataFrame:
    """One row per old id."""
    return (
        _compared_old(sides, spec)
        .groupBy(F.col(ID).alias(_OLD_ID))
        .agg(
            F.max(FINGERPRINT).alias(_OLD_FINGERPRINT),
            F.bool_or(F.col(FINGERPRINT).isNull()).alias(_OLD_UNKNOWN),
        )
    )


def _two_reads(reader: Reader, sides: _Sides, spec: DocumentSpec, seen: Observation) -> DataFrame:
    differing = reader.keep(_differing(sides, spec, seen))
    upserts = differing.where("fresh > 0")
    total = upserts.agg(F.count(F.lit(1)).alias("ids"), F.max("fresh").alias("most")).first()
    wanted = upserts.select(
        F.col(ID).alias(_OLD_ID),
        F.col("new_fp").alias(_OLD_FINGERPRINT),
        F.when(F.col("old") > 0, UPDATED).otherwise(CREATED).alias(EXPECT),
    )
    few = total is not None and total["ids"] <= BROADCAST_IDS
    rows = whole(sides.added, spec).unionByName(whole(sides.undone, spec))
    same = (F.col(ID) == F.col(_OLD_ID)) & (F.col(FINGERPRINT) == F.col(_OLD_FINGERPRINT))
    fetched = rows.join(F.broadcast(wanted) if few else wanted, on=same, how="inner")
    if total is not None and (total["most"] or 0) > 1:
        # Twins of equal fingerprint are equal documents: any of them will do.
        fetched = fetched.dropDuplicates([ID])
    deletes = with_expect(differing.where("fresh = 0").select(ID), DELETED)
    return fetched.unionByName(deletes, allowMissingColumns=True)


def _differing(sides: _Sides, spec: DocumentSpec, seen: Observation) -> DataFrame:
    is_new = F.col("new")
    fresh = compared(sides.added, spec).unionByName(compared(sides.undone, spec))
    old = _compared_old(sides, spec)
    both = fresh.withColumn("new", F.lit(True)).unionByName(old.withColumn("new", F.lit(False)))
    grouped = both.groupBy(ID).agg(
        F.count_if(is_new).alias("fresh"),
        F.count_if(~is_new).alias("old"),
        F.max(F.when(is_new, F.col(FINGERPRINT))).alias("new_fp"),
        F.max(F.when(~is_new, F.col(FINGERPRINT))).alias("old_fp"),
        F.count_if(~is_new & F.col(FINGERPRINT).isNull()).alias("unknown"),
    )
    observed = _observed(grouped, F.col("fresh") > 1, seen)
    carried_over = (F.col("new_fp") == F.col("old_fp")) & (F.col("unknown") == 0)
    return observed.where(~F.coalesce(carried_over, F.lit(False)))


def _stream(reader: Reader, plan: ChangePlan, spec: DocumentSpec) -> DataFrame:
    sides = _sides(reader, plan)
    old = reader.keep(
        _union([keys(sides.gone, spec), keys(sides.removed, spec)])
        .distinct()
        .select(F.col(ID).alias(_OLD_ID))
    )
    few = old.count() <= BROADCAST_IDS
    fresh = whole(sides.added, spec).unionByName(whole(sides.undone, spec))
    known = F.broadcast(old) if few else old
    met = fresh.join(known, on=F.col(ID) == F.col(_OLD_ID), how="left")
    expect = F.when(F.col(_OLD_ID).isNull(), CREATED).otherwise(UPDATED)
    alive = _union([keys(sides.added, spec), keys(sides.undone, spec)])
    dead = old.join(alive, on=F.col(ID) == F.col(_OLD_ID), how="left_anti")
    deletes = with_expect(dead.select(F.col(_OLD_ID).alias(ID)), DELETED)
    return with_expect(met, expect).unionByName(deletes, allowMissingColumns=True)


def _observed(rows: DataFrame, is_twin: Column, seen: Observation) -> DataFrame:
    return rows.observe(seen, F.count_if(is_twin).alias("duplicates"))


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
