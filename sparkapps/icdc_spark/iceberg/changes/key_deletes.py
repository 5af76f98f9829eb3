"""Find equality deletes that name the keys of documents, as upserts of streaming writers do.

Where such deletes apply to every row of the earlier snapshot, they themselves say which documents
are deleted. Older data files are then neither listed nor read: a commit costs what it brings,
however large the table is. This module must not know how documents get their ids; it knows the
fields that ids are made of.

Example: the documents of a table have the key `id`; the earlier snapshot has sequence number 7 and
1,000,000 rows. All files are unpartitioned. Added since:

    delete file   compares   sequence   names keys
    D8            id         8          yes: delete the documents of its ids
    E8            id, day    8          no: a row with the id may have another day
    D7            id         7          no: the earlier snapshot may hold newer rows with the ids
    P8            positions  8          no: a position names no key

If D8 were written for one partition of `days(ts)`, rows of its ids in other partitions would stay,
so it would not name keys either.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from icdc_spark.iceberg.changes.equality_deletes import (
    applies_to_all_partitions,
    build_data_group,
    find_comparable_fields,
    is_partition_derived,
)
from icdc_spark.iceberg.scan.manifest_entries import DeleteEntry, load_delete_files
from icdc_spark.iceberg.scan.manifests import Manifests, SnapshotManifests
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.iceberg.table.tables import IcebergTable

LOOK_UP_ROWS = 200_000
"""Up to so many rows in the earlier snapshot, they are read although deletes name the keys.

A delete may name a key that never existed: without the read its document is deleted in vain."""


@dataclass(frozen=True, kw_only=True)
class KeyDeletes:
    """Delete files that remove every row of the earlier snapshot that has one of their keys.

    Rows with these keys in the later snapshot are all in added files.
    """

    names: frozenset[str]
    """The names of the delete files, as in `PlannedFile.deletes`."""
    rows: FileGroup
    """The delete files in the shape of data files; they hold the fields of the key alone."""


def find_key_deletes(
    table: IcebergTable,
    from_id: int,
    to_id: int,
    earlier: SnapshotManifests,
    deletes: Iterable[DeleteEntry],
    key_ids: Set[int],
) -> frozenset[DeleteEntry]:
    """Return the deletes that name keys and apply to every row of the earlier snapshot.

    `deletes` are the delete files of only one of the two snapshots; `key_ids` are the field ids of
    the key, none where a filter or a position decides which documents there are. Empty if the
    earlier snapshot is small enough to be read (`LOOK_UP_ROWS`).

    The result holds for data files that keep their sequence number: deletes from before a file was
    added again do not apply to it.
    """
    # Without a key no delete names one. A file of positions compares no fields either, so it would
    # be taken for one that does.
    if not key_ids:
        return frozenset()
    # A delete of the same or a lower number would not apply to all rows of the earlier snapshot.
    since = table.require(from_id).sequence_number
    compared = tuple(sorted(key_ids))
    by_key = {delete for delete in deletes if delete.fields == compared and delete.sequence > since}
    if not by_key or find_comparable_fields(table.read_schema(to_id), key_ids) is None:
        return frozenset()
    # By the manifest list alone, and before deletes: no manifest is read for this choice.
    if earlier.data.live_rows <= LOOK_UP_ROWS:
        return frozenset()
    spec_ids = {
        spec_id
        for spec_id in {delete.spec_id for delete in by_key}
        if _applies_to_all(table, spec_id, earlier.data, key_ids)
    }
    return frozenset(delete for delete in by_key if delete.spec_id in spec_ids)


def _applies_to_all(table: IcebergTable, spec_id: int, data: Manifests, key_ids: Set[int]) -> bool:
    """Return whether deletes of this spec reach each row of `data` that has one of their keys."""
    if applies_to_all_partitions(table, spec_id):
        return True
    # Files of another spec are in other partitions, even where these are derived from the key.
    return data.spec_ids == {spec_id} and is_partition_derived(table, spec_id, key_ids)


def build_key_deletes(
    table: IcebergTable, manifests: Manifests, entries: Set[DeleteEntry]
) -> KeyDeletes:
    """Return the result of `find_key_deletes` as files to be read, out of these manifests."""
    names = frozenset(entry.name for entry in entries)
    files = load_delete_files(table, manifests, names)
    return KeyDeletes(names=names, rows=build_data_group(table, files))
