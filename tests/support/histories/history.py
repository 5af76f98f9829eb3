"""One table and what it ought to hold at each of its snapshots.

Every operation says what its commit does to the rows, and no reader is asked. So the model errs
only where an operation does, which a read of each compared snapshot by Iceberg's reader shows.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from histories.columns import HISTORY, KEY, Cells, Column, columns, random_value, since_version
from histories.files import Files, Lineage, Stored
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.table.tables import MAIN, SCHEMA_PARSER, IcebergTable
from icdc_testing.lake.lake import CATALOG, MERGE_ON_READ
from icdc_testing.lake.schemas import fields_json

State = Mapping[str, Stored]
"""The live data files of a snapshot by location."""

_REINSERTED, _NULL_KEYS, _LINEAGE_KEPT, _REPEATED = 0.2, 0.05, 0.7, 0.3
"""Shares: of new rows with a key that had been deleted, and with a null key; of rewrites that keep
the row lineage of what they rewrite, as not all engines do; of new rows with a key that is there,
where keys may be repeated."""

_NOT_FOR_SPARK = {"time", "timestamp_ns"}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a table is like at its beginning. `mode` is what Spark writes by."""

    mode: str
    version: int
    upgrades: bool = False
    """Whether the format version may rise on the way."""
    repeats_keys: bool = False
    """Whether several rows may have one key."""

    @property
    def merges_on_read(self) -> bool:
        """Whether its writers write delete files, as soon as the format version has them."""
        return self.mode == MERGE_ON_READ


