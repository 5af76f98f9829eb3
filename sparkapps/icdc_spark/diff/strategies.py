"""From a plan to bulk operations: what changed between two snapshots, one operation per key.

New rows are those of added files and those whose deletion was undone; old rows are those of removed
files and those newly deleted. An id among the new rows is written, unless an old row of equal
fingerprint shows that it was only carried over; an id among the old rows alone is deleted. So a
compaction, which removes and adds the same rows, writes nothing.
"""

from collections.abc import Callable
from enum import StrEnum

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.errors import Bug
from icdc_spark.diff.change_plan import ChangePlan, Chunk
from icdc_spark.diff.lineage_changes import BROADCAST_IDS, LAST_UPDATED, by_lineage
from icdc_spark.diff.operation_lines import (
    EXPECT,
    Lines,
    to_lines,
    with_expect,
)
from icdc_spark.diff.row_sets import OLD_ID, TWIN, Make, Sides, observed, read_sides, winners
from icdc_spark.diff.rows import (
    FINGERPRINT,
    ID,
    PLACE,
    among,
    by_values,
    keys,
    metadata_of,
    print_of,
    values,
    whole,
    with_ids,
)
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.reader import Reader

ONE_READ_BYTES = 32 * 1024 * 1024
"""Compressed bytes of added files up to which whole rows go through the join at once. 37 MB take as
long either way, and more of the processor so (docs/benchmarks.md, ten commits)."""

FEW_ROWS = 200_000
"""Rows of changed files up to which comparing them is cheaper than asking them when they were
written: that takes a pass more. It also writes nothing for rows that were written as they were."""

_OLD_FINGERPRINT, _OLD_UNKNOWN = "old_fp", "old_unknown"


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
    LINEAGE = "Lineage"
    """Rows say when they were last written: only ids travel, in two passes. May write rows that are
    as before."""


def choose(plan: ChangePlan, *, lineage: bool = True) -> Strategy:
    """The cheapest strategy by the plan's counts; `lineage` is `Reader.tells_lineage`."""
    if plan.is_append:
        return Strategy.APPEND
    is_small = plan.added.bytes <= ONE_READ_BYTES
    few_rows = plan.added.records + plan.removed.records <= FEW_ROWS
    if lineage and plan.lineage_since is not None and not (is_small and few_rows):
        return Strategy.LINEAGE
    if is_small:
        return Strategy.ONE_READ
    return Strategy.STREAM if plan.removed.files == 0 else Strategy.TWO_READS


def export_lines(reader: Reader, chunk: Chunk, spec: DocumentSpec, *, version: int) -> Lines:
    """Every row of a chunk as an index operation."""
    with source_errors(reader.table_name):
        return _appended(reader, chunk.group, spec, version=version)


def changes(
    reader: Reader,
    plan: ChangePlan,
    spec: DocumentSpec,
    *,
    version: int,
    strategy: Strategy | None = None,
) -> Lines:
    """The operations that bring an index from one snapshot to the other; `strategy` is for tests.

    TWO_READS, STREAM and LINEAGE run a first pass at once; the rest is computed when lines are
    consumed.
    """
    chosen = strategy or choose(plan, lineage=reader.tells_lineage)
    with source_errors(reader.table_name):
        seen = Observation()
        match chosen:
            case Strategy.APPEND:
                return _appended(reader, plan.added, spec, version=version)
            case Strategy.STREAM:
                return to_lines(_stream(reader, plan, spec), spec, version=version)
            case Strategy.ONE_READ:
                operations = _one_read(read_sides(reader, plan), spec, seen)
            case Strategy.TWO_READS:
                operations = _two_reads(reader, read_sides(reader, plan), spec, seen)
            case Strategy.LINEAGE:
                found = _lineage(reader, plan, spec, seen)
                if found is None:
                    without = choose(plan, lineage=False)
                    return changes(reader, plan, spec, version=version, strategy=without)
                operations = found
        return to_lines(operations, spec, version=version, keys_seen=seen)


