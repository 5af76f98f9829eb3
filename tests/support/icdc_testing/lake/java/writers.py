"""Writes tables by Iceberg's own Java writers, one file at a time.

For columns that neither Spark nor pyiceberg can write, and for files whose layout matters.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.lake.java.files import make_constant, make_int_array

Row = Mapping[str, Any]
"""Values by column, as py4j passes them: Java objects where Python has no like."""


class JavaWriter:
    """Writes to one table; every method makes one snapshot."""

    def __init__(self, table: IcebergTable) -> None:
        table.refresh()
        self._table = table
        self._iceberg = table.bridge.jvm.org.apache.iceberg
        self._jvm = table.bridge.jvm

    def parse_value(self, kind: str, text: str) -> Any:
        """Return a Java value out of its ISO text: time, timestamp(tz) and their nanoseconds."""
        time = self._jvm.java.time
        parsers = {
            "time": time.LocalTime,
            "timestamp": time.LocalDateTime,
            "timestamp_ns": time.LocalDateTime,
            "timestamptz": time.OffsetDateTime,
            "timestamptz_ns": time.OffsetDateTime,
        }
        return parsers[kind].parse(text)

    def make_struct(self, column: str, values: Row) -> Any:
        """Return a value of a struct column."""
        return self._make_record(self._table.java.schema().findType(column).asStructType(), values)

    def append(self, rows: Sequence[Row], *, file_format: str = "parquet") -> Any:
        """Append the rows as one file; return the Java data file."""
        file = self._write(rows, file_format)
        self._table.java.newAppend().appendFile(file).commit()
        return file

    def replace(self, old: Any, rows: Sequence[Row]) -> Any:
        """Rewrite a data file, as copy-on-write does; return the new Java data file."""
        file = self._write(rows)
        self._table.java.newOverwrite().deleteFile(old).addFile(file).commit()
        return file

    def delete_positions(
        self, file: Any, positions: Sequence[int], partition: Any | None = None
    ) -> None:
        """Delete rows of a data file: by a deletion vector in v3, by position deletes before.

        `partition` is written as that of the deletes, a Java struct; None in a table without any.
        """
        change = self._table.java.newRowDelta()
        for delete in self._write_positional(file, positions, partition):
            change = change.addDeletes(delete)
        change.commit()

    def delete_equal(self, keys: Sequence[Row], *, file_format: str = "parquet") -> None:
        """Delete the rows that have the values of any of these keys, all of the same columns; a
        value in a struct column is given as `{"column": {"field": value}}`."""
        deletes = self._write_equality_deletes(keys, file_format)
        self._table.java.newRowDelta().addDeletes(deletes).commit()

    def upsert(self, rows: Sequence[Row], key: str) -> None:
        """Write rows as Flink does in its upsert mode, in one commit.

        Rows of before are deleted by their keys; a row that another one of these follows is deleted
        by its position, because the keys only hold for files of before.
        """
        file = self._write(rows)
        last = {row[key]: at for at, row in enumerate(rows)}
        change = self._table.java.newRowDelta().addRows(file)
        change = change.addDeletes(self._write_equality_deletes([{key: value} for value in last]))
        replaced = [at for at, row in enumerate(rows) if last[row[key]] != at]
        for deletes in self._write_positional(file, replaced) if replaced else ():
            change = change.addDeletes(deletes)
        change.commit()

    def _write_equality_deletes(self, keys: Sequence[Row], file_format: str = "parquet") -> Any:
        names = list(_list_leaves(keys[0]))
        chosen = self._table.java.schema().select(self._table.bridge.create_strings(names))
        fields = [chosen.findField(name) for name in names]
        ids = make_int_array(self._table.bridge, [field.fieldId() for field in fields])
        kind = self._iceberg.FileFormat.fromString(file_format)
        builder = self._make_builder().equalityFieldIds(ids).equalityDeleteRowSchema(chosen)
        spec, output = self._table.java.spec(), self._make_output(file_format)
        factory = builder.deleteFileFormat(kind).build()
        writer = factory.newEqualityDeleteWriter(output, spec, None)
        for row in keys:
            writer.write(self._make_record(chosen.asStruct(), row))
        writer.close()
        return writer.toDeleteFile()

    def _write(self, rows: Sequence[Row], file_format: str = "parquet") -> Any:
        kind = self._iceberg.FileFormat.fromString(file_format)
        factory = self._make_builder().dataFileFormat(kind).build()
        output = self._make_output(file_format)
        writer = factory.newDataWriter(output, self._table.java.spec(), None)
        for row in rows:
            writer.write(self._make_record(self._table.java.schema().asStruct(), row))
        writer.close()
        return writer.toDataFile()

    def _make_record(self, kind: Any, values: Row) -> Any:
        record = self._iceberg.data.GenericRecord.create(kind)
        for name, value in values.items():
            of = kind.field(name).type()
            inner = isinstance(value, dict) and of.isStructType()
            made = (
                self._make_record(of.asStructType(), value)
                if inner
                else self._convert_to_java(value)
            )
            record.setField(name, made)
        return record

    def _convert_to_java(self, value: Any) -> Any:
        """Return lists and maps as Java's own, which may be kept after the call."""
        if isinstance(value, list):
            made = self._jvm.java.util.ArrayList()
            for item in value:
                made.add(item)
            return made
        if isinstance(value, dict):
            made = self._jvm.java.util.HashMap()
            for key, member in value.items():
                made.put(key, member)
            return made
        if isinstance(value, bytes):
            return self._jvm.java.nio.ByteBuffer.wrap(value)
        return value

    def _write_positional(
        self, file: Any, positions: Sequence[int], partition: Any | None = None
    ) -> Sequence[Any]:
        if self._table.format_version >= 3:
            return self._write_vectors(file, positions, partition)
        return [self._write_position_deletes(file, positions, partition)]

    def _write_position_deletes(
        self, file: Any, positions: Sequence[int], partition: Any | None
    ) -> Any:
        spec = self._table.java.spec()
        writer = (
            self._make_builder()
            .build()
            .newPositionDeleteWriter(self._make_output(), spec, partition)
        )
        for position in positions:
            entry = self._iceberg.deletes.PositionDelete.create()
            writer.write(entry.set(file.location(), position))
        writer.close()
        return writer.toDeleteFile()

    def _write_vectors(
        self, file: Any, positions: Sequence[int], partition: Any | None
    ) -> list[Any]:
        factory = self._iceberg.io.OutputFileFactory.builderFor(self._table.java, 1, 1)
        files = factory.format(self._iceberg.FileFormat.PUFFIN).build()
        none_before = make_constant(self._table.bridge, None)
        writer = self._iceberg.deletes.BaseDVFileWriter(files, none_before)
        for position in positions:
            writer.delete(file.location(), position, self._table.java.spec(), partition)
        writer.close()
        return list(writer.result().deleteFiles())

    def _make_builder(self) -> Any:
        return getattr(self._iceberg.data, "GenericFileWriterFactory$Builder")(self._table.java)

    def _make_output(self, suffix: str = "parquet") -> Any:
        java = self._table.java
        output = java.io().newOutputFile(f"{java.location()}/data/{uuid.uuid4()}.{suffix}")
        return self._iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(output)


def _list_leaves(key: Row) -> Iterator[str]:
    """Yield the columns of a key, fields of structs by their paths."""
    for name, value in key.items():
        if isinstance(value, dict):
            yield from (f"{name}.{leaf}" for leaf in _list_leaves(value))
        else:
            yield name