class History:
    """A table under random commits; keys stay unique, null keys included, unless its kind says
    otherwise.

    `types` are Iceberg types, in JSON, by column, of which it has those that its first format
    version knows; `number` is in each of its rows and keys.
    """

    def __init__(
        self,
        session: SparkSession,
        name: str,
        kind: Kind,
        types: Mapping[str, Any],
        rng: random.Random,
        number: int,
    ) -> None:
        self.session, self.name, self.kind = session, name, kind
        self.rng, self.number = rng, number
        self.log = [f"{kind}"]
        self.branch = MAIN
        self.evolved = 0
        self._keys = 0
        self._given: set[int] = set()
        self._nulls_allowed = True
        types = {name: of for name, of in types.items() if since_version(of) <= kind.version}
        self.for_spark = not _NOT_FOR_SPARK.intersection(map(str, types.values()))
        self._create(Bridge(session), types)
        self.table = IcebergTable.load(session, CATALOG, name)
        self.java = self.table.java
        self.files = Files(self.table)
        self.live: State = {}
        self.states: dict[int, State] = {}

    @property
    def version(self) -> int:
        """The format version now."""
        return int(self.java.operations().current().formatVersion())

    @property
    def has_deletes(self) -> bool:
        """Whether writers of this table may write delete files."""
        return self.kind.merges_on_read and self.version >= 2

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's present columns."""
        return columns(self._schema_text(self.java.schema()))

    @property
    def head(self) -> int:
        """The current snapshot of the branch that is being written."""
        return int(self.java.refs().get(self.branch).snapshotId())

    def sequence_number(self, snapshot_id: int) -> int:
        """Of a snapshot: it counts the commits; 0 for those of the first format version."""
        return int(self.java.snapshot(snapshot_id).sequenceNumber())

    def columns_at(self, snapshot_id: int) -> tuple[Column, ...]:
        """The columns that a snapshot was written with."""
        number = self.java.snapshot(snapshot_id).schemaId()
        return columns(self._schema_text(self.java.schemas().get(number)))

    def commit(
        self,
        update: Any,
        *,
        gone: Iterable[Stored] = (),
        new: Iterable[Stored] = (),
        changed: Iterable[Stored] = (),
    ) -> None:
        """Commits a snapshot, to the branch being written, and notes what it leaves."""
        (update if self.branch == MAIN else update.toBranch(self.branch)).commit()
        left = {stored.location for stored in gone}
        kept = {place: stored for place, stored in self.live.items() if place not in left}
        kept |= {stored.location: stored for stored in self._as_listed([*changed, *new])}
        self.landed(kept)

    def landed(self, state: State) -> None:
        """Notes that the branch being written now holds this."""
        self.live = state
        self.states[self.head] = state

    def row_delta(self) -> Any:
        """A commit of rows and deletes; it must be told whence, should older snapshots be gone."""
        return self.java.newRowDelta().validateFromSnapshot(self.head)

    def new_row(self) -> Cells:
        """A row of a key that no live row has."""
        return self._random_row(self._new_key())

    def changed_row(self, cells: Cells) -> Cells:
        """The row with another value in a few columns, or the value it has."""
        made = {each.id: cells.get(each.id, each.default) for each in self.columns}
        free = [each for each in self.columns if each.name not in (HISTORY, KEY)]
        for column in self.rng.sample(free, k=self.rng.randrange(3)):
            made[column.id] = random_value(self.rng, column.type)
        return made

    def rekeyed_row(self, cells: Cells) -> Cells:
        """The row under a new key."""
        return {**cells, self.key_column.id: self._new_key()}

    @property
    def key_column(self) -> Column:
        """The column of the key."""
        return next(each for each in self.columns if each.name == KEY)

    def some_files(self, most: int = 2) -> list[Stored]:
        """A few live files."""
        found = list(self.live.values())
        return self.rng.sample(found, k=min(len(found), self.rng.randint(1, most)))

    def keeps_lineage(self) -> bool:
        """Whether this rewrite keeps row lineage; never where there is none."""
        return self.version >= 3 and self.rng.random() < _LINEAGE_KEPT

    def live_rows(self, files: Sequence[Stored]) -> list[tuple[Cells, Lineage]]:
        """The live rows of these files, with their lineage written out."""
        inherited = self._inherited() if self.version >= 3 else {}
        return [
            (stored.rows[at], _lineage(stored, at, inherited.get(stored.location)))
            for stored in files
            for at in stored.live
        ]

    def rows(self, snapshot_id: int) -> list[Cells]:
        """What the table ought to hold at a snapshot."""
        return rows_of(self.states[snapshot_id])

    def _create(self, bridge: Bridge, types: Mapping[str, Any]) -> None:
        schema = bridge.statics(SCHEMA_PARSER).fromJson(fields_json(types))
        self.catalog = bridge.statics("org.apache.iceberg.spark.Spark3Util").loadIcebergCatalog(
            bridge.java_session, CATALOG
        )
        identifiers = bridge.statics("org.apache.iceberg.catalog.TableIdentifier")
        self.identifier = identifiers.of(bridge.strings(self.name.split(".")))
        properties = bridge.new("java.util.HashMap")
        for verb in ("update", "delete", "merge"):
            properties.put(f"write.{verb}.mode", self.kind.mode)
        properties.put("format-version", str(self.kind.version))
        properties.put("write.distribution-mode", "none")
        properties.put("write.delete.granularity", self.rng.choice(["file", "partition"]))
        # Few small manifests, or many: both are merged and cut anew by the next commits.
        properties.put("commit.manifest.min-count-to-merge", self.rng.choice(["2", "100"]))
        builder = self.catalog.buildTable(self.identifier, schema)
        builder = builder.withPartitionSpec(self.random_spec(bridge, schema))
        builder.withProperties(properties).create()

    def random_spec(self, bridge: Bridge, schema: Any) -> Any:
        """One of three partition specs: none, by value, by bucket."""
        builder = bridge.statics("org.apache.iceberg.PartitionSpec").builderFor(schema)
        chosen = self.rng.choice(["none", "identity", "bucket"])
        self.log.append(f"partitioned by {chosen}")
        if chosen == "identity":
            builder = builder.identity("p")
        if chosen == "bucket":
            builder = builder.bucket(KEY, 2)
        return builder.build()

    def _random_row(self, key: int | None) -> Cells:
        known: dict[str, Any] = {HISTORY: self.number, KEY: key}
        return {
            each.id: known[each.name] if each.name in known else random_value(self.rng, each.type)
            for each in self.columns
        }

    def _new_key(self) -> int | None:
        column = self.key_column.id
        taken = {cells.get(column) for cells in rows_of(self.live)}
        if self.kind.repeats_keys and taken and self.rng.random() < _REPEATED:
            return self.rng.choice(sorted(taken, key=str))
        if self.rng.random() < _NULL_KEYS and None not in taken and self._nulls_allowed:
            self._nulls_allowed = False
            return None
        free = [key for key in range(self._keys) if key not in taken | self._given]
        if free and self.rng.random() < _REINSERTED:
            key = self.rng.choice(free)
        else:
            key, self._keys = self._keys, self._keys + 1
        self._given.add(key)
        return key

    def begin(self) -> None:
        """Starts an operation: keys given from here on are unique also before they are live."""
        self._given.clear()
        self._nulls_allowed = True

    def _inherited(self) -> dict[str, Lineage]:
        """By file the first row id and the data sequence number that its rows inherit."""
        return {
            place: (task.file().firstRowId(), task.file().dataSequenceNumber())
            for place, task in self._tasks().items()
        }

    def _as_listed(self, written: list[Stored]) -> list[Stored]:
        """The files, and their deletes, as manifests have them, where every partition field of the
        first format version was removed: writers leave out the partition, and Iceberg would not
        find what they made to delete it."""
        without = [stored for stored in written if self._lost_its_fields(stored.spec_id)]
        tasks = self._tasks() if without else {}
        bridge = self.table.bridge
        found = {stored.location: stored for stored in written}
        for stored in without:
            task = tasks[stored.location]
            listed = {_place(each): each for each in bridge.elements(task.deletes())}
            own = tuple(listed.get(_place(each), each) for each in stored.own_deletes)
            found[stored.location] = replace(stored, java=task.file(), own_deletes=own)
        return list(found.values())

    def _lost_its_fields(self, spec_id: int) -> bool:
        spec = self.java.specs().get(spec_id)
        return not spec.isPartitioned() and not spec.fields().isEmpty()

    def _tasks(self) -> dict[str, Any]:
        """The Java scan tasks of the branch being written, by the location of the data file."""
        scan = self.java.newScan().useSnapshot(self.head)
        tasks = self.table.bridge.elements(self.table.bridge.drain(scan.planFiles()))
        return {str(task.file().location()): task for task in tasks}

    def _schema_text(self, schema: Any) -> str:
        return str(self.table.bridge.statics(SCHEMA_PARSER).toJson(schema))


def rows_of(state: State) -> list[Cells]:
    """The live rows of a snapshot."""
    return [stored.rows[at] for stored in state.values() for at in stored.live]


def _place(delete: Any) -> tuple[str, int | None]:
    """Where a delete file is: many deletion vectors share one file."""
    return str(delete.location()), delete.contentOffset()


def _lineage(stored: Stored, position: int, inherited: Lineage | None) -> Lineage:
    """What a rewritten row must say of itself; nothing where the file has no row ids."""
    row_id, updated_at = stored.lineage[position]
    first, sequence = inherited or (None, None)
    if row_id is None:
        row_id = None if first is None else first + position
    if row_id is None:
        return None, None
    return row_id, sequence if updated_at is None else updated_at
