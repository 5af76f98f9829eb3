"""Plan one narrow read that finds the rows removed by equality deletes added between two snapshots.

Streaming writers upsert by one equality delete per key, and such a delete may apply to every older
data file. Reading these files at both snapshots and comparing their rows by position is expensive.
The question is smaller: which rows of the earlier snapshot have the deleted values? So where only
equality deletes were added to a data file, it is read once, as of the earlier snapshot. The delete
files are read as rows of values. Every other data file is left to be read at both snapshots.

Iceberg assigns delete files to single data files. A group widens that: each of its delete files is
applied to each of its data files. The result is the same under two conditions (`_is_exact`):

1. Every delete of the group has a higher sequence number than every data file of it.
2. The deletes apply to all partitions, or the partition is derived from the compared fields alone.
   Then no other partition can hold the deleted values.

Example: `D8` and `D9` compare `id`, `V9` compares `price` (a double), `P9` names positions. The
number is the sequence number.

    data file   sequence   added deletes   read
    a           5          D8, D9          once, for the ids of D8 and D9
    b           6          D8, D9          once, in one group with a
    c           6          D8, D9, P9      at both snapshots: the positions are not values
    d           6          V9              at both: Spark and Iceberg disagree on equal doubles

A file `e` of sequence 8 with `D9` would make its group inexact, because `D8` does not apply to `e`.
Then a, b and e are all read at both snapshots.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from icdc_spark.documents.schema import Field, Schema
from icdc_spark.iceberg.changes.equality_deletes import (
    applies_to_all_partitions,
    build_data_group,
    find_comparable_fields,
    is_partition_derived,
)
from icdc_spark.iceberg.scan.planning import (
    FileGroup,
    Listing,
    PlannedFile,
    list_delete_names,
    list_equality_fields,
)
from icdc_spark.iceberg.table.tables import IcebergTable

_FILE = "org.apache.iceberg.ContentFile"
_TASK = "org.apache.iceberg.FileScanTask"


@dataclass(frozen=True, kw_only=True)
class ValueDeletes:
    """One narrow read: the rows of `data` that have the values of a row of `deletes` are deleted.

    All other rows of `data` are in the later snapshot too. Null is equal to null.
    """

    data: FileGroup
    """Data files, each with its deletes as of the earlier snapshot."""
    deletes: FileGroup
    """Equality delete files in the shape of data files; they hold `fields` and no other column."""
    fields: tuple[Field, ...]
    """The columns that are compared."""


class _LaterDeleteFile(NamedTuple):
    """A delete file of the later snapshot."""

    java: Any
    """Iceberg's `DeleteFile`."""
    spec_id: int
    """The id of the partition spec that it was written by."""
    sequence: int
    """Its data sequence number: it applies to data files with a lower one."""
    field_ids: tuple[int, ...]
    """The ids of the compared fields, sorted; empty for a file of positions."""


class _GroupKey(NamedTuple):
    """What files of one read have in common."""

    spec_id: int
    """The id of the partition spec of the data files."""
    field_ids: tuple[int, ...]
    """The ids of the fields that the deletes compare, sorted."""


@dataclass(frozen=True)
class _Group:
    """Files that one read serves."""

    locations: set[str] = field(default_factory=set)
    """Data files."""
    delete_names: set[str] = field(default_factory=set)
    """Delete files, each added to at least one of the data files."""


def plan_value_deletes(
    table: IcebergTable,
    to_id: int,
    earlier: Listing,
    later: Listing,
    *,
    known_deletes: Set[str] = frozenset(),
) -> tuple[list[ValueDeletes], frozenset[str]]:
    """Return the reads by value, and the locations of the data files that these reads cover.

    `earlier` and `later` list the files that may differ between two snapshots; `to_id` is the later
    one. The effect of the delete files named by `known_deletes` is known without a read, so a data
    file to which only these were added is covered as well.
    """
    before = {file.location: file for file in earlier.files}
    after = {file.location: file for file in later.files}
    added = _collect_added_deletes(before, after)
    to_find = {location: names - known_deletes for location, names in added.items()}
    to_find = {location: names for location, names in to_find.items() if names}
    covered = frozenset(added.keys() - to_find.keys())
    if not to_find:
        return [], covered
    files = [after[location] for location in to_find]
    deletes = _load_deletes(table, later, files, to_find)
    fields = _find_fields(table.read_schema(to_id), deletes.values())
    candidates = {
        location: names
        for location, names in to_find.items()
        if all(deletes[name].field_ids in fields for name in names)
    }
    spec_ids = dict(zip(to_find, later.read_spec_ids(files), strict=True))
    groups = _group_exactly(table, candidates, after, spec_ids, deletes)
    reads = [
        ValueDeletes(
            # As of the earlier snapshot: rows that were deleted before must not be found again.
            data=earlier.group([before[location] for location in sorted(group.locations)]),
            deletes=build_data_group(
                table, [deletes[name].java for name in sorted(group.delete_names)]
            ),
            fields=fields[key.field_ids],
        )
        # Sorted: a repeated batch makes the same reads in the same order.
        for key, group in sorted(groups.items(), key=lambda item: item[0])
    ]
    return reads, covered.union(*(group.locations for group in groups.values()))


