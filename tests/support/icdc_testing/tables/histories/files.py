"""Write data files and delete files of Iceberg tables; it must not know commits.

Data files and position deletes are written by pyarrow in a millisecond and described to Iceberg as
another engine would; deletion vectors and equality deletes are written by Iceberg's own writers.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform

from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.lake.java.files import describe_file, make_constant, make_int_array
from icdc_testing.tables.histories.columns import Cells, Column, convert_to_arrow

ROW_ID, UPDATED_AT = "_row_id", "_last_updated_sequence_number"
Lineage = tuple[int | None, int | None]
"""Row id and last updated sequence number as written in a file; None where they are inherited."""

_NO_LINEAGE: Lineage = (None, None)
_RESERVED = {"file_path": 2147483546, "pos": 2147483545, ROW_ID: 2147483540, UPDATED_AT: 2147483539}
_DEFAULT_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A live data file."""

    java: Any = field(repr=False)
    """Iceberg's `DataFile`."""
    location: str
    """The location as Iceberg has it, with its scheme."""
    spec_id: int
    """The id of the partition spec that it was written under."""
    partition: str
    """The partition as a path; empty if the spec has no fields."""
    rows: Sequence[Cells]
    """All rows by position, deleted ones too."""
    lineage: Sequence[Lineage]
    """Row lineage by position, as written in the file."""
    dead: frozenset[int] = frozenset()
    """The positions that deletes of any kind hide."""
    marked: frozenset[int] = frozenset()
    """Those of them that position deletes or a deletion vector name."""
    own_deletes: tuple[Any, ...] = ()
    """Java delete files that belong to this data file alone."""

    @property
    def live(self) -> list[int]:
        """The positions that no delete hides."""
        return [at for at in range(len(self.rows)) if at not in self.dead]


