"""What equality deletes that came between two snapshots take away, to be found by one narrow read.

Streaming writers upsert by an equality delete for each key, and such a delete may concern every
older file. To read these files at both ends and tell the rows apart by their places costs more than
the question: which rows of the earlier snapshot have these values? So where nothing but equality
deletes came to a file, they are handed on as rows of values, read like data. Every other file is
left to be read at both ends.

Which delete is for which file is Iceberg's to say, and what it says of single files is widened here
to whole groups. That is exact where the partition is made of the values that are compared (no other
partition can then hold them), and where all the deletes are later than all the files.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from icdc_spark.documents.schema import Field, Schema
from icdc_spark.iceberg.changes.equality_deletes import (
    as_data,
    comparable_fields,
    is_for_all_partitions,
    is_partition_of,
)
from icdc_spark.iceberg.scan.planning import (
    FileGroup,
    Listing,
    PlannedFile,
    delete_names,
    equality_fields,
)
from icdc_spark.iceberg.table.tables import IcebergTable

_FILE = "org.apache.iceberg.ContentFile"
_TASK = "org.apache.iceberg.FileScanTask"


@dataclass(frozen=True, kw_only=True)
class ValueDeletes:
    """A row of `data`, files as of the earlier snapshot, is gone at the later one just where the
    fields `by` have the values of some row of `deletes`; null is equal to null.

    `deletes` are delete files in the shape of data files: they hold the fields `by` alone.
    """

    data: FileGroup
    deletes: FileGroup
    by: tuple[Field, ...]


class _Delete(NamedTuple):
    """A delete file of the later snapshot; `fields` are empty where it names positions."""

    java: Any
    spec_id: int
    sequence: int
    fields: tuple[int, ...]


_Kind = tuple[int, tuple[int, ...]]
"""Files that one read serves: their partition spec, and the ids of the compared fields."""


def value_deletes(
    table: IcebergTable,
    to_id: int,
    earlier: Listing,
    later: Listing,
    *,
    told: Set[str] = frozenset(),
) -> tuple[list[ValueDeletes], frozenset[str]]:
    """What can be found by values, and the locations of the files of which that says all.

    The listings are those of two snapshots, as far as their files differ. Of deletes with names
    that are `told` is known already what they take.
    """
    before = {file.location: file for file in earlier.files}
    after = {file.location: file for file in later.files}
    more = {
        place: after[place].deletes - before[place].deletes - told
        for place in before.keys() & after.keys()
        if before[place].deletes < after[place].deletes
    }
    new = {place: names for place, names in more.items() if names}
    explained = frozenset(more.keys() - new.keys())
    if not new:
        return [], explained
    files = [after[place] for place in new]
    deletes = _deletes(table, later, _naming(files, new), frozenset[str]().union(*new.values()))
    by = _by_fields(table.schema(to_id), deletes.values())
    specs = dict(zip(new, later.spec_ids(files), strict=True))
    left = {place for place, names in new.items() if all(deletes[n].fields in by for n in names)}
    while True:
        kinds = _kinds({place: new[place] for place in left}, specs, deletes)
        doubtful: set[str] = set()
        for kind, (places, names) in kinds.items():
            last = max(after[place].sequence for place in places)
            if not _is_exact(table, kind, last, [deletes[name] for name in names]):
                doubtful |= places
        if not doubtful:
            break
        left -= doubtful
    made = []
    for kind, (places, names) in sorted(kinds.items()):
        mine = [deletes[name] for name in sorted(names)]
        found = ValueDeletes(
            data=earlier.group([before[place] for place in sorted(places)]),
            deletes=as_data(table, [delete.java for delete in mine]),
            by=by[kind[1]],
        )
        made.append(found)
    return made, explained | left


def _naming(
    files: Iterable[PlannedFile], new: Mapping[str, frozenset[str]]
) -> Iterator[PlannedFile]:
    """As few of the files as have all their new deletes among them."""
    known: set[str] = set()
    for file in files:
        if not new[file.location] <= known:
            known |= new[file.location]
            yield file


def _deletes(
    table: IcebergTable, listing: Listing, files: Iterable[PlannedFile], wanted: Set[str]
) -> dict[str, _Delete]:
    """Those of the delete files of these data files that are wanted, by name."""
    bridge = table.bridge
    flat = bridge.flatten(bridge.map(listing.group(list(files)).tasks, _TASK, "deletes"))
    told = zip(
        delete_names(bridge, flat),
        bridge.texts(bridge.map(flat, _FILE, "specId")),
        bridge.texts(bridge.map(flat, _FILE, "dataSequenceNumber")),
        equality_fields(bridge, flat),
        strict=True,
    )
    found = {
        name: (at, int(spec), int(sequence), ids)
        for at, (name, spec, sequence, ids) in enumerate(told)
        if name in wanted
    }
    return {
        name: _Delete(flat.get(at), spec, sequence, ids)
        for name, (at, spec, sequence, ids) in found.items()
    }


def _by_fields(
    schema: Schema, deletes: Iterable[_Delete]
) -> dict[tuple[int, ...], tuple[Field, ...]]:
    """The fields that deletes compare, by their ids, where rows can be asked for all of them."""
    found = {}
    for ids in {delete.fields for delete in deletes if delete.fields}:
        fields = comparable_fields(schema, set(ids))
        if fields is not None:
            found[ids] = fields
    return found


def _kinds(
    new: Mapping[str, Iterable[str]], specs: Mapping[str, int], deletes: Mapping[str, _Delete]
) -> Mapping[_Kind, tuple[set[str], set[str]]]:
    """By kind the data files, and the deletes that any of them has."""
    kinds: dict[_Kind, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for place, names in new.items():
        for name in names:
            places, mine = kinds[specs[place], deletes[name].fields]
            places.add(place)
            mine.add(name)
    return kinds


def _is_exact(
    table: IcebergTable, kind: _Kind, last_sequence: int, deletes: Sequence[_Delete]
) -> bool:
    """Whether every one of the deletes may be applied to every file of the kind."""
    spec_id, compared = kind
    if last_sequence >= min(delete.sequence for delete in deletes):
        return False
    specs = {delete.spec_id for delete in deletes}
    if all(is_for_all_partitions(table, each) for each in specs):
        return True
    return is_partition_of(table, spec_id, set(compared))
