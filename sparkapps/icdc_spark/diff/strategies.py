"""Turn a plan into bulk operations: the changes between two snapshots, one operation per key.

New rows are those of added files and those that became visible again; old rows are those of removed
files and those newly hidden by a delete (`row_sets`). An id among the new rows is written, unless
an old row of equal fingerprint shows that the row was only carried over. An id among the old rows
alone is deleted. So a compaction, which removes and adds the same rows, writes nothing.

All strategies give the same operations. `choose_strategy` takes the first that fits a batch:

| strategy | when | reads | shuffles |
|---|---|---|---|
| Append | no old rows | new rows | nothing |
| Lineage | rows have row lineage; > 32 MB or > 200,000 rows | keys, then changed rows | keys (*) |
| OneRead | <= 32 MB of added files | all rows | whole new rows, old ids |
| Stream | no removed files | old keys, then new rows | old ids |
| TwoReads | else | all rows, then changed rows | keys, fingerprints |

(*) Only the keys of changed rows, where bitmaps of the keys will do (`key_bitmaps`).

One commit, `update t set name = 'b' where id = 2`, carried through. Copy-on-write removes a file
with the rows 1, 2 and 3, and adds another one with the rows 1, 2 and 3:

| strategy | meets | writes |
|---|---|---|
| OneRead | old and new rows 1, 2, 3 with their fingerprints | 2: its fingerprints differ |
| TwoReads | the same, as keys and fingerprints alone | 2, after it was fetched |
| Lineage | keys 1, 2, 3 and the commits that wrote the rows | 2, fetched: younger than S |

Merge-on-read hides row 2 by a delete file, and adds a file with row 2 alone:

| strategy | meets | writes |
|---|---|---|
| Stream | the old id 2 and the new row 2 | 2, as an update |
| OneRead | the same; a deleted row has no fingerprint, and equals nothing | 2, as an update |

It must not know where the operations go.
"""

from enum import StrEnum

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.errors import Bug
from icdc_spark.diff.change_plan import ChangePlan
from icdc_spark.diff.export_plan import Chunk
from icdc_spark.diff.fingerprint_changes import compare_in_one_read, compare_in_two_reads
from icdc_spark.diff.lineage_changes import LAST_UPDATED, find_by_lineage
from icdc_spark.diff.operation_lines import (
    OperationLines,
    add_expect,
    serialise_operations,
)
from icdc_spark.diff.row_sets import BROADCAST_IDS, OLD_ID, Transform, read_row_sets
from icdc_spark.diff.rows import (
    ID,
    ROW_POSITION,
    list_id_metadata,
    select_cells,
    select_ids,
)
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.snapshot_reader import SnapshotReader

ONE_READ_BYTES = 32 * 1024 * 1024
"""Compressed bytes of added files up to which whole rows go through the join at once. 37 MB take as
long either way, and more of the processor so (docs/benchmarks.md, ten commits)."""

FEW_ROWS = 200_000
"""Rows of changed files up to which comparing them is cheaper than reading when they were written:
that takes one pass more. It also writes nothing for rows that were written as they were."""


class Strategy(StrEnum):
    """The ways in which old and new rows meet. The names are shown by `icdc plan`."""

    APPEND = "Append"
    """There are no old rows: no shuffle."""
    ONE_READ = "OneRead"
    """Whole new rows travel to the join: one pass, for little data."""
    TWO_READS = "TwoReads"
    """Only keys and fingerprints travel; changed rows are fetched in a second, narrow read."""
    STREAM = "Stream"
    """Every row of added files is new, as merge-on-read writes them: only old ids travel."""
    LINEAGE = "Lineage"
    """Rows say when they were last written: only keys travel, in two passes. May write rows that
    are as before."""


def choose_strategy(plan: ChangePlan, *, lineage: bool = True) -> Strategy:
    """Return the cheapest strategy by the counts of the plan.

    `lineage` is `SnapshotReader.can_read_lineage`.
    """
    if plan.is_append:
        return Strategy.APPEND
    is_small = plan.added.bytes <= ONE_READ_BYTES
    has_few_rows = plan.added.records + plan.removed.records <= FEW_ROWS
    if lineage and plan.lineage_since is not None and not (is_small and has_few_rows):
        return Strategy.LINEAGE
    if is_small:
        return Strategy.ONE_READ
    return Strategy.STREAM if plan.removed.files == 0 else Strategy.TWO_READS


def build_export_lines(
    reader: SnapshotReader, chunk: Chunk, spec: DocumentSpec, *, version: int
) -> OperationLines:
    """Return every row of a chunk as an index operation."""
    with translate_source_errors(reader.table_name):
        return _build_append_lines(reader, chunk.group, spec, version=version)