class Files:
    """Writes into one table's folder. Everything is described under the spec it is given."""

    def __init__(self, table: IcebergTable) -> None:
        self._table = table
        self._bridge = table.bridge
        self._numbers = itertools.count()
        self._arrow: dict[str, pa.Schema] = {}

    def write_data(
        self,
        rows: Iterable[tuple[Cells, Lineage]],
        columns: Sequence[Column],
        *,
        keep_lineage: bool = False,
    ) -> list[StoredFile]:
        """Write the rows as one file for each partition of the current spec that they are in."""
        parts: dict[str, list[tuple[Cells, Lineage]]] = {}
        spec = self.read_spec()
        for row in rows:
            parts.setdefault(_partition_path(spec, columns, row[0]), []).append(row)
        return [
            self._write_data_file(part, mine, columns, spec, keep_lineage=keep_lineage)
            for part, mine in sorted(parts.items())
        ]

    def read_spec(self) -> dict[str, Any]:
        """Return the current partition spec in Iceberg's JSON."""
        parser = self._bridge.get_statics("org.apache.iceberg.PartitionSpecParser")
        spec: dict[str, Any] = json.loads(parser.toJson(self._table.java.spec()))
        return spec

    def write_position_deletes(
        self, of: Sequence[StoredFile], positions: Sequence[Sequence[int]]
    ) -> Any:
        """Write one delete file for positions in data files of one partition; return it."""
        pairs = [
            {"file_path": stored.location, "pos": position}
            for stored, mine in zip(of, positions, strict=True)
            for position in mine
        ]
        pairs.sort(key=lambda pair: (pair["file_path"], pair["pos"]))
        schema = pa.schema(
            [
                _make_metadata_field("file_path", pa.string(), False),
                _make_metadata_field("pos", pa.int64(), False),
            ]
        )
        file = self._write(pa.Table.from_pylist(pairs, schema=schema))
        config = self._bridge.get_statics("org.apache.iceberg.MetricsConfig").forPositionDelete()
        metadata = self._bridge.get_statics("org.apache.iceberg.FileMetadata")
        builder = metadata.deleteFileBuilder(self._find_spec(of[0])).ofPositionDeletes()
        return describe_file(
            self._table, builder.withPartition(of[0].java.partition()), file, config
        )

    def write_vectors(
        self, wanted: Mapping[str, tuple[StoredFile, Sequence[int]]]
    ) -> dict[str, Any]:
        """Write deletion vectors, all in one file; return them by the data file's location."""
        factory = self._bridge.get_statics("org.apache.iceberg.io.OutputFileFactory")
        number = next(self._numbers)
        builder = factory.builderFor(self._table.java, 1, number).operationId("dv")
        puffin = self._bridge.get_statics("org.apache.iceberg.FileFormat").fromString("puffin")
        writer = self._bridge.create_object(
            "org.apache.iceberg.deletes.BaseDVFileWriter",
            builder.format(puffin).build(),
            make_constant(self._bridge, None),  # no older deletes to be merged
        )
        for stored, positions in wanted.values():
            spec, partition = self._find_spec(stored), stored.java.partition()
            for position in positions:
                writer.delete(stored.location, position, spec, partition)
        writer.close()
        vectors = self._bridge.list_elements(writer.result().deleteFiles())
        return {str(vector.referencedDataFile()): vector for vector in vectors}

    def write_equality_deletes(
        self, like: StoredFile, by: Sequence[Column], values: Sequence[Cells]
    ) -> Any:
        """Write a delete file for rows with these values in the columns `by`, and return it.

        Iceberg's writer writes it, into the partition of the data file `like`.
        """
        bridge, java = self._bridge, self._table.java
        ids = make_int_array(bridge, [column.id for column in by])
        schema = java.schema().select(bridge.create_strings([column.name for column in by]))
        builder = bridge.create_object(
            "org.apache.iceberg.data.GenericFileWriterFactory$Builder", java
        )
        factory = builder.equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
        output = java.io().newOutputFile(self._choose_location())
        plain = bridge.get_statics("org.apache.iceberg.encryption.EncryptedFiles")
        writer = factory.newEqualityDeleteWriter(
            plain.plainAsEncryptedOutput(output), self._find_spec(like), like.java.partition()
        )
        for row in values:
            record = bridge.get_statics("org.apache.iceberg.data.GenericRecord").create(schema)
            for column in by:
                record.setField(column.name, row.get(column.id))
            writer.write(record)
        writer.close()
        return writer.toDeleteFile()

    def _write_data_file(
        self,
        partition: str,
        rows: Sequence[tuple[Cells, Lineage]],
        columns: Sequence[Column],
        spec: Mapping[str, Any],
        *,
        keep_lineage: bool,
    ) -> StoredFile:
        schema = self._build_arrow_schema()
        values = [
            {c.name: convert_to_arrow(cells.get(c.id, c.default)) for c in columns}
            for cells, _ in rows
        ]
        if keep_lineage:
            schema = schema.append(_make_metadata_field(ROW_ID, pa.int64(), True))
            schema = schema.append(_make_metadata_field(UPDATED_AT, pa.int64(), True))
            for value, (_, lineage) in zip(values, rows, strict=True):
                value[ROW_ID], value[UPDATED_AT] = lineage
        file = self._write(pa.Table.from_pylist(values, schema=schema))
        config = self._bridge.get_statics("org.apache.iceberg.MetricsConfig").forTable(
            self._table.java
        )
        files = self._bridge.get_statics("org.apache.iceberg.DataFiles")
        builder = files.builder(self._table.java.spec())
        if self._table.java.spec().isPartitioned():
            builder = builder.withPartitionPath(partition)
        java = describe_file(self._table, builder, file, config)
        return StoredFile(
            java=java,
            # As Iceberg has it, with the scheme: deletes name their data file by it.
            location=str(java.location()),
            spec_id=spec["spec-id"],
            partition=str(self._table.java.spec().partitionToPath(java.partition())),
            # As written: columns that came later and had no default are null from here on.
            rows=[{c.id: cells.get(c.id, c.default) for c in columns} for cells, _ in rows],
            lineage=[lineage if keep_lineage else _NO_LINEAGE for _, lineage in rows],
        )

    def _write(self, rows: pa.Table) -> str:
        location = self._choose_location()
        path = Path(location.removeprefix("file:"))
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path, compression="none", store_decimal_as_integer=True)
        return location

    def _choose_location(self) -> str:
        return f"{self._table.java.location()}/data/{next(self._numbers):05d}.parquet"

    def _build_arrow_schema(self) -> pa.Schema:
        parser = self._bridge.get_statics("org.apache.iceberg.SchemaParser")
        text = str(parser.toJson(self._table.java.schema()))
        if text not in self._arrow:
            # pyiceberg has no variants. `unknown` stands for them: nothing else has this type.
            schema = Schema.model_validate_json(text.replace('"variant"', '"unknown"'))
            fields = [
                entry.with_type(_replace_variants(entry.type))
                for entry in schema_to_pyarrow(schema)
            ]
            self._arrow[text] = pa.schema(fields)
        return self._arrow[text]

    def _find_spec(self, stored: StoredFile) -> Any:
        return self._table.java.specs().get(stored.spec_id)


def _replace_variants(kind: pa.DataType) -> pa.DataType:
    """Return the type as stored: a variant, here a null type, is two byte strings."""
    if pa.types.is_null(kind):
        return pa.struct([pa.field(name, pa.binary(), False) for name in ("metadata", "value")])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_replace_variants(kind.value_type)))
    return kind


def _make_metadata_field(name: str, kind: pa.DataType, nullable: bool) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(_RESERVED[name])})


def _partition_path(spec: Mapping[str, Any], columns: Sequence[Column], cells: Cells) -> str:
    """Return the partition of a row as a path, empty where the table is not partitioned."""
    kinds = {column.id: column for column in columns}
    parts = []
    for part in spec["fields"]:
        column = kinds[part["source-id"]]
        value = cells.get(column.id, column.default)
        if part["transform"] not in ("identity", "void") and value is not None:
            value = _transform(part["transform"], column.type, value)
        is_null = value is None or part["transform"] == "void"
        parts.append(f"{part['name']}={_DEFAULT_NULL if is_null else value}")
    return "/".join(parts)


def _transform(transform: str, kind: str, value: Any) -> Any:
    source = Schema.model_validate(
        {"type": "struct", "fields": [{"id": 1, "name": "x", "type": kind, "required": False}]}
    )
    return parse_transform(transform).transform(source.fields[0].field_type)(value)
