"""Decide which files a changelog batch reads, without reading any.

For a batch from snapshot S to snapshot E, by the files that the two snapshots list:

| data file | in S | in E | group of the plan |
|---|---|---|---|
| `a` | no deletes | no deletes | none: its rows cancel without being read |
| `b` | | no deletes | `added` |
| `c` | no deletes | | `removed` |
| `d` | position deletes `p1` | `p1`, `p2` | `shared_before` and `shared_after` |
| `e` | no deletes | equality deletes `q` | `value_deletes`, for rows that have the values of `q` |

Plans are deterministic: the same snapshots give the same groups, whatever happened between the two
plannings, so that a restarted run repeats what the other one did. It must not know how rows are
compared. Exports are planned by `export_plan`.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from icdc_api.errors import Gap, NotAppendOnly
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.changes.changed_files import SnapshotFiles, list_changed
from icdc_spark.iceberg.changes.compactions import take_out_compactions
from icdc_spark.iceberg.changes.value_deletes import ValueDeletes, plan_value_deletes
from icdc_spark.iceberg.scan.planning import FileGroup, PlannedFile, list_appended
from icdc_spark.iceberg.table.row_lineage import find_lineage_start
from icdc_spark.iceberg.table.tables import IcebergTable

# A `replace` is a compaction: it moves rows to other files and changes none.
_APPENDING = frozenset({"append", "replace"})


@dataclass(frozen=True, kw_only=True)
class ChangePlan:
    """What differs between two snapshots, by files."""

    from_id: int | None
    """The earlier snapshot; None stands for an empty table."""
    to_id: int
    """The later snapshot. It need not descend from the earlier one."""
    added: FileGroup
    """Data files of the later snapshot only."""
    removed: FileGroup
    """Data files of the earlier snapshot only."""
    shared_before: FileGroup
    """Data files of both snapshots whose deletes differ, with the deletes of the earlier one.
    Without those that had no deletes there."""
    shared_after: FileGroup
    """The same files with the deletes of the later snapshot; without those that have none there."""
    deleted_keys: FileGroup
    """Equality deletes that name the deleted documents themselves, in the shape of data files that
    hold the fields of the key alone. Files that only these affect are in no other group."""
    value_deletes: tuple[ValueDeletes, ...] = ()
    """Data files of both snapshots to which only equality deletes were added, with these deletes.
    The rows that have their values are looked up by one read."""
    lineage_since: int | None = None
    """The sequence number of the earlier snapshot, where rows of `added` say when they were last
    written; None where they do not, or cannot be trusted."""

    @property
    def groups(self) -> tuple[FileGroup, ...]:
        """All groups of data files to be read."""
        groups = (self.added, self.removed, self.shared_before, self.shared_after)
        return (*groups, self.deleted_keys, *(deletes.data for deletes in self.value_deletes))

    @property
    def bytes(self) -> int:
        """Compressed bytes of all files to be read; of delete files only `deleted_keys` count."""
        return sum(group.bytes for group in self.groups)

    @property
    def files(self) -> int:
        """Number of all files to be read, as in `bytes`."""
        return sum(group.files for group in self.groups)

    @property
    def is_empty(self) -> bool:
        """True if no row can differ."""
        return all(group.files == 0 for group in self.groups)

    @property
    def is_append(self) -> bool:
        """True if rows can only have been added."""
        return all(group.files == 0 for group in self.groups if group is not self.added)


Planner = Callable[[IcebergTable, int | None, int], ChangePlan]
"""Plans what to read for the changes between two snapshots; None as the earlier means empty."""


def choose_planner(spec: DocumentSpec) -> Planner:
    """Return the planner of the tables that have these documents."""
    if spec.append_only:
        return plan_appends
    return partial(plan_changes, keys=spec.identifying_fields)


def plan_changes(
    table: IcebergTable, from_id: int | None, to_id: int, *, keys: Set[int] = frozenset()
) -> ChangePlan:
    """Plan the changes between two snapshots; `from_id` None means from an empty table.

    Neither need descend from the other, and nothing between them need be retained. `keys` are the
    ids of the fields by which an equality delete names the deleted documents; none where it cannot.
    """
    listed = list_changed(table, from_id, to_id, keys=keys)
    # Before the comparison, which takes a compacted row for a removed and an added one.
    files = take_out_compactions(table, from_id, to_id, listed)
    plan = compare_files(table, from_id, to_id, files)
    return replace(plan, lineage_since=find_lineage_start(table, from_id, to_id))


def compare_files(
    table: IcebergTable, from_id: int | None, to_id: int, files: SnapshotFiles
) -> ChangePlan:
    """Return the plan for the listed files of two snapshots.

    Files that are equal in both may be left out of the listings.
    """
    earlier, later, key_deletes = files
    known_deletes = key_deletes.names if key_deletes else frozenset[str]()
    value_deletes, looked_up = plan_value_deletes(
        table, to_id, earlier, later, known_deletes=known_deletes
    )
    before = {file.location: file for file in earlier.files}
    after = {file.location: file for file in later.files}
    changed = sorted(
        location
        for location in (before.keys() & after.keys()) - looked_up
        # By their names: a delete file never changes, so equal names hide equal rows.
        if before[location].deletes != after[location].deletes
    )
    return ChangePlan(
        from_id=from_id,
        to_id=to_id,
        added=later.group(_exclude(later.files, before)),
        removed=earlier.group(_exclude(earlier.files, after)),
        # A file without deletes hides no row: there is nothing to be read of it.
        shared_before=earlier.group(_with_deletes(before[location] for location in changed)),
        shared_after=later.group(_with_deletes(after[location] for location in changed)),
        deleted_keys=key_deletes.rows if key_deletes else later.group(()),
        value_deletes=tuple(value_deletes),
    )


def plan_appends(table: IcebergTable, from_id: int | None, to_id: int) -> ChangePlan:
    """Plan the rows appended to a table declared `appendOnly`; NotAppendOnly where rows changed.

    Only files that bring rows count: of a compaction in the range nothing is read, and files it
    replaced are read as they were appended, because the id of a row is made of its position.
    """
    plan = plan_changes(table, from_id, to_id)
    # From empty, every file of the later snapshot is an append, whatever came before it.
    if from_id is None or (plan.is_append and _is_append_chain(table, from_id, to_id)):
        return plan
    # Files that a compaction replaced are in neither snapshot: list them by the commits between.
    _require_appends(table, from_id, to_id)
    listing = list_appended(table, from_id, to_id)
    empty = listing.group(())
    return ChangePlan(
        from_id=from_id,
        to_id=to_id,
        added=listing.group(sorted(listing.files, key=_get_location)),
        removed=empty,
        shared_before=empty,
        shared_after=empty,
        deleted_keys=empty,
    )


def _is_append_chain(table: IcebergTable, from_id: int, to_id: int) -> bool:
    """Return whether no snapshot that is still retained deleted or replaced rows."""
    chain = table.list_snapshots_between(from_id, to_id)
    # None where an ancestor has expired: the plan alone then says that files were only added.
    return chain is None or all(info.operation in _APPENDING for info in chain)


def _require_appends(table: IcebergTable, from_id: int, to_id: int) -> None:
    # First: an expired start is a Gap, which a new export mends; NotAppendOnly waits for a person.
    table.require(from_id)
    chain = table.list_snapshots_between(from_id, to_id)
    if chain is None:
        # Either all ancestors are known, and the earlier snapshot is none of them, or some expired.
        if table.list_snapshots_between(None, to_id) is not None:
            raise NotAppendOnly(
                f"{table.name}: snapshot {to_id} does not descend from snapshot {from_id}: "
                "the table was rolled back or replaced, although it is declared appendOnly"
            )
        raise Gap(
            f"{table.name}: snapshots between {from_id} and {to_id} are no longer in the table, so "
            "appended rows cannot be distinguished from rewritten ones"
        )
    for info in chain:
        if info.operation not in _APPENDING:
            raise NotAppendOnly(
                f"{table.name}: snapshot {info.id} has the operation {info.operation}, although "
                "the table is declared appendOnly"
            )


def _exclude(files: Sequence[PlannedFile], other: dict[str, PlannedFile]) -> list[PlannedFile]:
    # Iceberg reads manifests in parallel, so its order is another one in each planning.
    return sorted((file for file in files if file.location not in other), key=_get_location)


def _with_deletes(files: Iterable[PlannedFile]) -> list[PlannedFile]:
    return [file for file in files if file.deletes]


def _get_location(file: PlannedFile) -> str:
    return file.location
