"""The four sets of rows that a changelog batch reads, and what its strategies do alike with them.

One id, `7`, in five batches from snapshot S to snapshot E. An id among the new rows (added or
undeleted) is written; an id among the old rows alone (removed or deleted) is deleted:

| what happened to the row of id 7 | in the sets | operation |
|---|---|---|
| inserted, in a new file | added | index |
| updated by copy-on-write: its file was written anew | removed, added | index |
| its file was compacted, and the row is as it was | removed, added | none: fingerprints are equal |
| updated by merge-on-read: a position delete, and a new file | deleted, added | index |
| deleted by a position delete | deleted | delete |
| deleted before S, and E is a rollback to before the delete | undeleted | index |

It must not know which strategy asks.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.change_plan import ChangePlan
from icdc_spark.diff.rows import FINGERPRINT, ID, ROW_POSITION
from icdc_spark.documents.ids import read_cell
from icdc_spark.iceberg.changes.value_deletes import ValueDeletes
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.snapshot_reader import SnapshotReader

OLD_ID, HAS_DUPLICATES = "old_id", "has_duplicates"

DELETED_MARKS = (*ROW_POSITION, "_deleted")
"""The metadata columns that name a row of a data file and say whether a delete hides it."""

BROADCAST_IDS = 200_000
"""Changed ids up to which the rows are fetched without a shuffle of the added files."""

BROADCAST_VALUES = 200_000
"""Rows of equality deletes up to which the rows of files are not shuffled to find theirs."""

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, kw_only=True)
class RowSets:
    """The rows of a batch by what happened to them. Nothing is computed before an action."""

    added_rows: DataFrame | None
    """Rows of data files that only the later snapshot has. None if there are no such files."""
    removed_rows: DataFrame | None
    """Rows of data files that only the earlier snapshot has. None if there are no such files."""
    deleted_rows: DataFrame | None
    """Rows of data files of both snapshots, hidden by a delete in the later snapshot only. Where
    equality deletes name the keys, the rows of the delete files stand for them: ids alone, also
    ids that the table never had. None if no delete can have hidden a row."""
    undeleted_rows: DataFrame | None
    """Rows of data files of both snapshots, hidden by a delete in the earlier snapshot only, as
    after a rollback. None if no delete can have been taken back."""
    build_empty: Callable[[], DataFrame]
    """Builds a frame with the columns of the sets and without rows."""
    max_rows: int | None
    """Upper limit of the added and removed rows, from the plan. None if there are deleted or
    undeleted rows as well."""
    # Text, for the reason that `build_number_of_batch` gives.
    salt: str = field(default_factory=partial(secrets.token_hex, 8))
    """Goes into the hashes by which rows are compared. A new random one for each batch: nobody can
    choose values whose hashes collide with it."""

    def combine(self, *parts: tuple[DataFrame | None, Transform]) -> DataFrame:
        """Transform each row set of `parts` and unite the results."""
        # A set that is None costs no planning: Spark analyses a scan even of no file.
        frames = [transform(rows) for rows, transform in parts if rows is not None]
        return unite(frames) if frames else parts[0][1](self.build_empty())

    def combine_new(self, transform: Transform) -> DataFrame:
        """Transform and unite the new rows: all that the later snapshot has more."""
        return self.combine((self.added_rows, transform), (self.undeleted_rows, transform))


def read_row_sets(
    reader: SnapshotReader, plan: ChangePlan, *, metadata: Sequence[str] = ()
) -> RowSets:
    """Return the row sets of a plan; added and removed rows have the `metadata` columns as well.

    Files of both snapshots are read as of each, for their hidden rows. Subtracting these by
    position leaves the rows that became hidden, and those that became visible again:

    | file | hidden in S | hidden in E | deleted rows | undeleted rows |
    |---|---|---|---|---|
    | `a.parquet` | 3, 8 | 3, 9 | 9 | 8 |
    """
    before = _read_hidden_rows(reader, plan.shared_before)
    after = _read_hidden_rows(reader, plan.shared_after)
    deleted = [_read_rows_with_values(reader, deletes) for deletes in plan.value_deletes]
    if plan.deleted_keys.files:
        deleted.append(reader.read(plan.deleted_keys))
    newly_hidden = _subtract_by_position(after, before)
    if newly_hidden is not None:
        # The other parts come without these columns.
        deleted.append(newly_hidden.drop(*DELETED_MARKS))
    undeleted = _subtract_by_position(before, after)
    counted = plan.added.records + plan.removed.records
    return RowSets(
        added_rows=_read(reader, plan.added, metadata),
        removed_rows=_read(reader, plan.removed, metadata),
        deleted_rows=unite(deleted) if deleted else None,
        undeleted_rows=undeleted,
        build_empty=lambda: reader.read(reader.empty_group, metadata=metadata),
        # Files of both snapshots have many more rows than deletes hide there: no use as a limit.
        max_rows=None if deleted or undeleted is not None else counted,
    )


def _read(reader: SnapshotReader, group: FileGroup, metadata: Sequence[str]) -> DataFrame | None:
    return reader.read(group, metadata=metadata) if group.files else None


def _read_hidden_rows(reader: SnapshotReader, group: FileGroup) -> DataFrame | None:
    """Return the rows of files that deletes hide, with their positions."""
    rows = _read(reader, group, DELETED_MARKS)
    return None if rows is None else rows.where("_deleted")


def _read_rows_with_values(reader: SnapshotReader, deletes: ValueDeletes) -> DataFrame:
    """Return the rows of the data files that equal a row of the equality deletes."""
    rows, deleted = reader.read(deletes.data), reader.read(deletes.deletes)
    values = deleted.select(
        *(
            read_cell(deleted, (entry,)).alias(f"v{number}")
            for number, entry in enumerate(deletes.fields)
        )
    )
    if deletes.deletes.records <= BROADCAST_VALUES:
        values = F.broadcast(values)
    # Iceberg's specification: a null in an equality delete removes rows with a null there.
    same = (
        read_cell(rows, (entry,)).eqNullSafe(values[f"v{number}"])
        for number, entry in enumerate(deletes.fields)
    )
    # A semi join: several delete files may name one value, and its rows are deleted once.
    return rows.join(values, on=reduce(Column.__and__, same), how="left_semi")


def _subtract_by_position(rows: DataFrame | None, others: DataFrame | None) -> DataFrame | None:
    """Return the rows that are not among the others, by file and position."""
    if rows is None or others is None:
        return rows
    position = list(ROW_POSITION)
    return rows.join(others.select(*position), on=position, how="left_anti")


def pick_row_per_id(rows: DataFrame) -> DataFrame:
    """Return one row per id, the one of the greatest fingerprint.

    Fingerprints without salt pick the same row in every batch. The column `HAS_DUPLICATES` is
    true where the id had other rows.
    """
    per_id = Window.partitionBy(ID).orderBy(F.col(FINGERPRINT).desc())
    ranked = rows.withColumn("rank", F.row_number().over(per_id)).withColumn(
        HAS_DUPLICATES, F.lead(F.col(FINGERPRINT)).over(per_id).isNotNull()
    )
    return ranked.where(F.col("rank") == 1).drop("rank")


def count_duplicates(rows: DataFrame, is_duplicate: Column, seen: Observation) -> DataFrame:
    """Return the rows; once they were computed, `seen` has the count of the duplicates."""
    # An observation rides on the action that writes the rows: counting needs no pass of its own.
    return rows.observe(seen, F.count_if(is_duplicate).alias("duplicates"))


def unite(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of frames with the same columns."""
    return reduce(DataFrame.unionByName, frames)
