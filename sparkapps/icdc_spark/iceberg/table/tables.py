"""One Iceberg table as the application sees it: schema, snapshots, branches.

It is loaded through the Iceberg catalog. Spark's SQL layer cannot load a table with a column of a
type that Spark does not have, even when that column is not wanted. This module must not know what
a table is replicated to.
"""

from collections.abc import Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from icdc_api import naming
from icdc_api.errors import BranchNotFound, Gap, TableNotFound
from icdc_api.spec.catalog import JDBC_NAME_RULE
from icdc_spark.documents.forms import READ_AS_TEXT, WITHOUT_FORM, has_type
from icdc_spark.documents.schema import Schema, parse_schema, walk_fields
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.source_errors import translate_catalog_errors, translate_source_errors
from icdc_spark.iceberg.table.type_promotion import widen_types

MAIN = "main"
_SNAPSHOT = "org.apache.iceberg.Snapshot"
_LAST_MILLIS = 253_402_300_799_000
"""The last second of the year 9999, the last year of Python's calendar."""
SCHEMA_PARSER = "org.apache.iceberg.SchemaParser"


@dataclass(frozen=True, kw_only=True)
class SnapshotInfo:
    """One retained snapshot."""

    id: int
    """Its id, a random number."""
    parent_id: int | None
    """The snapshot that it was committed on, which may have expired; None for the first."""
    sequence_number: int
    """Its number in the order of commits to the table; 0 in a table of format 1."""
    committed_at: datetime
    """The time of the commit by the clock of its writer. Orders nothing: clocks differ."""
    operation: str
    """`append`, `overwrite`, `replace` or `delete`."""
    schema_id: int | None
    """The schema that it was written with; None if the writer did not state it."""


