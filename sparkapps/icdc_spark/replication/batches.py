"""Limits a changelog batch to the bytes that it may read and to the files that a driver can plan.

Also checks a plan that failed.

Where a share of the table is given, a larger one is not applied as a batch at all: the table is
exported again.

A batch is one difference of two snapshots, and shows no progress until it is complete. So a
backlog that is too large for one batch is applied in parts, oldest first, which end at snapshots
between. It must not know how a batch is written.

Example, `maxBytesPerBatch` 1 GiB, applied 70, current 75, bytes of the difference from 70 on:

    up to 71   0.2 GiB      up to 73   0.9 GiB      up to 75   2.1 GiB
    up to 72   0.6 GiB      up to 74   1.4 GiB

The batch ends at 73: it fits, and 74 does not. The next one begins at 73. At 74 a column was
added, so 73 is an end only if its documents have the form of those at 75; else 75 is the end.

A driver that plans a difference holds all files that differ. So no difference is planned in which
more than BATCH_FILES changed, as the snapshots' summaries say: in a backlog of a million files that
begins with two commits of 30,000 each, the first commit alone is planned.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import accumulate

from icdc_api.errors import DataFileMissing, SourceUnavailable, TableError
from icdc_spark.diff.change_plan import ChangePlan, Planner
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.changes.stated_files import StatedFiles, read_stated_files, read_totals
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo

LOG = logging.getLogger(__name__)

BATCH_FILES = 50_000
"""Data files that a batch of several snapshots adds and removes at most. They take 18 MB of the
heap that the driver has for each table at work (`permits`), and 15 MB of Python."""


def find_end_of_batch(
    table: IcebergTable,
    from_id: int | None,
    to_id: int,
    *,
    max_bytes: int,
    plan: Planner,
    documents_at: Callable[[int], DocumentSpec],
    note_progress: Callable[[], None],
) -> int:
    """Return the snapshot up to which one batch reads at most `max_bytes` (compressed).

    Of BATCH_FILES files at most, likewise.

    It is `to_id` where that fits, or where the snapshots between are not retained; and the first
    snapshot after `from_id` where not even that one fits. A batch never ends at a snapshot whose
    documents differ in form from those of `to_id`. `note_progress` is called after each plan.
    """
    chain = table.list_snapshots_between(from_id, to_id)
    if chain is None or len(chain) < 2:
        return to_id

    def fits(snapshot_id: int) -> bool:
        planned = plan(table, from_id, snapshot_id)
        note_progress()
        return planned.bytes <= max_bytes and planned.files <= BATCH_FILES

    plannable = {snapshot.id for snapshot in chain[: _count_plannable(table, chain)]}
    # First: nearly every batch fits, and that costs one plan.
    if to_id in plannable and fits(to_id):
        return to_id
    spec_hash = documents_at(to_id).hash
    # Resolved once for each schema: a backlog has thousands of snapshots, and few schemas.
    by_schema = {snapshot.schema_id: snapshot.id for snapshot in reversed(chain)}
    same_form = {
        schema_id
        for schema_id, snapshot_id in by_schema.items()
        if _hash_documents(documents_at, snapshot_id) == spec_hash
    }
    ends = [snapshot.id for snapshot in chain[:-1] if snapshot.schema_id in same_form]
    # The first that is too large is the last candidate, and is not planned here.
    count = 1 + sum(end in plannable for end in ends)
    end = find_last_that_fits([*ends, to_id][:count], fits)
    LOG.info(
        "%s: %d snapshots are too large for one batch; this one ends at snapshot %d",
        table.name,
        len(chain),
        end,
    )
    return end


def _count_plannable(table: IcebergTable, chain: Sequence[SnapshotInfo]) -> int:
    """Return how many snapshots of a chain changed no more than BATCH_FILES files together."""
    changed = accumulate(stated.files for stated in read_stated_files(table, chain))
    return sum(files <= BATCH_FILES for files in changed)


def list_unplanned(
    table: IcebergTable, from_id: int | None, to_id: int
) -> list[tuple[SnapshotInfo, StatedFiles]]:
    """Return the snapshots of a backlog of more than BATCH_FILES, with what they state; else none.

    Such a backlog is never planned as a whole. Of one snapshot there is no smaller part.
    """
    chain = table.list_snapshots_between(from_id, to_id) or ()
    stated = read_stated_files(table, chain) if len(chain) > 1 else ()
    is_large = sum(one.files for one in stated) > BATCH_FILES
    return list(zip(chain, stated, strict=True)) if is_large else []


def _measure_changes(table: IcebergTable, from_id: int, to_id: int, plan: Planner) -> int:
    """Return the bytes that the changes read; of more than BATCH_FILES files by the summaries."""
    if unplanned := list_unplanned(table, from_id, to_id):
        # Of a compaction no file is read.
        return sum(one.bytes for snapshot, one in unplanned if snapshot.operation != "replace")
    return plan(table, from_id, to_id).bytes


def find_reason_to_rebuild(
    table: IcebergTable,
    from_id: int,
    to_id: int,
    *,
    above: float,
    plan: Planner,
    note_progress: Callable[[], None],
) -> str | None:
    """Return why an export of `to_id` is preferred to its changes, as a clause; None if it is not.

    `above` is the share of the table's bytes that the changes may read. Where the writer of the
    snapshot did not state the table's bytes, changes are preferred. `note_progress` is called after
    the plan.

        above 0.5, table 1.0 GB    3 of 10 files rewritten     0.3 + 0.3 GB read    an export
        above 0.5, table 1.0 GB    1 of 10 files rewritten     0.1 + 0.1 GB read    the changes
        above 0.5, empty table     all files deleted                                the changes
    """
    whole = read_totals(table, to_id).bytes
    if not whole:
        return None
    changed = _measure_changes(table, from_id, to_id, plan)
    note_progress()
    if changed <= above * whole:
        return None
    return (
        f"the changes are in files with {changed / 1e6:.1f} MB, the table has {whole / 1e6:.1f} MB,"
        f" and changelog.rebuildAbove is {above:g}"
    )


def check_plan(
    table: IcebergTable, plan: ChangePlan, planner: Planner, missing: DataFileMissing
) -> None:
    """Raise SourceUnavailable where a new plan would no longer read the missing file.

    A plan may read files of snapshots between its two, and no tag keeps those from expiring while
    it runs. Refreshes the table; Gap where one of the two snapshots has expired as well.
    """
    table.refresh()
    # Plans compare without their Java tasks, which are other objects in every plan.
    if planner(table, plan.from_id, plan.to_id) != plan:
        raise SourceUnavailable(
            f"{table.name}: snapshots were expired while their files were read; the batch is "
            f"planned anew ({missing})"
        ) from missing


def find_last_that_fits(ends: Sequence[int], fits: Callable[[int], bool]) -> int:
    """Return one of `ends` that fits while the next one does not; the first if none fits.

    The last of `ends` counts as too large. Calls `fits` about log2(len(ends)) times.
    """
    # Each call plans a difference, seconds for a large table: a bisection, not a walk.
    low, high = 0, len(ends) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(ends[middle]):
            low = middle
        else:
            high = middle
    return ends[low]


def _hash_documents(documents_at: Callable[[int], DocumentSpec], snapshot_id: int) -> str | None:
    """Return the hash of the documents; None where the snapshot has no such columns."""
    try:
        return documents_at(snapshot_id).hash
    except TableError:
        return None
