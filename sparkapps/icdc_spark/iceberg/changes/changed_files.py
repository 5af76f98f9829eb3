"""List the files by which two snapshots can differ, at a cost that follows the changed manifests.

`manifest_comparison` finds these files without reading the manifests that both snapshots have.
Where deletes may apply to most files, both snapshots are listed whole here. Equality deletes that
name the deleted documents themselves are set apart (`key_deletes`). This module must not know how
the files are read.

Example: 10,000 data files; the commit between has added one of them.

    also added                           listed
    nothing                              the added file
    a deletion vector for a              the added file; a of both snapshots
    global equality deletes by key       the added file, and the key deletes
    global equality deletes by price     all 10,000 files of both snapshots

Data files that one snapshot lists twice (`add_files` without its check) hold the same keys twice.
That is noticed later, when rows are compared.
"""

from collections.abc import Set
from typing import NamedTuple

from icdc_spark.iceberg.changes.differing_files import FILES_AT_ONCE
from icdc_spark.iceberg.changes.key_deletes import (
    KeyDeletes,
    build_key_deletes,
    find_key_deletes,
)
from icdc_spark.iceberg.changes.manifest_comparison import (
    DATA_AND_DELETE_INDEX,
    PARTITION_INDEX,
    ManifestComparison,
)
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.manifest_entries import DeleteEntry
from icdc_spark.iceberg.scan.manifest_index import ManifestIndex
from icdc_spark.iceberg.scan.manifests import read_manifests
from icdc_spark.iceberg.scan.planning import Listing, list_files
from icdc_spark.iceberg.table.tables import IcebergTable


class SnapshotFiles(NamedTuple):
    """The files of two snapshots that may differ; all others are equal in both."""

    earlier: Listing
    """Files of the earlier snapshot, each with the deletes that it has there."""
    later: Listing
    """Files of the later snapshot, each with the deletes that it has there."""
    key_deletes: KeyDeletes | None = None
    """Deletes that name deleted documents: files that only these affect are in neither listing."""


def list_changed(
    table: IcebergTable,
    from_id: int | None,
    to_id: int,
    *,
    keys: Set[int] = frozenset(),
    index: ManifestIndex = DATA_AND_DELETE_INDEX,
    partitions: ManifestIndex = PARTITION_INDEX,
    at_once: int = FILES_AT_ONCE,
) -> SnapshotFiles:
    """List both snapshots without most of the files that are equal in both.

    Neither snapshot need descend from the other. `keys` are the field ids of the key, where
    equality deletes by key may stand for the deleted documents. `at_once` has no influence on what
    is listed. Gap if a snapshot has expired.
    """
    if from_id is None:
        return SnapshotFiles(list_files(table, None), list_files(table, to_id))
    # Before anything is read: an expired snapshot must be a Gap, not a missing file.
    for snapshot_id in (from_id, to_id):
        table.require(snapshot_id)
    with translate_source_errors(table.name):
        earlier, later = read_manifests(table, from_id), read_manifests(table, to_id)
        comparison = ManifestComparison(table, index, partitions, at_once)
        deletes = comparison.find_changed_deletes(earlier, later)
        by_key = find_key_deletes(table, from_id, to_id, earlier, deletes, keys)

        def list_candidates(applied_by_file: Set[DeleteEntry]) -> SnapshotFiles:
            candidates = comparison.list_candidates(earlier, later, applied_by_file)
            if candidates is None:
                return SnapshotFiles(list_files(table, from_id), list_files(table, to_id))
            return SnapshotFiles(*candidates)

        # Deletes by key may apply to every older file: with them both snapshots would be listed
        # whole, which is what they are set apart for.
        files = list_candidates(deletes - by_key)
        if not by_key:
            return files
        if _has_readded_file(files):
            # A file that was removed and added again is younger than deletes of before. They may
            # name keys that the table still has, so they have to be applied file by file.
            return list_candidates(deletes)
        # Deletes by key are younger than the earlier snapshot, so they are in new manifests.
        added = later.deletes.without(set(earlier.deletes.keys))
        return files._replace(key_deletes=build_key_deletes(table, added, by_key))


def _has_readded_file(files: SnapshotFiles) -> bool:
    """Return whether a file of both snapshots has another sequence number in the later one."""
    before = {file.location: file.sequence for file in files.earlier.files}
    return any(
        before.get(file.location, file.sequence) != file.sequence for file in files.later.files
    )
