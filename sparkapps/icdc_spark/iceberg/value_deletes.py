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

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from icdc_spark.documents.schema import Field, Primitive, Schema
from icdc_spark.iceberg.manifests import manifests_of
from icdc_spark.iceberg.planning import FileGroup, Listing, PlannedFile, delete_names
from icdc_spark.iceberg.tables import IcebergTable

_FILE = "org.apache.iceberg.ContentFile"
_TASK = "org.apache.iceberg.FileScanTask"

_COMPARED_ALIKE = frozenset(
    {
        "boolean", "int", "long", "decimal", "date", "timestamp", "timestamptz", "string", "uuid",
        "fixed", "binary",
    }
)  # fmt: skip
"""Types of which Spark and Iceberg call the same values equal; of floats they do not."""


@dataclass(frozen=True, kw_only=True)
class ValueDeletes:
    """A row of `data`, files as of the earlier snapshot, is gone at the later one just where the
    fields `by` have the values of some row of `deletes`; null is equal to null.

    `deletes` are delete files in the shape of data files: they hold the fields `by` alone. With
    `everywhere` they take the rows of these values out of all files of the earlier snapshot, so
    that no such row is left at the later one but in files that were added.
    """

    data: FileGroup
    deletes: FileGroup
    by: tuple[Field, ...]
    everywhere: bool


class _Delete(NamedTuple):
    """A delete file of the later snapshot; `fields` are empty where it names positions."""

    java: Any
    spec_id: int
    sequence: int
    fields: tuple[int, ...]


_Kind = tuple[int, tuple[int, ...]]
"""Files that one read serves: their partition spec, and the ids of the compared fields."""


def value_deletes(
    table: IcebergTable, from_id: int | None, to_id: int, earlier: Listing, later: Listing
) -> tuple[list[ValueDeletes], frozenset[str]]:
    """What can be found by values, and the locations of the files of which that says all.

    The listings are those of the two snapshots, as far as their files differ.
    """
    before = {file.location: file for file in earlier.files}
    after = {file.location: file for file in later.files}
    new = {
        place: after[place].deletes - before[place].deletes
        for place in before.keys() & after.keys()
        if before[place].deletes < after[place].deletes
    }
    if from_id is None or not new:
        return [], frozenset()
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
            deletes=_as_data(table, [delete.java for delete in mine]),
            by=by[kind[1]],
            everywhere=_is_everywhere(table, from_id, kind[0], mine),
        )
        made.append(found)
    return made, frozenset(left)


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
    methods = ("specId", "dataSequenceNumber", "equalityFieldIds")
    columns = (bridge.texts(bridge.map(flat, _FILE, method)) for method in methods)
    told = zip(delete_names(bridge, flat), *columns, strict=True)
    found = {
        name: (at, int(spec), int(sequence), tuple(sorted(json.loads(ids) or ())))
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
    known = {field.id: field for field in schema.fields}
    found = {}
    for ids in {delete.fields for delete in deletes if delete.fields}:
        fields = [known[each] for each in ids if each in known]
        kinds = [field.type.name for field in fields if isinstance(field.type, Primitive)]
        if len(kinds) == len(ids) and _COMPARED_ALIKE.issuperset(kinds):
            found[ids] = tuple(fields)
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
    specs = table.java.specs()
    if all(specs.get(delete.spec_id).isUnpartitioned() for delete in deletes):
        return True  # such deletes are for all partitions
    parser = table.bridge.statics("org.apache.iceberg.PartitionSpecParser")
    fields = json.loads(parser.toJson(specs.get(spec_id)))["fields"]
    sources = {part["source-id"] for part in fields if part["transform"] != "void"}
    return sources.issubset(compared)


def _is_everywhere(
    table: IcebergTable, from_id: int, spec_id: int, deletes: Sequence[_Delete]
) -> bool:
    """Whether no data file of the earlier snapshot is out of reach of any of these deletes, of
    which is known that they are exact for files of the spec."""
    if table.require(from_id).sequence_number >= min(delete.sequence for delete in deletes):
        return False
    specs = table.java.specs()
    if all(specs.get(delete.spec_id).isUnpartitioned() for delete in deletes):
        return True
    bridge, manifests = table.bridge, manifests_of(table, from_id).data
    of = bridge.map(manifests.java, "org.apache.iceberg.ManifestFile", "partitionSpecId")
    return set(bridge.texts(of)) == {str(spec_id)}


def _as_data(table: IcebergTable, deletes: Sequence[Any]) -> FileGroup:
    """Java delete files as a group of data files, which readers open like any other."""
    bridge = table.bridge
    tasks = bridge.new("java.util.ArrayList")
    schema = bridge.statics("org.apache.iceberg.SchemaParser").toJson(table.java.schema())
    parser = bridge.statics("org.apache.iceberg.PartitionSpecParser")
    everything = bridge.statics("org.apache.iceberg.expressions.Expressions").alwaysTrue()
    residuals = bridge.statics("org.apache.iceberg.expressions.ResidualEvaluator")
    residual = residuals.unpartitioned(everything)
    none = bridge.array("org.apache.iceberg.DeleteFile", ())
    for delete in deletes:
        spec = table.java.specs().get(delete.specId())
        tasks.add(
            bridge.new(
                "org.apache.iceberg.BaseFileScanTask",
                _data_file(table, spec, delete),
                none,
                schema,
                parser.toJson(spec),
                residual,
            )
        )
    return FileGroup(
        tasks=tasks,
        files=len(deletes),
        records=sum(int(delete.recordCount()) for delete in deletes),
        bytes=sum(int(delete.fileSizeInBytes()) for delete in deletes),
    )


def _data_file(table: IcebergTable, spec: Any, delete: Any) -> Any:
    builder = table.bridge.statics("org.apache.iceberg.DataFiles").builder(spec)
    builder.withPath(delete.location()).withFormat(delete.format())
    builder.withFileSizeInBytes(delete.fileSizeInBytes()).withRecordCount(delete.recordCount())
    if spec.isPartitioned():
        builder.withPartition(delete.partition())
    if delete.keyMetadata() is not None:
        builder.withEncryptionKeyMetadata(delete.keyMetadata())
    return builder.build()
