"""Decides by files, without reading any, what an export or a changelog batch has to read.

Plans are deterministic: the same snapshots give the same chunks and groups, whatever happened
between the two plannings, so that a restarted run goes on where the other one stopped.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from icdc_api.errors import Gap, NotAppendOnly
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.changes.changed_files import SnapshotFiles, list_changed
from icdc_spark.iceberg.changes.compactions import take_out_compactions
from icdc_spark.iceberg.changes.value_deletes import ValueDeletes, plan_value_deletes
from icdc_spark.iceberg.scan.planning import FileGroup, PlannedFile, list_appended, list_files
from icdc_spark.iceberg.table.row_lineage import row_lineage_since
from icdc_spark.iceberg.table.tables import IcebergTable

_APPENDING = frozenset({"append", "replace"})


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One unit of an export's work; `number` counts from 0 and names the work."""

    number: int
    group: FileGroup


@dataclass(frozen=True, kw_only=True)
class ChangePlan:
    """What differs between two snapshots, by files.

    `added` are files of the later snapshot only, `removed` of the earlier only. The others are
    files of both whose deletes differ: `by_value` those to which only equality deletes came that
    can be looked up by value, and the rest as of the earlier and of the later snapshot, where a
    file without deletes at one side is missing there. Where deletes tell themselves which documents
    are gone, `keys_gone` are these deletes, in the shape of data files that hold the fields of the
    key alone, and what else they concern is in no other group. `lineage_since` is the sequence
    number of the earlier snapshot where rows of `added` say whether they were written after it,
    else None.
    """

    from_id: int | None
    to_id: int
    added: FileGroup
    removed: FileGroup
    deletes_before: FileGroup
    deletes_after: FileGroup
    keys_gone: FileGroup
    by_value: tuple[ValueDeletes, ...] = ()
    lineage_since: int | None = None

    @property
    def groups(self) -> tuple[FileGroup, ...]:
        """All that has to be read."""
        groups = (self.added, self.removed, self.deletes_before, self.deletes_after)
        return (*groups, self.keys_gone, *(each.data for each in self.by_value))

    @property
    def bytes(self) -> int:
        """Of all files that have to be read, as compressed; of deletes only `keys_gone` count."""
        return sum(group.bytes for group in self.groups)

    @property
    def is_empty(self) -> bool:
        """Whether no row can differ."""
        return all(group.files == 0 for group in self.groups)

    @property
    def is_append(self) -> bool:
        """Whether rows can only have been added."""
        return all(group.files == 0 for group in self.groups if group is not self.added)


Planner = Callable[[IcebergTable, int | None, int], ChangePlan]
"""Plans what to read for the changes between two snapshots; None as the earlier means empty."""


def planner(spec: DocumentSpec) -> Planner:
    """How the changes of a table are planned, of which these documents are made."""
    return plan_appends if spec.append_only else partial(plan_changes, keys=spec.telling)


def plan_export(
    table: IcebergTable, snapshot_id: int, *, target_bytes: int, target_rows: int
) -> list[Chunk]:
    """The files of a snapshot by location, in chunks of about `target_bytes` (as compressed).

    A chunk is closed earlier at `target_rows`: what costs is the rows, and some compress well.
    """
    listing = list_files(table, snapshot_id)
    packed = pack(sorted(listing.files, key=_location), target_bytes, target_rows)
    return [Chunk(number=number, group=listing.group(files)) for number, files in enumerate(packed)]


def pack(
    files: Iterable[PlannedFile], target_bytes: int, target_rows: int
) -> list[list[PlannedFile]]:
    """Cuts the files into runs that pass a target only when a single file does."""
    runs: list[list[PlannedFile]] = []
    filled = rows = 0
    for file in files:
        if not runs or filled + file.bytes > target_bytes or rows + file.records > target_rows:
            runs.append([])
            filled = rows = 0
        runs[-1].append(file)
        filled += file.bytes
        rows += file.records
    return runs


