"""Keep one table, and a model of the rows that it has in each of its snapshots.

Every operation says what its commit does to the rows, and no reader is asked. So the model errs
only where an operation does, which a read of each compared snapshot by Iceberg's reader shows.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.table.tables import MAIN, SCHEMA_PARSER, IcebergTable
from icdc_testing.lake.lake import CATALOG
from icdc_testing.lake.schemas import build_schema_json
from icdc_testing.tables.histories.columns import (
    HISTORY,
    KEY,
    Cells,
    Column,
    draw_value,
    find_first_version,
    parse_columns,
)
from icdc_testing.tables.histories.files import Files, Lineage, StoredFile
from icdc_testing.tables.histories.kinds import TableKind

State = Mapping[str, StoredFile]
"""The live data files of a snapshot by location."""

_REINSERTED, _NULL_KEYS, _REPEATED = 0.2, 0.05, 0.3
"""Shares of new rows: with a key that had been deleted, with a null key, and with a key that a live
row has, where keys may be repeated."""
_LINEAGE_RETAINED = 0.7
"""The share of rewrites that retain the row lineage of their rows, as not all engines do."""

_NOT_FOR_SPARK = {"time", "timestamp_ns"}


class TableHistory:
    """A table under random commits; keys stay unique, null keys included, unless its kind says
    otherwise.

    `types` are Iceberg types, in JSON, by column, of which it has those that its first format
    version knows; `number` is in each of its rows and keys.
    """

    def __init__(
        self,
        session: SparkSession,
        name: str,
        kind: TableKind,
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
        types = {name: of for name, of in types.items() if find_first_version(of) <= kind.version}
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
        """True if writers of this table may write delete files."""
        return self.kind.merges_on_read and self.version >= 2

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's present columns."""
        return parse_columns(self._format_schema(self.java.schema()))

    @property
    def head(self) -> int:
        """The current snapshot of the branch that is being written."""
        return int(self.java.refs().get(self.branch).snapshotId())

    def read_sequence_number(self, snapshot_id: int) -> int:
        """Return the sequence number of a snapshot; 0 for those of the first format version."""
        return int(self.java.snapshot(snapshot_id).sequenceNumber())

    def read_columns(self, snapshot_id: int) -> tuple[Column, ...]:
        """Return the columns that a snapshot was written with."""
        number = self.java.snapshot(snapshot_id).schemaId()
        return parse_columns(self._format_schema(self.java.schemas().get(number)))

    def commit(
        self,
        update: Any,
        *,
        deleted: Iterable[StoredFile] = (),
        new: Iterable[StoredFile] = (),
        changed: Iterable[StoredFile] = (),
    ) -> None:
        """Commit a snapshot to the branch being written, and record the state that it leaves."""
        (update if self.branch == MAIN else update.toBranch(self.branch)).commit()
        removed = {stored.location for stored in deleted}
        state = {path: stored for path, stored in self.live.items() if path not in removed}
        state |= {stored.location: stored for stored in self._read_as_listed([*changed, *new])}
        self.record_state(state)

    def record_state(self, state: State) -> None:
        """Record that the branch being written now has this state."""
        self.live = state
        self.states[self.head] = state

    def begin_row_delta(self) -> Any:
        """Begin a commit of rows and deletes."""
        # Without a first snapshot Iceberg checks the whole history, of which some may be expired.
        return self.java.newRowDelta().validateFromSnapshot(self.head)

    def draw_row(self) -> Cells:
        """Return a row with a key that no live row has."""
        return self._draw_row(self._draw_key())

    def change_row(self, cells: Cells) -> Cells:
        """Return the row with random values in a few columns, now and then the ones it has."""
        cells_by_id = {column.id: cells.get(column.id, column.default) for column in self.columns}
        free = [column for column in self.columns if column.name not in (HISTORY, KEY)]
        for column in self.rng.sample(free, k=self.rng.randrange(3)):
            cells_by_id[column.id] = draw_value(self.rng, column.type)
        return cells_by_id

    def rekey_row(self, cells: Cells) -> Cells:
        """Return the row with a new key."""
        return {**cells, self.key_column.id: self._draw_key()}

    @property
    def key_column(self) -> Column:
        """The column of the key."""
        return next(column for column in self.columns if column.name == KEY)

    def draw_files(self, most: int = 2) -> list[StoredFile]:
        """Return a few live files."""
        files = list(self.live.values())
        return self.rng.sample(files, k=min(len(files), self.rng.randint(1, most)))

    def keeps_lineage(self) -> bool:
        """Return whether this rewrite retains row lineage; never where there is none."""
        return self.version >= 3 and self.rng.random() < _LINEAGE_RETAINED

    def list_live_rows(self, files: Sequence[StoredFile]) -> list[tuple[Cells, Lineage]]:
        """Return the live rows of these files, with their lineage, inherited or not."""
        inherited = self._list_inherited_lineage() if self.version >= 3 else {}
        return [
            (stored.rows[at], _derive_lineage(stored, at, inherited.get(stored.location)))
            for stored in files
            for at in stored.live
        ]

    def list_rows(self, snapshot_id: int) -> list[Cells]:
        """Return the rows that the table must have at a snapshot."""
        return list_rows(self.states[snapshot_id])

    def _create(self, bridge: Bridge, types: Mapping[str, Any]) -> None:
        schema = bridge.get_statics(SCHEMA_PARSER).fromJson(build_schema_json(types))
        self.catalog = bridge.get_statics("org.apache.iceberg.spark.Spark3Util").loadIcebergCatalog(
            bridge.java_session, CATALOG
        )
        identifiers = bridge.get_statics("org.apache.iceberg.catalog.TableIdentifier")
        self.identifier = identifiers.of(bridge.create_strings(self.name.split(".")))
        properties = bridge.create_object("java.util.HashMap")
        for verb in ("update", "delete", "merge"):
            properties.put(f"write.{verb}.mode", self.kind.mode)
        properties.put("format-version", str(self.kind.version))
        properties.put("write.distribution-mode", "none")
        properties.put("write.delete.granularity", self.rng.choice(["file", "partition"]))
        # Few small manifests, or many: both are merged and cut anew by the next commits.
        properties.put("commit.manifest.min-count-to-merge", self.rng.choice(["2", "100"]))
        builder = self.catalog.buildTable(self.identifier, schema)
        builder = builder.withPartitionSpec(self.draw_spec(bridge, schema))
        builder.withProperties(properties).create()

    def draw_spec(self, bridge: Bridge, schema: Any) -> Any:
        """Return one of three partition specs: none, by value, by bucket."""
        builder = bridge.get_statics("org.apache.iceberg.PartitionSpec").builderFor(schema)
        chosen = self.rng.choice(["none", "identity", "bucket"])
        self.log.append(f"partitioned by {chosen}")
        if chosen == "identity":
            builder = builder.identity("p")
        if chosen == "bucket":
            builder = builder.bucket(KEY, 2)
        return builder.build()

    def _draw_row(self, key: int | None) -> Cells:
        given: dict[str, Any] = {HISTORY: self.number, KEY: key}
        return {
            column.id: given[column.name]
            if column.name in given
            else draw_value(self.rng, column.type)
            for column in self.columns
        }

    def _draw_key(self) -> int | None:
        column = self.key_column.id
        taken = {cells.get(column) for cells in list_rows(self.live)}
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
        """Start an operation: keys given from here on are unique also before they are live."""
        self._given.clear()
        self._nulls_allowed = True

    def _list_inherited_lineage(self) -> dict[str, Lineage]:
        """Return the first row id and the sequence number that rows inherit, by file."""
        return {
            path: (task.file().firstRowId(), task.file().dataSequenceNumber())
            for path, task in self._plan_tasks().items()
        }

    def _read_as_listed(self, written: list[StoredFile]) -> list[StoredFile]:
        """Return the files and their deletes as manifests list them.

        They differ where every partition field of the first format version was removed: writers
        leave out the partition, and Iceberg would not find the files again to delete them.
        """
        without = [stored for stored in written if self._has_no_fields_left(stored.spec_id)]
        tasks = self._plan_tasks() if without else {}
        bridge = self.table.bridge
        listed_files = {stored.location: stored for stored in written}
        for stored in without:
            task = tasks[stored.location]
            listed = {
                _delete_key(delete): delete for delete in bridge.list_elements(task.deletes())
            }
            own = tuple(listed.get(_delete_key(delete), delete) for delete in stored.own_deletes)
            listed_files[stored.location] = replace(stored, java=task.file(), own_deletes=own)
        return list(listed_files.values())

    def _has_no_fields_left(self, spec_id: int) -> bool:
        spec = self.java.specs().get(spec_id)
        return not spec.isPartitioned() and not spec.fields().isEmpty()

    def _plan_tasks(self) -> dict[str, Any]:
        """Return Java scan tasks of the branch being written, by the location of the data file."""
        scan = self.java.newScan().useSnapshot(self.head)
        tasks = self.table.bridge.list_elements(self.table.bridge.drain(scan.planFiles()))
        return {str(task.file().location()): task for task in tasks}

    def _format_schema(self, schema: Any) -> str:
        return str(self.table.bridge.get_statics(SCHEMA_PARSER).toJson(schema))


def list_rows(state: State) -> list[Cells]:
    """Return the live rows of a snapshot."""
    return [stored.rows[at] for stored in state.values() for at in stored.live]


def _delete_key(delete: Any) -> tuple[str, int | None]:
    """Return the identity of a delete file: many deletion vectors share one location."""
    return str(delete.location()), delete.contentOffset()


def _derive_lineage(stored: StoredFile, position: int, inherited: Lineage | None) -> Lineage:
    """Return the lineage to write for a rewritten row; none where the file has no row ids."""
    row_id, updated_at = stored.lineage[position]
    first, sequence = inherited or (None, None)
    if row_id is None:
        row_id = None if first is None else first + position
    if row_id is None:
        return None, None
    return row_id, sequence if updated_at is None else updated_at