class IcebergTable:
    """A loaded table, in its state at `load` or at the last `refresh`."""

    def __init__(self, bridge: Bridge, name: str, java: Any) -> None:
        self.bridge = bridge
        self.name = name
        self.java = java
        self._snapshots: dict[int, SnapshotInfo] | None = None
        self._snapshots_from: str | None = None

    @classmethod
    def load(cls, session: SparkSession, catalog: str, identifier: str) -> "IcebergTable":
        """Load `namespace.table` (parts with a dot or space in backticks) from a catalog."""
        bridge = Bridge(session)
        with translate_catalog_errors(identifier):
            spark3 = bridge.get_statics("org.apache.iceberg.spark.Spark3Util")
            java_catalog = spark3.loadIcebergCatalog(bridge.java_session, catalog)
        try:
            with translate_source_errors(identifier):
                identifiers = bridge.get_statics("org.apache.iceberg.catalog.TableIdentifier")
                parts = bridge.create_strings(naming.parse_table_name(identifier))
                return cls(bridge, identifier, java_catalog.loadTable(identifiers.of(parts)))
        except TableNotFound as error:
            if session.conf.get(f"spark.sql.catalog.{catalog}.type", None) != "jdbc":
                raise
            rule = JDBC_NAME_RULE.format(name=catalog)
            raise TableNotFound(f"{error.message}; {rule}") from error

    def refresh(self) -> None:
        """Read the table's newest metadata, if it is in another file than before."""
        with translate_source_errors(self.name):
            self.java.refresh()
            # Most polls find nothing new; thousands of snapshots are then not read again.
            if self.metadata_location != self._snapshots_from:
                self._snapshots = None

    @property
    def metadata_location(self) -> str:
        """The path of the metadata file that this table was read from."""
        return str(self._get_metadata().metadataFileLocation())

    @property
    def uuid(self) -> str:
        """The table's own UUID; another one under the same name is a table created anew."""
        return str(self.java.uuid())

    @property
    def format_version(self) -> int:
        """The version of the table format: 1, 2 or 3."""
        return int(self._get_metadata().formatVersion())

    @property
    def last_sequence_number(self) -> int:
        """The highest sequence number given to a commit of any branch; 0 in format 1."""
        return int(self._get_metadata().lastSequenceNumber())

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return dict(self.java.properties())

    def find_current_snapshot(self, branch: str = MAIN) -> SnapshotInfo | None:
        """Return the current snapshot of a branch; None while `main` is empty.

        BranchNotFound if the table has no such branch.
        """
        reference = self.java.refs().get(branch)
        # A table without a snapshot has no reference at all, not even `main`.
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
            with translate_source_errors(self.name):
                self._snapshots_from = self.metadata_location
                self._snapshots = {info.id: info for info in self._read_snapshots()}
        return self._snapshots

    def find_snapshot(self, snapshot_id: int) -> SnapshotInfo | None:
        """Return the snapshot, or None if it has expired."""
        return self.snapshots.get(snapshot_id)

    def list_snapshots_between(self, from_id: int | None, to_id: int) -> list[SnapshotInfo] | None:
        """Return the snapshots after `from_id` up to `to_id`, oldest first; all of them for None.

        None if `from_id` is no ancestor of `to_id`, or if a snapshot between has expired.
        """
        chain: list[SnapshotInfo] = []
        ancestor_id: int | None = to_id
        while ancestor_id is not None and ancestor_id != from_id:
            info = self.snapshots.get(ancestor_id)
            # Expired; or damaged metadata, in which a snapshot descends from itself.
            if info is None or len(chain) >= len(self.snapshots):
                return None
            chain.append(info)
            ancestor_id = info.parent_id
        return chain[::-1] if ancestor_id == from_id else None

    def is_ancestor(self, ancestor_id: int, snapshot_id: int) -> bool:
        """Return whether `ancestor_id` is `snapshot_id` itself or one of its ancestors.

        False if a snapshot between them has expired.
        """
        return self.list_snapshots_between(ancestor_id, snapshot_id) is not None

    def read_schema(self, snapshot_id: int | None = None) -> Schema:
        """Return the schema that a snapshot was written with; the table's current one for None."""
        return parse_schema(
            self.bridge.get_statics(SCHEMA_PARSER).toJson(self._get_schema(snapshot_id))
        )

    def read_schemas(self) -> list[Schema]:
        """Return every schema that the metadata has, in no order."""
        parser = self.bridge.get_statics(SCHEMA_PARSER)
        return [parse_schema(parser.toJson(schema)) for schema in self._list_schemas()]

    def require(self, snapshot_id: int) -> SnapshotInfo:
        """Return the snapshot; Gap if it has expired."""
        info = self.find_snapshot(snapshot_id)
        if info is None:
            raise Gap(f"{self.name}: snapshot {snapshot_id} is no longer in the table")
        return info

    def build_table_at(self, snapshot_id: int) -> Any:
        """Return a Java table whose current schema is that of a snapshot.

        It has no columns that Spark cannot load. A staged read takes its columns from the current
        schema of its table, and the schema of the real table may be newer than the snapshot.
        """
        metadata = self._get_metadata()
        schema = self.select_columns(snapshot_id, without=WITHOUT_FORM | READ_AS_TEXT)
        builder = self.bridge.get_statics("org.apache.iceberg.TableMetadata").buildFrom(metadata)
        # Executors get the table serialised without its metadata, and read it from this file.
        static = (
            builder.setCurrentSchema(schema, metadata.lastColumnId())
            .discardChanges()
            .withMetadataLocation(metadata.metadataFileLocation())
            .build()
        )
        operations = self.bridge.create_object(
            "org.apache.iceberg.StaticTableOperations", static, self.java.io()
        )
        return self.bridge.create_object(
            "org.apache.iceberg.BaseTable", operations, self.java.name()
        )

    def select_columns(self, snapshot_id: int, *, without: Set[str]) -> Any:
        """Return the Java schema of a snapshot without columns that hold a type of these names.

        Files of all snapshots can be read under it (`type_promotion`).
        """
        schema = self._widen_types(self._get_schema(snapshot_id))
        parsed = parse_schema(self.bridge.get_statics(SCHEMA_PARSER).toJson(schema))
        unwanted = self.bridge.create_object("java.util.HashSet")
        for column in parsed.fields:
            if has_type(column, without):
                # The ids inside too: `selectNot` keeps a struct of which a part is not excluded.
                for _, entry in walk_fields(column):
                    unwanted.add(entry.id)
        if unwanted.isEmpty():
            return schema
        return self.bridge.get_statics("org.apache.iceberg.types.TypeUtil").selectNot(
            schema, unwanted
        )

    def has_had(self, types: Set[str]) -> bool:
        """Return whether a column of any schema of the table holds a type of these names."""
        schemas = self.read_schemas()
        return any(has_type(field, types) for schema in schemas for field in schema.fields)

    def _get_schema(self, snapshot_id: int | None) -> Any:
        info = None if snapshot_id is None else self.require(snapshot_id)
        # Some writers do not state the schema of a snapshot.
        if info is None or info.schema_id is None:
            return self.java.schema()
        return self.java.schemas().get(info.schema_id)

    def _widen_types(self, schema: Any) -> Any:
        """Return a Java schema with the widest types that its fields have in any schema."""
        schemas = self._list_schemas()
        # Most tables have one schema: then there is nothing to parse.
        if len(schemas) == 1:
            return schema
        parser = self.bridge.get_statics(SCHEMA_PARSER)
        texts = [parser.toJson(other) for other in schemas]
        return parser.fromJson(widen_types(str(parser.toJson(schema)), texts))

    def _list_schemas(self) -> list[Any]:
        return self.bridge.list_elements(self.bridge.list_items(self.java.schemas())[1])

    def _get_metadata(self) -> Any:
        return self.java.operations().current()

    def _read_snapshots(self) -> list[SnapshotInfo]:
        """Return plain descriptions of all retained snapshots."""
        java_snapshots = self.bridge.lists.newArrayList(self.java.snapshots())
        # By columns: tables have thousands of snapshots, and each call costs.
        columns = [
            self.bridge.read_texts(self.bridge.map(java_snapshots, _SNAPSHOT, method))
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
                parent_id=_parse_optional(parent),
                sequence_number=int(sequence),
                committed_at=_to_time(int(millis)),
                operation=operation,
                schema_id=_parse_optional(schema_id),
            )
            for number, parent, sequence, millis, operation, schema_id in zip(*columns, strict=True)
        ]


def _to_time(millis: int) -> datetime:
    """Return the time of a commit, limited to the years 1970 to 9999."""
    # Some writers write nanoseconds here. Times decide nothing, so a wrong one must not fail.
    bounded = min(max(millis, 0), _LAST_MILLIS)
    return datetime.fromtimestamp(bounded / 1000, UTC)


def _parse_optional(text: str) -> int | None:
    return None if text == "null" else int(text)
