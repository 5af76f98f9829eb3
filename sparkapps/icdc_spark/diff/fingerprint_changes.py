"""Find what changed by fingerprints: a number for each row that differs where its document does.

An id is unchanged if its new and its old row have one fingerprint. An example with a file of three
rows that was written anew, and a delete file that hides row 4 of another one:

| id | old fingerprint | new fingerprint | operation |
|---|---|---|---|
| 1 | 0x51 | 0x51 | none: carried over |
| 2 | 0x7a | 0x1c | index, expected to update |
| 3 | 0x33 | | delete |
| 4 | unknown: only its key was read | | delete |
| 5 | | 0x90 | index, expected to create |

For duplicate keys the greatest fingerprints of both are compared, and their count is observed:
which row becomes the document is decided afterwards (`id_lookup`). It must not know other
strategies.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.operation_lines import add_expect
from icdc_spark.diff.row_sets import (
    BROADCAST_IDS,
    HAS_DUPLICATES,
    OLD_ID,
    RowSets,
    count_duplicates,
    pick_row_per_id,
)
from icdc_spark.diff.rows import (
    EXPECT,
    FINGERPRINT,
    ID,
    compute_row_fingerprint,
    group_by_key,
    replace_keys_by_ids,
    select_cells,
    select_ids,
    select_keys,
    select_rows_with_ids,
)
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.readers.snapshot_reader import SnapshotReader

_OLD_FINGERPRINT, _OLD_UNKNOWN = "old_fp", "old_unknown"


def compare_in_one_read(row_sets: RowSets, spec: DocumentSpec, seen: Observation) -> DataFrame:
    """Return the operations of one join of whole new rows with old ids and fingerprints."""
    # The salt makes another row of a duplicate key win in each batch. That does no harm: batches
    # with duplicate keys are looked up in the snapshot afterwards.
    new = row_sets.combine_new(lambda rows: select_cells(rows, spec, salt=row_sets.salt))
    new = count_duplicates(pick_row_per_id(new), F.col(HAS_DUPLICATES), seen)
    old = _group_old_rows(row_sets, spec)
    joined = new.join(old, on=F.col(ID) == F.col(OLD_ID), how="full_outer")
    carried_over = (F.col(FINGERPRINT) == F.col(_OLD_FINGERPRINT)) & ~F.col(_OLD_UNKNOWN)
    # The comparison is null where one of both is missing: such rows differ.
    differing = joined.where(~F.coalesce(carried_over, F.lit(False)))
    expect = (
        F.when(F.col(ID).isNull(), Expect.DELETED)
        .when(F.col(OLD_ID).isNull(), Expect.CREATED)
        .otherwise(Expect.UPDATED)
    )
    either_id = F.coalesce(F.col(ID), F.col(OLD_ID))
    return add_expect(differing, expect).withColumn(ID, either_id)


def _fingerprint_old_rows(
    row_sets: RowSets,
    spec: DocumentSpec,
    select: Callable[[DataFrame, DocumentSpec, Column], DataFrame],
) -> DataFrame:
    """Return old rows with their fingerprints; `select` is `select_ids` or `select_keys`.

    Of newly deleted rows only keys are read: they have no fingerprint and equal nothing.
    """
    unknown = F.lit(None).cast("long").alias(FINGERPRINT)
    salt = row_sets.salt
    return row_sets.combine(
        (
            row_sets.removed_rows,
            lambda rows: select(rows, spec, compute_row_fingerprint(rows, spec, salt=salt)),
        ),
        (row_sets.deleted_rows, lambda rows: select(rows, spec, unknown)),
    )


def _group_old_rows(row_sets: RowSets, spec: DocumentSpec) -> DataFrame:
    """Return one row per old id."""
    return (
        _fingerprint_old_rows(row_sets, spec, select_ids)
        .groupBy(F.col(ID).alias(OLD_ID))
        .agg(
            F.max(FINGERPRINT).alias(_OLD_FINGERPRINT),
            # The maximum skips nulls: it hides that one of several old rows is unknown.
            F.bool_or(F.col(FINGERPRINT).isNull()).alias(_OLD_UNKNOWN),
        )
    )


def compare_in_two_reads(
    reader: SnapshotReader, row_sets: RowSets, spec: DocumentSpec, seen: Observation
) -> DataFrame:
    """Return the operations: compare keys and fingerprints, then fetch the rows that differ.

    Runs the first pass at once.
    """
    # Persisted: counted here, joined below, and filtered for the deletes.
    differing = reader.persist(_find_differing_ids(row_sets, spec, seen))
    upserts = differing.where("new_rows > 0")
    total = upserts.agg(F.count(F.lit(1)).alias("ids"), F.max("new_rows").alias("most")).first()
    wanted = upserts.select(
        F.col(ID).alias(OLD_ID),
        F.col("new_fp").alias(_OLD_FINGERPRINT),
        F.when(F.col("old_rows") > 0, Expect.UPDATED).otherwise(Expect.CREATED).alias(EXPECT),
    )
    is_few = total is not None and total["ids"] <= BROADCAST_IDS

    def select(rows: DataFrame) -> DataFrame:
        # Fingerprints of rows that are carried over need not be computed a second time.
        candidates = select_rows_with_ids(rows, wanted, OLD_ID, spec) if is_few else rows
        return select_cells(candidates, spec, salt=row_sets.salt)

    rows = row_sets.combine_new(select)
    # By fingerprint too: of several new rows of an id, the one that was compared is fetched.
    same = (F.col(ID) == F.col(OLD_ID)) & (F.col(FINGERPRINT) == F.col(_OLD_FINGERPRINT))
    fetched = rows.join(F.broadcast(wanted) if is_few else wanted, on=same, how="inner")
    if total is not None and (total["most"] or 0) > 1:
        # Duplicates of equal fingerprint are equal documents: any of them will do.
        fetched = fetched.dropDuplicates([ID])
    deletes = add_expect(differing.where("new_rows = 0").select(ID), Expect.DELETED)
    # Deletes have ids alone: OpenSearch needs no more of them, and no cell of them is read.
    return fetched.unionByName(deletes, allowMissingColumns=True)


def _find_differing_ids(row_sets: RowSets, spec: DocumentSpec, seen: Observation) -> DataFrame:
    """Return the ids that were not merely carried over, with counts and fingerprints of rows."""
    is_new = F.col("is_new")
    new = row_sets.combine_new(
        lambda rows: select_keys(
            rows, spec, compute_row_fingerprint(rows, spec, salt=row_sets.salt)
        )
    )
    old = _fingerprint_old_rows(row_sets, spec, select_keys)
    both = new.withColumn("is_new", F.lit(True)).unionByName(old.withColumn("is_new", F.lit(False)))
    grouped = group_by_key(
        both,
        spec,
        F.count_if(is_new).alias("new_rows"),
        F.count_if(~is_new).alias("old_rows"),
        F.max(F.when(is_new, F.col(FINGERPRINT))).alias("new_fp"),
        F.max(F.when(~is_new, F.col(FINGERPRINT))).alias("old_fp"),
        F.count_if(~is_new & F.col(FINGERPRINT).isNull()).alias("unknown"),
        max_rows=row_sets.max_rows,
    )
    counted = count_duplicates(grouped, F.col("new_rows") > 1, seen)
    carried_over = (F.col("new_fp") == F.col("old_fp")) & (F.col("unknown") == 0)
    return replace_keys_by_ids(counted.where(~F.coalesce(carried_over, F.lit(False))), spec)
