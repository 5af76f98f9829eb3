"""Find what changed by row lineage: rows of format 3 say when they were last written.

The column `_last_updated_sequence_number` is the sequence number of the commit that last wrote a
row. A row of an added file that is not younger than the earlier snapshot S was only carried over:
no fingerprint is needed, and only keys travel. An example where S has the sequence number 5, and a
copy-on-write update wrote one file anew:

| id | rows removed | rows added, last written | verdict |
|---|---|---|---|
| 1 | one, written by 3 | one, by 3 | carried over: same age in both, not after S |
| 2 | one, written by 3 | one, by 6 | index: written after S |
| 3 | one, written by 4 | none | delete |
| 4 | none | one, by 6 | index |
| 5 | one, written by 4 | one, by 2 | index: an old file was put back, with another row of before |

Where the bounds of the keys allow it, not even the keys travel (`key_bitmaps`). Rows are never
identified by `_row_id`, because released writers give carried rows new ones. Whether the numbers
can be trusted is decided where the batch is planned. It must not know other strategies.
"""

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff import key_bitmaps
from icdc_spark.diff.operation_lines import add_expect
from icdc_spark.diff.row_sets import (
    BROADCAST_IDS,
    OLD_ID,
    RowSets,
    count_duplicates,
    pick_row_per_id,
)
from icdc_spark.diff.rows import (
    EXPECT,
    ID,
    build_number_of_batch,
    group_by_key,
    replace_keys_by_ids,
    select_cells,
    select_keys,
)
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.snapshot_reader import SnapshotReader

LAST_UPDATED = "_last_updated_sequence_number"

_UNKNOWN = (1 << 63) - 1
"""In place of a sequence number that is not known: younger than all, so the row is written."""

_LONG_AGO = -1
"""Older than all sequence numbers: of rows hidden by a new delete only the keys are read."""


def find_by_lineage(
    reader: SnapshotReader,
    added: FileGroup,
    row_sets: RowSets,
    spec: DocumentSpec,
    *,
    since: int,
    seen: Observation,
) -> DataFrame | None:
    """Return the operations; `since` is the sequence number of the earlier snapshot.

    `row_sets` were read of `added` and other files. None if more than BROADCAST_IDS rows were
    written after S: an overwrite writes all rows anew, also equal ones, and to send them all again
    costs more than to compare them.
    """
    if key_bitmaps.can_compare_keys(reader, added, row_sets, spec):
        comparison = key_bitmaps.compare_keys(reader, row_sets, spec, _build_age(), since=since)
        if comparison is not None:
            return _build_from_bitmaps(comparison, row_sets, spec, since, seen)
    return _build_from_keys(reader, row_sets, spec, since, seen)


def _build_from_bitmaps(
    comparison: key_bitmaps.KeyComparison,
    row_sets: RowSets,
    spec: DocumentSpec,
    since: int,
    seen: Observation,
) -> DataFrame | None:
    if comparison.upserts > BROADCAST_IDS:
        return None
    old_ids = comparison.changed_rows.where("is_rewritten").select(F.col(ID).alias(OLD_ID))
    rows = _read_candidates(row_sets, spec, since, upserts=comparison.upserts, irregular=0)
    joined = rows.join(F.broadcast(old_ids), on=F.col(ID) == F.col(OLD_ID), how="left")
    expect = F.when(F.col(OLD_ID).isNull(), Expect.CREATED).otherwise(Expect.UPDATED)
    deleted_ids = comparison.changed_rows.where("not is_rewritten").select(ID)
    operations = add_expect(joined, expect).unionByName(
        add_expect(deleted_ids, Expect.DELETED), allowMissingColumns=True
    )
    # Bitmaps are only believed where each added row has a key of its own: there are no duplicates.
    return count_duplicates(operations, F.lit(False), seen)


