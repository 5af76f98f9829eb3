"""Equality deletes that name the keys of documents, as upserts of streaming writers bring them.

Where they reach every row of the earlier snapshot, they say themselves which documents are gone:
older files are then neither listed nor read, and a commit costs what it brings, however large the
table is. It must not know how documents get their ids, only of which fields these are made.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from icdc_spark.iceberg.changes.equality_deletes import (
    as_data,
    comparable_fields,
    is_for_all_partitions,
    is_partition_of,
)
from icdc_spark.iceberg.scan.manifests import (
    DeleteEntry,
    Manifests,
    SnapshotManifests,
    delete_files,
)
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.iceberg.table.tables import IcebergTable

LOOK_UP_ROWS = 200_000
"""Rows of the earlier snapshot up to which they are looked at, although deletes name the keys that
are gone: of these some may never have been there, and are then deleted in the index for nothing."""


@dataclass(frozen=True, kw_only=True)
class KeyDeletes:
    """Every row of the earlier snapshot that has the key of a row of `rows` is gone at the later
    one, but for rows of files that were added.

    `rows` are delete files in the shape of data files: they hold the fields of the key alone.
    `names` are the names of these delete files.
    """

    names: frozenset[str]
    rows: FileGroup


def naming_keys(
    table: IcebergTable,
    from_id: int,
    to_id: int,
    earlier: SnapshotManifests,
    deletes: Iterable[DeleteEntry],
    keys: Set[int],
) -> frozenset[DeleteEntry]:
    """Those of the deletes of one snapshot alone that name keys, fields with these ids, of which
    they take every row that the earlier snapshot has.

    That is said of files that keep their sequence number: deletes from before a file was put in
    again do not reach it.
    """
    since = table.require(from_id).sequence_number
    compared = tuple(sorted(keys))
    found = {each for each in deletes if each.fields == compared and each.sequence > since}
    if not found or comparable_fields(table.schema(to_id), keys) is None:
        return frozenset()
    if earlier.data.live_rows <= LOOK_UP_ROWS:
        return frozenset()
    reaching = {
        spec_id
        for spec_id in {each.spec_id for each in found}
        if _reaches_all(table, spec_id, earlier.data, keys)
    }
    return frozenset(each for each in found if each.spec_id in reaching)


def _reaches_all(table: IcebergTable, spec_id: int, data: Manifests, keys: Set[int]) -> bool:
    """Whether no file in these manifests that has a key of such deletes is of another partition."""
    if is_for_all_partitions(table, spec_id):
        return True
    return data.spec_ids == {spec_id} and is_partition_of(table, spec_id, keys)


def key_deletes(table: IcebergTable, manifests: Manifests, entries: Set[DeleteEntry]) -> KeyDeletes:
    """What `naming_keys` found, to be read; these manifests hold it."""
    names = frozenset(each.name for each in entries)
    found = delete_files(table, manifests, names)
    return KeyDeletes(names=names, rows=as_data(table, found))