def changed_ids(reader: Reader, plan: ChangePlan, spec: DocumentSpec) -> DataFrame:
    """The ids (column `id`, each once) of which any row was added, removed or deleted.

    More than those that `changes` writes: for tables with duplicate keys, whose ids are looked up
    in the snapshot itself.
    """
    with source_errors(reader.table_name):
        if spec.append_only:
            return keys(reader.read(plan.added, metadata=PLACE), spec).distinct()
        sides = read_sides(reader, plan)
        key = _keys_of(spec)
        kinds = (sides.added, sides.removed, sides.gone, sides.undone)
        return sides.united(*((rows, key) for rows in kinds)).distinct()


def _appended(reader: Reader, group: FileGroup, spec: DocumentSpec, *, version: int) -> Lines:
    """Lines of rows that have nothing to be compared with."""
    rows = whole(reader.read(group, metadata=metadata_of(spec)), spec, compared=False)
    return to_lines(with_expect(rows, Expect.CREATED), spec, version=version)


def _one_read(sides: Sides, spec: DocumentSpec, seen: Observation) -> DataFrame:
    # Among rows of one key the choice differs from batch to batch: they are settled afterwards.
    fresh = sides.fresh_united(_whole_of(spec, salt=sides.salt))
    chosen = observed(winners(fresh), F.col(TWIN), seen)
    old = _old_rows(sides, spec)
    joined = chosen.join(old, on=F.col(ID) == F.col(OLD_ID), how="full_outer")
    carried_over = (F.col(FINGERPRINT) == F.col(_OLD_FINGERPRINT)) & ~F.col(_OLD_UNKNOWN)
    differing = joined.where(~F.coalesce(carried_over, F.lit(False)))
    expect = (
        F.when(F.col(ID).isNull(), Expect.DELETED)
        .when(F.col(OLD_ID).isNull(), Expect.CREATED)
        .otherwise(Expect.UPDATED)
    )
    either = F.coalesce(F.col(ID), F.col(OLD_ID))
    return with_expect(differing, expect).withColumn(ID, either)


def _compared_old(
    sides: Sides, spec: DocumentSpec, shape: Callable[[DataFrame, DocumentSpec, Column], DataFrame]
) -> DataFrame:
    """Old rows with their fingerprints, in the shape of `keys` or of `values`.

    Of newly deleted rows only keys are read: they have no fingerprint and equal nothing.
    """
    unknown = F.lit(None).cast("long").alias(FINGERPRINT)
    return sides.united(
        (sides.removed, lambda rows: shape(rows, spec, print_of(rows, spec, salt=sides.salt))),
        (sides.gone, lambda rows: shape(rows, spec, unknown)),
    )


def _old_rows(sides: Sides, spec: DocumentSpec) -> DataFrame:
    """One row per old id."""
    return (
        _compared_old(sides, spec, keys)
        .groupBy(F.col(ID).alias(OLD_ID))
        .agg(
            F.max(FINGERPRINT).alias(_OLD_FINGERPRINT),
            F.bool_or(F.col(FINGERPRINT).isNull()).alias(_OLD_UNKNOWN),
        )
    )