def _collect_added_deletes(
    before: Mapping[str, PlannedFile], after: Mapping[str, PlannedFile]
) -> dict[str, frozenset[str]]:
    """Return the added delete files by data file, for data files that lost none."""
    # Where a delete file was removed, rows may have come back: that takes a read at both snapshots.
    return {
        location: after[location].deletes - before[location].deletes
        for location in before.keys() & after.keys()
        if before[location].deletes < after[location].deletes
    }


def _load_deletes(
    table: IcebergTable,
    listing: Listing,
    files: Iterable[PlannedFile],
    to_find: Mapping[str, frozenset[str]],
) -> dict[str, _LaterDeleteFile]:
    """Return the delete files of `to_find` by name, out of the tasks of `files` in `listing`."""
    bridge = table.bridge
    tasks = listing.group(list(_pick_carriers(files, to_find))).tasks
    java_deletes = bridge.flatten(bridge.map(tasks, _TASK, "deletes"))
    columns = zip(
        list_delete_names(bridge, java_deletes),
        bridge.read_texts(bridge.map(java_deletes, _FILE, "specId")),
        bridge.read_texts(bridge.map(java_deletes, _FILE, "dataSequenceNumber")),
        list_equality_fields(bridge, java_deletes),
        strict=True,
    )
    wanted = frozenset[str]().union(*to_find.values())
    # By name first: a delete file is in the list once per data file, and each `get` is a call.
    rows = {
        name: (position, int(spec_id), int(sequence), field_ids)
        for position, (name, spec_id, sequence, field_ids) in enumerate(columns)
        if name in wanted
    }
    return {
        name: _LaterDeleteFile(java_deletes.get(position), spec_id, sequence, field_ids)
        for name, (position, spec_id, sequence, field_ids) in rows.items()
    }


def _pick_carriers(
    files: Iterable[PlannedFile], to_find: Mapping[str, frozenset[str]]
) -> Iterator[PlannedFile]:
    """Yield few of the data files, which carry all delete files of `to_find` between them."""
    # One delete is usually added to every file: the first data file then shows them all.
    carried: set[str] = set()
    for file in files:
        if not to_find[file.location] <= carried:
            carried |= to_find[file.location]
            yield file


def _find_fields(
    schema: Schema, deletes: Iterable[_LaterDeleteFile]
) -> dict[tuple[int, ...], tuple[Field, ...]]:
    """Return the compared columns by field ids, for deletes whose values Spark can compare."""
    fields_by_ids = {}
    for ids in {delete.field_ids for delete in deletes if delete.field_ids}:
        fields = find_comparable_fields(schema, set(ids))
        if fields is not None:
            fields_by_ids[ids] = fields
    return fields_by_ids


def _group_exactly(
    table: IcebergTable,
    candidates: Mapping[str, frozenset[str]],
    files: Mapping[str, PlannedFile],
    spec_ids: Mapping[str, int],
    deletes: Mapping[str, _LaterDeleteFile],
) -> dict[_GroupKey, _Group]:
    """Group data files and their added deletes, and drop the files of inexact groups."""
    remaining = dict(candidates)
    while True:
        groups = _group_by_fields(remaining, spec_ids, deletes)
        inexact: set[str] = set()
        for key, group in groups.items():
            last_data = max(files[location].sequence for location in group.locations)
            if not _is_exact(table, key, last_data, [deletes[n] for n in group.delete_names]):
                inexact |= group.locations
        if not inexact:
            return groups
        # A file with deletes on two sets of fields is in two groups. Without it the other group
        # has other files and deletes, so it is built and judged anew.
        remaining = {at: names for at, names in remaining.items() if at not in inexact}


def _group_by_fields(
    added: Mapping[str, frozenset[str]],
    spec_ids: Mapping[str, int],
    deletes: Mapping[str, _LaterDeleteFile],
) -> dict[_GroupKey, _Group]:
    """Group data files by partition spec and by the fields that their added deletes compare."""
    groups: dict[_GroupKey, _Group] = {}
    for location, names in added.items():
        for name in names:
            key = _GroupKey(spec_ids[location], deletes[name].field_ids)
            group = groups.setdefault(key, _Group())
            group.locations.add(location)
            group.delete_names.add(name)
    return groups


def _is_exact(
    table: IcebergTable, key: _GroupKey, last_data: int, deletes: Sequence[_LaterDeleteFile]
) -> bool:
    """Return whether each delete may be applied to each data file of a group.

    `last_data` is the highest sequence number of the data files.
    """
    # Strictly lower: an equality delete does not apply to files of its own commit, which is how a
    # writer upserts a row in one commit.
    if last_data >= min(delete.sequence for delete in deletes):
        return False
    spec_ids = {delete.spec_id for delete in deletes}
    if all(applies_to_all_partitions(table, spec_id) for spec_id in spec_ids):
        return True
    return is_partition_derived(table, key.spec_id, set(key.field_ids))