def build_change_lines(
    reader: SnapshotReader,
    plan: ChangePlan,
    spec: DocumentSpec,
    *,
    version: int,
    strategy: Strategy | None = None,
) -> OperationLines:
    """Return the operations that bring an index from one snapshot to the other.

    TWO_READS, STREAM and LINEAGE run a first pass at once; the rest is computed when lines are
    consumed. `strategy` is for tests.
    """
    strategy = strategy or choose_strategy(plan, lineage=reader.can_read_lineage)
    with translate_source_errors(reader.table_name):
        seen = Observation()
        match strategy:
            case Strategy.APPEND:
                return _build_append_lines(reader, plan.added, spec, version=version)
            case Strategy.STREAM:
                # Duplicate keys are not counted: nothing groups the new rows by their keys here.
                return serialise_operations(
                    _build_stream_rows(reader, plan, spec), spec, version=version
                )
            case Strategy.ONE_READ:
                operations = compare_in_one_read(read_row_sets(reader, plan), spec, seen)
            case Strategy.TWO_READS:
                operations = compare_in_two_reads(reader, read_row_sets(reader, plan), spec, seen)
            case Strategy.LINEAGE:
                by_lineage = _build_lineage_rows(reader, plan, spec, seen)
                if by_lineage is None:
                    # Too many rows were written after S: most may be as before, so compare them.
                    other = choose_strategy(plan, lineage=False)
                    return build_change_lines(reader, plan, spec, version=version, strategy=other)
                operations = by_lineage
        return serialise_operations(operations, spec, version=version, keys_seen=seen)


def list_changed_ids(reader: SnapshotReader, plan: ChangePlan, spec: DocumentSpec) -> DataFrame:
    """Return the ids of all row sets in the column `id`, each once.

    More than those that `build_change_lines` writes: for tables with duplicate keys, whose ids are
    looked up in the snapshot itself (`id_lookup`).
    """
    with translate_source_errors(reader.table_name):
        if spec.append_only:
            # There are no other rows: `plan_appends` plans added files alone.
            return select_ids(reader.read(plan.added, metadata=ROW_POSITION), spec).distinct()
        sets = read_row_sets(reader, plan)
        select = _select_ids_of(spec)
        frames = (sets.added_rows, sets.removed_rows, sets.deleted_rows, sets.undeleted_rows)
        return sets.combine(*((rows, select) for rows in frames)).distinct()


def _build_append_lines(
    reader: SnapshotReader, group: FileGroup, spec: DocumentSpec, *, version: int
) -> OperationLines:
    """Serialise rows that have nothing to be compared with."""
    read = reader.read(group, metadata=list_id_metadata(spec))
    rows = select_cells(read, spec, compared=False)
    return serialise_operations(add_expect(rows, Expect.CREATED), spec, version=version)


def _build_stream_rows(reader: SnapshotReader, plan: ChangePlan, spec: DocumentSpec) -> DataFrame:
    row_sets = read_row_sets(reader, plan)
    # Fingerprints are not compared: a new row of an old id is sent also if it is as before.
    select = _select_ids_of(spec)
    ids = row_sets.combine((row_sets.deleted_rows, select), (row_sets.removed_rows, select))
    # Distinct, or the join would write a new row once for each old row of its id.
    old = reader.persist(ids.distinct().select(F.col(ID).alias(OLD_ID)))
    # Computes the ids at once, so that the joins below read them from memory.
    is_few = old.count() <= BROADCAST_IDS
    rows = row_sets.combine_new(_select_cells_of(spec, compared=False))
    joined = rows.join(
        F.broadcast(old) if is_few else old, on=F.col(ID) == F.col(OLD_ID), how="left"
    )
    expect = F.when(F.col(OLD_ID).isNull(), Expect.CREATED).otherwise(Expect.UPDATED)
    new_ids = row_sets.combine_new(select)
    deleted = old.join(new_ids, on=F.col(ID) == F.col(OLD_ID), how="left_anti")
    deletes = add_expect(deleted.select(F.col(OLD_ID).alias(ID)), Expect.DELETED)
    return add_expect(joined, expect).unionByName(deletes, allowMissingColumns=True)


def _build_lineage_rows(
    reader: SnapshotReader, plan: ChangePlan, spec: DocumentSpec, seen: Observation
) -> DataFrame | None:
    # `choose_strategy` never gets here; a test that forces the strategy may.
    if plan.lineage_since is None or not reader.can_read_lineage:
        raise Bug(f"{reader.table_name}: rows do not say when they were last written")
    row_sets = read_row_sets(reader, plan, metadata=(LAST_UPDATED,))
    return find_by_lineage(reader, plan.added, row_sets, spec, since=plan.lineage_since, seen=seen)


def _select_ids_of(spec: DocumentSpec) -> Transform:
    return lambda rows: select_ids(rows, spec)


def _select_cells_of(
    spec: DocumentSpec, *, compared: bool = True, salt: str | None = None
) -> Transform:
    return lambda rows: select_cells(rows, spec, compared=compared, salt=salt)