def plan_changes(
    table: IcebergTable, from_id: int | None, to_id: int, *, keys: Set[int] = frozenset()
) -> ChangePlan:
    """What to read for the changes between two snapshots; `from_id` None means from empty.

    Neither need descend from the other, and nothing between them need be retained. Deletes by
    value of fields with the ids `keys`, if any, tell which documents are gone.
    """
    listed = list_changed(table, from_id, to_id, keys=keys)
    plan = compare(table, from_id, to_id, take_out_compactions(table, from_id, to_id, listed))
    return replace(plan, lineage_since=row_lineage_since(table, from_id, to_id))


def compare(
    table: IcebergTable, from_id: int | None, to_id: int, files: SnapshotFiles
) -> ChangePlan:
    """The plan from what is listed of two snapshots; files that are the same may be left out."""
    earlier, later, gone = files
    told = gone.names if gone else frozenset[str]()
    by_value, explained = plan_value_deletes(table, to_id, earlier, later, known_deletes=told)
    before = {file.location: file for file in earlier.files}
    after = {file.location: file for file in later.files}
    changed = sorted(
        location
        for location in (before.keys() & after.keys()) - explained
        if before[location].deletes != after[location].deletes
    )
    return ChangePlan(
        from_id=from_id,
        to_id=to_id,
        added=later.group(_missing(later.files, before)),
        removed=earlier.group(_missing(earlier.files, after)),
        deletes_before=earlier.group(_with_deletes(before[place] for place in changed)),
        deletes_after=later.group(_with_deletes(after[place] for place in changed)),
        keys_gone=gone.rows if gone else later.group(()),
        by_value=tuple(by_value),
    )


def plan_appends(table: IcebergTable, from_id: int | None, to_id: int) -> ChangePlan:
    """What to read of a table declared append-only; raises NotAppendOnly when it was not.

    Only files that bring rows count: of a compaction in the range nothing is read, and files it
    replaced are read as they were appended, because ids hang on a row's place.
    """
    plan = plan_changes(table, from_id, to_id)
    if from_id is None or (plan.is_append and _no_other_change(table, from_id, to_id)):
        return plan
    _require_appends(table, from_id, to_id)
    listing = list_appended(table, from_id, to_id)
    nothing = listing.group(())
    return ChangePlan(
        from_id=from_id,
        to_id=to_id,
        added=listing.group(sorted(listing.files, key=_location)),
        removed=nothing,
        deletes_before=nothing,
        deletes_after=nothing,
        keys_gone=nothing,
    )


def _no_other_change(table: IcebergTable, from_id: int, to_id: int) -> bool:
    """Whether no snapshot that is still known deleted or replaced rows."""
    chain = table.lineage(from_id, to_id)
    return chain is None or all(info.operation in _APPENDING for info in chain)


def _require_appends(table: IcebergTable, from_id: int, to_id: int) -> None:
    table.require(from_id)
    chain = table.lineage(from_id, to_id)
    if chain is None:
        if table.lineage(None, to_id) is not None:
            raise NotAppendOnly(
                f"{table.name}: snapshot {to_id} does not descend from snapshot {from_id}: "
                "the table was rolled back or replaced, and is declared appendOnly"
            )
        raise Gap(
            f"{table.name}: snapshots between {from_id} and {to_id} are no longer in the table, so "
            "that the appended rows cannot be told from rewritten ones"
        )
    for info in chain:
        if info.operation not in _APPENDING:
            raise NotAppendOnly(
                f"{table.name}: snapshot {info.id} is of operation {info.operation}, and the table "
                "is declared appendOnly"
            )


def _missing(files: Sequence[PlannedFile], other: dict[str, PlannedFile]) -> list[PlannedFile]:
    return sorted((file for file in files if file.location not in other), key=_location)


def _with_deletes(files: Iterable[PlannedFile]) -> list[PlannedFile]:
    return [file for file in files if file.deletes]


def _location(file: PlannedFile) -> str:
    return file.location
