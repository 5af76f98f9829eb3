"""One Iceberg table as the application sees it: schema, snapshots, refs.

Loaded through the Iceberg catalog and not through Spark's SQL layer, which cannot load a table with
a column of a type that Spark does not know, even when that column is not wanted.
"""

from collections.abc import Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from icdc_api import naming
from icdc_api.errors import BranchNotFound, Gap
from icdc_spark.documents.forms import READ_AS_TEXT, WITHOUT_FORM, has_type
from icdc_spark.documents.schema import Schema, parse_schema, walk_fields
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.errors import catalog_errors, source_errors
from icdc_spark.iceberg.table.type_promotion import widest

MAIN = "main"
_SNAPSHOT = "org.apache.iceberg.Snapshot"
_LAST_MILLIS = 253_402_300_799_000
"""The last second of the year 9999."""
SCHEMA_PARSER = "org.apache.iceberg.SchemaParser"


@dataclass(frozen=True, kw_only=True)
class SnapshotInfo:
    """One retained snapshot. `operation` is append, overwrite, replace or delete."""

    id: int
    parent_id: int | None
    sequence_number: int
    committed_at: datetime
    operation: str
    schema_id: int | None


class IcebergTable:
    """A loaded table; what it says is of the moment of `load` or of the last `refresh`."""

    def __init__(self, bridge: Bridge, name: str, java: Any) -> None:
        self.bridge = bridge
        self.name = name
        self.java = java
        self._snapshots: dict[int, SnapshotInfo] | None = None
        self._snapshots_from: str | None = None

    @classmethod
    def load(cls, session: SparkSession, catalog: str, identifier: str) -> "IcebergTable":
        """Loads `namespace.table` (parts with a dot or space in backticks) from a catalog."""
        bridge = Bridge(session)
        with catalog_errors(identifier):
            spark3 = bridge.statics("org.apache.iceberg.spark.Spark3Util")
            found = spark3.loadIcebergCatalog(bridge.java_session, catalog)
        with source_errors(identifier):
            identifiers = bridge.statics("org.apache.iceberg.catalog.TableIdentifier")
            table_id = identifiers.of(bridge.strings(naming.parse_table_name(identifier)))
            return cls(bridge, identifier, found.loadTable(table_id))

    def refresh(self) -> None:
        """Reads the table's newest metadata, if that is in another file than before."""
        with source_errors(self.name):
            self.java.refresh()
            if self.metadata_location != self._snapshots_from:
                self._snapshots = None

    @property
    def metadata_location(self) -> str:
        """The metadata file that holds what this table says."""
        return str(self._metadata().metadataFileLocation())

    @property
    def uuid(self) -> str:
        """The table's own UUID; another one means that the table was re-created."""
        return str(self.java.uuid())

    @property
    def format_version(self) -> int:
        """1, 2 or 3."""
        return int(self._metadata().formatVersion())

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return dict(self.java.properties())

    def head(self, branch: str = MAIN) -> SnapshotInfo | None:
        """The current snapshot of a branch; None while `main` has none."""
        reference = self.java.refs().get(branch)
        if reference is None and branch == MAIN:
            return None
        if reference is None or not reference.isBranch():
            names = [str(name) for name, ref in self.java.refs().items() if ref.isBranch()]
            raise BranchNotFound(
                f"{self.name} has no branch `{branch}`; its branches are {', '.join(names)}"
            )
        return self.snapshots[int(reference.snapshotId())]

    @property
    def snapshots(self) -> dict[int, SnapshotInfo]:
        """All retained snapshots by id."""
        if self._snapshots is None:
            with source_errors(self.name):
                self._snapshots_from = self.metadata_location
                self._snapshots = {info.id: info for info in self._read_snapshots()}
        return self._snapshots

    def snapshot(self, snapshot_id: int) -> SnapshotInfo | None:
        """The snapshot, or None when it is no longer retained."""
        return self.snapshots.get(snapshot_id)

    def lineage(self, from_id: int | None, to_id: int) -> list[SnapshotInfo] | None:
        """The snapshots after `from_id` up to `to_id`, oldest first; from the beginning for None.

        None when `from_id` is no ancestor of `to_id`, or the way to it is no longer retained.
        """
        chain: list[SnapshotInfo] = []
        number: int | None = to_id
        while number is not None and number != from_id:
            info = self.snapshots.get(number)
            if info is None or len(chain) >= len(self.snapshots):
                # Not retained; or damaged metadata, in which a snapshot descends from itself.
                return None
            chain.append(info)
            number = info.parent_id
        return chain[::-1] if number == from_id else None

    def is_ancestor(self, ancestor_id: int, snapshot_id: int) -> bool:
        """Whether a snapshot descends from another one, or is it."""
        return self.lineage(ancestor_id, snapshot_id) is not None

    def schema(self, snapshot_id: int | None = None) -> Schema:
        """The schema that a snapshot was written with; the table's present one for None."""
        return parse_schema(self.bridge.statics(SCHEMA_PARSER).toJson(self._schema(snapshot_id)))

    def require(self, snapshot_id: int) -> SnapshotInfo:
        """The snapshot; raises Gap when it is no longer retained."""
        info = self.snapshot(snapshot_id)
        if info is None:
            raise Gap(f"{self.name}: snapshot {snapshot_id} is no longer in the table")
        return info

    def pinned(self, snapshot_id: int) -> Any:
        """A Java table whose schema is the snapshot's, without the columns Spark cannot load.

        A staged read takes the columns of its table's current schema, which may be newer.
        """
        metadata = self._metadata()
        schema = self.columns(snapshot_id, without=WITHOUT_FORM | READ_AS_TEXT)
        builder = self.bridge.statics("org.apache.iceberg.TableMetadata").buildFrom(metadata)
        # The location lets executors find what the serialised table leaves out.
        static = (
            builder.setCurrentSchema(schema, metadata.lastColumnId())
            .discardChanges()
            .withMetadataLocation(metadata.metadataFileLocation())
            .build()
        )
        operations = self.bridge.new(
            "org.apache.iceberg.StaticTableOperations", static, self.java.io()
        )
        return self.bridge.new("org.apache.iceberg.BaseTable", operations, self.java.name())

    def columns(self, snapshot_id: int, *, without: Set[str]) -> Any:
        """The Java schema of a snapshot without the columns that hold a type of these names.

        Under it the files of all snapshots can be read: see `widening`.
        """
        schema = self._widened(self._schema(snapshot_id))
        parsed = parse_schema(self.bridge.statics(SCHEMA_PARSER).toJson(schema))
        unwanted = self.bridge.new("java.util.HashSet")
        for column in parsed.fields:
            if has_type(column, without):
                for _, entry in walk_fields(column):
                    unwanted.add(entry.id)
        if unwanted.isEmpty():
            return schema
        return self.bridge.statics("org.apache.iceberg.types.TypeUtil").selectNot(schema, unwanted)

    def has_had(self, types: Set[str]) -> bool:
        """Whether a column, now or in a schema that is still known, holds a type of these names."""
        texts = (self.bridge.statics(SCHEMA_PARSER).toJson(each) for each in self._schemas())
        return any(has_type(field, types) for text in texts for field in parse_schema(text).fields)

    def _schema(self, snapshot_id: int | None) -> Any:
        info = None if snapshot_id is None else self.require(snapshot_id)
        if info is None or info.schema_id is None:
            return self.java.schema()
        return self.java.schemas().get(info.schema_id)

    def _widened(self, schema: Any) -> Any:
        all_schemas = self._schemas()
        if len(all_schemas) == 1:
            return schema
        parser = self.bridge.statics(SCHEMA_PARSER)
        texts = [parser.toJson(each) for each in all_schemas]
        return parser.fromJson(widest(str(parser.toJson(schema)), texts))

    def _schemas(self) -> list[Any]:
        return self.bridge.elements(self.bridge.items(self.java.schemas())[1])

    def _metadata(self) -> Any:
        return self.java.operations().current()

    def _read_snapshots(self) -> list[SnapshotInfo]:
        found = self.bridge.lists.newArrayList(self.java.snapshots())
        columns = [
            self.bridge.texts(self.bridge.map(found, _SNAPSHOT, method))
            for method in (
                "snapshotId",
                "parentId",
                "sequenceNumber",
                "timestampMillis",
                "operation",
                "schemaId",
            )
        ]
        return [
            SnapshotInfo(
                id=int(number),
                parent_id=_optional(parent),
                sequence_number=int(sequence),
                committed_at=_moment(int(millis)),
                operation=operation,
                schema_id=_optional(schema_id),
            )
            for number, parent, sequence, millis, operation, schema_id in zip(*columns, strict=True)
        ]


def _moment(millis: int) -> datetime:
    """The time of a commit. Some writers write nanoseconds: what no calendar holds becomes the
    first or last time that one does, since times order nothing and decide nothing here."""
    bounded = min(max(millis, 0), _LAST_MILLIS)
    return datetime.fromtimestamp(bounded / 1000, UTC)


def _optional(text: str) -> int | None:
    return None if text == "null" else int(text)
