"""The model of the catalog: one Iceberg table, its commits, and what expiry leaves of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from types import MappingProxyType

from icdc_spark.documents.schema import Field, Primitive, Schema
from icdc_spark.iceberg.changes.stated_files import StatedFiles
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo
from icdc_spark.iceberg.table.tags import Tag
from icdc_testing.simulation.schedule import BEGIN

TABLE = "shop.orders"
SCHEMA = Schema(
    id=0,
    fields=(
        Field(id=1, name="id", type=Primitive("long"), required=True),
        Field(id=2, name="value", type=Primitive("long")),
    ),
    identifier_ids=(1,),
)

Rows = Mapping[int, int]
"""The rows of a snapshot: value by id."""


@dataclass
class SimulatedLake:
    """The table as the catalog has it now."""

    random: Random
    uuid: str = "table-1"
    snapshots: dict[int, SnapshotInfo] = field(default_factory=dict)
    """Those that are retained."""
    rows: dict[int, Rows] = field(default_factory=dict)
    """The rows of every snapshot that ever was: what the oracle compares with."""
    head: int | None = None
    tags: dict[str, Tag] = field(default_factory=dict)
    commits: int = 0
    """Commits so far, those of an older table of the name included."""

    def commit(self, changes: Mapping[int, int | None], now: float, operation: str) -> None:
        """Commit a snapshot with the rows of `changes`; None deletes one."""
        rows = dict(self.rows[self.head]) if self.head is not None else {}
        for key, value in changes.items():
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        self.commits += 1
        number = self.random.randrange(1, 10**12) * 1000 + self.commits
        self.snapshots[number] = SnapshotInfo(
            id=number,
            parent_id=self.head,
            sequence_number=self.commits,
            committed_at=BEGIN + timedelta(seconds=now),
            operation=operation,
            schema_id=0,
        )
        self.rows[number] = MappingProxyType(rows)
        self.head = number

    def set_head(self, share: float) -> None:
        """Move the branch to one of the retained snapshots: a rollback, or forward again."""
        numbers = sorted(self.snapshots, key=lambda number: self.snapshots[number].sequence_number)
        if numbers:
            self.head = numbers[int(share * len(numbers)) % len(numbers)]

    def expire(self) -> None:
        """Remove all snapshots but the current one and those that a tag retains."""
        retained = {self.head, *(tag.snapshot_id for tag in self.tags.values())}
        self.snapshots = {n: info for n, info in self.snapshots.items() if n in retained}

    def recreate(self, now: float) -> None:
        """Drop the table and create one of its name, with the rows of now but one."""
        rows: dict[int, int | None] = dict(self.rows[self.head]) if self.head else {}
        for key in list(rows)[:1]:
            del rows[key]
        self.uuid, self.head = f"table-{self.commits + 2}", None
        self.snapshots, self.tags = {}, {}
        self.commit(rows, now, "append")


class LoadedTable(IcebergTable):
    """The table as a driver loaded it: later commits are not in it."""

    def __init__(self, lake: SimulatedLake) -> None:
        self.name = TABLE
        self.lake = lake
        self._load()

    def _load(self) -> None:
        self._uuid, self._head = self.lake.uuid, self.lake.head
        self._snapshots = dict(self.lake.snapshots)
        self._last_sequence_number = self.lake.commits

    def refresh(self) -> None:
        """Load it again."""
        self._load()

    @property
    def uuid(self) -> str:
        """The table's UUID."""
        return self._uuid

    @property
    def last_sequence_number(self) -> int:
        """The number of the last commit, when it was loaded."""
        return self._last_sequence_number

    @property
    def snapshots(self) -> dict[int, SnapshotInfo]:
        """The snapshots that were retained when it was loaded."""
        return self._snapshots or {}

    def find_current_snapshot(self, branch: str = "main") -> SnapshotInfo | None:
        """Return the snapshot that was current when it was loaded."""
        return None if self._head is None else self.snapshots[self._head]

    def read_schema(self, snapshot_id: int | None = None) -> Schema:
        """Return the schema; Gap where the snapshot has expired."""
        if snapshot_id is not None:
            self.require(snapshot_id)
        return SCHEMA


def read_stated_files(table: LoadedTable, chain: Sequence[SnapshotInfo]) -> list[StatedFiles]:
    """Stand for `icdc_spark.iceberg.changes.stated_files.read_stated_files`."""
    return [StatedFiles(added=1, removed=0, rows=1, bytes=1) for _ in chain]


class Tags:
    """Stands for `icdc_spark.iceberg.table.tags`."""

    @staticmethod
    def find(table: LoadedTable, name: str) -> Tag | None:
        """Return the tag of that name."""
        return table.lake.tags.get(name)

    @staticmethod
    def list_names(table: LoadedTable) -> list[str]:
        """Return the names of all tags."""
        return list(table.lake.tags)

    @staticmethod
    def change(
        table: LoadedTable, *, put: Mapping[str, Tag] | None = None, remove: Collection[str] = ()
    ) -> None:
        """Change tags in one commit; a tag of an expired snapshot is refused."""
        lake = table.lake
        for name, tag in (put or {}).items():
            if tag.snapshot_id in lake.snapshots:
                lake.tags[name] = tag
        for name in remove:
            lake.tags.pop(name, None)