def _build_from_keys(
    reader: SnapshotReader, row_sets: RowSets, spec: DocumentSpec, since: int, seen: Observation
) -> DataFrame | None:
    # Persisted: they are counted first, and then joined with a second read of the added files.
    ids = reader.persist(_find_changed_ids(row_sets, spec, since, seen))
    counts = (
        ids.where("new_rows > 0")
        .agg(F.count(F.lit(1)).alias("upserts"), F.count_if(~_is_regular(since)).alias("irregular"))
        .first()
    )
    upserts, irregular = (counts["upserts"], counts["irregular"]) if counts else (0, 0)
    if upserts > BROADCAST_IDS:
        return None
    wanted = ids.where("new_rows > 0").select(
        F.col(ID).alias(OLD_ID),
        F.when(F.col("old_rows") > 0, Expect.UPDATED).otherwise(Expect.CREATED).alias(EXPECT),
    )
    rows = _read_candidates(row_sets, spec, since, upserts=upserts, irregular=irregular)
    fetched = rows.join(F.broadcast(wanted), on=F.col(ID) == F.col(OLD_ID), how="inner")
    deletes = add_expect(ids.where("new_rows = 0").select(ID), Expect.DELETED)
    # A regular id has one new row: nothing has to be shuffled and sorted for a choice.
    upserted = pick_row_per_id(fetched) if irregular else fetched
    return upserted.unionByName(deletes, allowMissingColumns=True)


def _find_changed_ids(
    row_sets: RowSets, spec: DocumentSpec, since: int, seen: Observation
) -> DataFrame:
    """Return each id of the row sets, except those whose only row was carried over.

    With each: `new_rows` and `old_rows`, the count of its rows in the later and in the earlier
    snapshot; `first` and `last`, the sequence numbers that wrote the oldest and the youngest.
    """
    is_new, is_old = F.lit(True).alias("is_new"), F.lit(False).alias("is_new")
    age = _build_age().alias("last")
    unknown = F.lit(_UNKNOWN).alias("last")
    long_ago = F.lit(_LONG_AGO).cast("long").alias("last")
    rows = row_sets.combine(
        (row_sets.added_rows, lambda rows: select_keys(rows, spec, is_new, age)),
        (row_sets.undeleted_rows, lambda rows: select_keys(rows, spec, is_new, unknown)),
        (row_sets.removed_rows, lambda rows: select_keys(rows, spec, is_old, age)),
        (row_sets.deleted_rows, lambda rows: select_keys(rows, spec, is_old, long_ago)),
    )
    grouped = group_by_key(
        rows,
        spec,
        F.count_if("is_new").alias("new_rows"),
        F.count_if(~F.col("is_new")).alias("old_rows"),
        F.min("last").alias("first"),
        F.max("last").alias("last"),
        max_rows=row_sets.max_rows,
    )
    one_each = (F.col("new_rows") == 1) & (F.col("old_rows") == 1)
    # Not older than S alone: an old file that was put back has old rows, but others than S had.
    carried_over = (
        one_each
        & (F.col("first") == F.col("last"))
        & (F.col("last") <= _build_since(since, "last"))
    )
    counted = count_duplicates(grouped, F.col("new_rows") > 1, seen)
    return replace_keys_by_ids(counted.where(~carried_over), spec)


def _build_since(since: int, beside: str) -> Column:
    return F.expr(build_number_of_batch(since, beside))


def _is_regular(since: int) -> Column:
    """True if an id has one new row, written after S, and at most one old row."""
    return (
        (F.col("new_rows") == 1)
        & (F.col("old_rows") <= 1)
        & (F.col("last") > _build_since(since, "last"))
    )


def _read_candidates(
    row_sets: RowSets, spec: DocumentSpec, since: int, *, upserts: int, irregular: int
) -> DataFrame:
    """Return whole rows, all those of the upserts among them."""

    def select(rows: DataFrame) -> DataFrame:
        return select_cells(rows, spec, compared=irregular > 0)

    def select_written(rows: DataFrame) -> DataFrame:
        return select(
            rows.where(_build_age() > _build_since(since, f"coalesce({LAST_UPDATED}, 0L)"))
        )

    # Of an id with several rows any may be the document, also one that was carried over.
    rows = row_sets.combine(
        (row_sets.added_rows, select if irregular else select_written),
        (row_sets.undeleted_rows, select),
    )
    # Without upserts the files are not read again.
    return rows if upserts else rows.where(F.lit(False))


def _build_age() -> Column:
    """Return the sequence number that last wrote a row; an unknown one counts as the youngest."""
    return F.coalesce(F.col(LAST_UPDATED), F.lit(_UNKNOWN))