def _two_reads(reader: Reader, sides: Sides, spec: DocumentSpec, seen: Observation) -> DataFrame:
    differing = reader.keep(_differing(sides, spec, seen))
    upserts = differing.where("fresh > 0")
    total = upserts.agg(F.count(F.lit(1)).alias("ids"), F.max("fresh").alias("most")).first()
    wanted = upserts.select(
        F.col(ID).alias(OLD_ID),
        F.col("new_fp").alias(_OLD_FINGERPRINT),
        F.when(F.col("old") > 0, Expect.UPDATED).otherwise(Expect.CREATED).alias(EXPECT),
    )
    few = total is not None and total["ids"] <= BROADCAST_IDS

    def chosen(rows: DataFrame) -> DataFrame:
        # Fingerprints of rows that are carried over need not be made a second time.
        return whole(among(rows, wanted, OLD_ID, spec) if few else rows, spec, salt=sides.salt)

    rows = sides.fresh_united(chosen)
    same = (F.col(ID) == F.col(OLD_ID)) & (F.col(FINGERPRINT) == F.col(_OLD_FINGERPRINT))
    fetched = rows.join(F.broadcast(wanted) if few else wanted, on=same, how="inner")
    if total is not None and (total["most"] or 0) > 1:
        # Twins of equal fingerprint are equal documents: any of them will do.
        fetched = fetched.dropDuplicates([ID])
    deletes = with_expect(differing.where("fresh = 0").select(ID), Expect.DELETED)
    return fetched.unionByName(deletes, allowMissingColumns=True)


def _differing(sides: Sides, spec: DocumentSpec, seen: Observation) -> DataFrame:
    is_new = F.col("new")
    fresh = sides.fresh_united(
        lambda rows: values(rows, spec, print_of(rows, spec, salt=sides.salt))
    )
    old = _compared_old(sides, spec, values)
    both = fresh.withColumn("new", F.lit(True)).unionByName(old.withColumn("new", F.lit(False)))
    grouped = by_values(
        both,
        spec,
        F.count_if(is_new).alias("fresh"),
        F.count_if(~is_new).alias("old"),
        F.max(F.when(is_new, F.col(FINGERPRINT))).alias("new_fp"),
        F.max(F.when(~is_new, F.col(FINGERPRINT))).alias("old_fp"),
        F.count_if(~is_new & F.col(FINGERPRINT).isNull()).alias("unknown"),
        count=sides.count,
    )
    counted = observed(grouped, F.col("fresh") > 1, seen)
    carried_over = (F.col("new_fp") == F.col("old_fp")) & (F.col("unknown") == 0)
    return with_ids(counted.where(~F.coalesce(carried_over, F.lit(False))), spec)


def _stream(reader: Reader, plan: ChangePlan, spec: DocumentSpec) -> DataFrame:
    sides = read_sides(reader, plan)
    key = _keys_of(spec)
    ids = sides.united((sides.gone, key), (sides.removed, key)).distinct()
    old = reader.keep(ids.select(F.col(ID).alias(OLD_ID)))
    few = old.count() <= BROADCAST_IDS
    fresh = sides.fresh_united(_whole_of(spec, compared=False))
    known = F.broadcast(old) if few else old
    met = fresh.join(known, on=F.col(ID) == F.col(OLD_ID), how="left")
    expect = F.when(F.col(OLD_ID).isNull(), Expect.CREATED).otherwise(Expect.UPDATED)
    alive = sides.fresh_united(key)
    dead = old.join(alive, on=F.col(ID) == F.col(OLD_ID), how="left_anti")
    deletes = with_expect(dead.select(F.col(OLD_ID).alias(ID)), Expect.DELETED)
    return with_expect(met, expect).unionByName(deletes, allowMissingColumns=True)


def _lineage(
    reader: Reader, plan: ChangePlan, spec: DocumentSpec, seen: Observation
) -> DataFrame | None:
    if plan.lineage_since is None or not reader.tells_lineage:
        raise Bug(f"{reader.table_name}: rows do not say when they were last written")
    sides = read_sides(reader, plan, metadata=(LAST_UPDATED,))
    return by_lineage(reader, plan.added, sides, spec, since=plan.lineage_since, seen=seen)


def _keys_of(spec: DocumentSpec) -> Make:
    return lambda rows: keys(rows, spec)


def _whole_of(spec: DocumentSpec, *, compared: bool = True, salt: int | None = None) -> Make:
    return lambda rows: whole(rows, spec, compared=compared, salt=salt)
