"""Read one Parquet data file of a table, in a Spark worker: no session, no JVM.

Columns are matched by field id, deletes are applied. Memory is bounded by READ_BYTES of decoded
rows, whatever the file's size, beside what `deletions` holds. It must not know which rows are
wanted for what.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from icdc_spark.iceberg.scan.file_tasks import DeleteFile, FileTask
from icdc_spark.readers.cells import project_rows
from icdc_spark.readers.deletions import STREAM_BYTES, Decoded, Deletions, Marks
from icdc_spark.readers.file_access import open_file_io

READ_BYTES = 8 * 1024 * 1024
"""Decoded bytes of rows that are in memory at a time, by the average row of the file."""

MAX_ROWS = 10_000
"""Rows in a batch at most, as in Spark's own Arrow batches."""

_FIELD_ID = b"PARQUET:field_id"
# That of the schema which pyiceberg makes: below 3 it refuses timestamps in nanoseconds.
_FORMAT_VERSION: Literal[3] = 3


class NoFieldIdsError(Exception):
    """A file has no field ids, so its columns cannot be matched.

    `iceberg.jvm.file_errors` recognises the name of this class in the text of Spark's error.
    """


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns to return of every file; plain data, so that it travels to workers."""

    schema: str
    """The Iceberg schema of the rows, as JSON."""
    name_mapping: str | None
    """The table's `schema.name-mapping.default`, for files without field ids; None if not set."""
    metadata: tuple[str, ...]
    """The metadata columns that follow those of the schema."""


def read_file(
    task: FileTask, columns: Columns, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file, or of the task's part of it, in their order.

    FileNotFoundError and NoFieldIdsError name the file.
    """
    schema = Schema.model_validate_json(columns.schema)
    mapping = parse_mapping_from_json(columns.name_mapping) if columns.name_mapping else None
    io = open_file_io(properties, task.location)

    def read_delete(delete: DeleteFile, columns: Schema) -> Iterator[Decoded]:
        return (rows for _, rows in _read_batches(io, delete.location, columns, None))

    deletions = Deletions(io, task, schema, read_delete)
    for start, (batch, file_schema) in _read_batches(
        io, task.location, schema, mapping, part=task.part
    ):
        deleted = deletions.mark_deleted(batch, file_schema, start)
        arrays = project_rows(schema, file_schema, batch, task.constants)
        names = [field.name for field in schema.fields]
        for name in columns.metadata:
            arrays.append(_build_metadata(name, task.location, start, deleted))
            names.append(name)
        rows = pa.RecordBatch.from_arrays(arrays, names)
        # Filtered after the projection: positions count the rows of the file, deleted ones too.
        if "_deleted" not in columns.metadata and deleted.any():
            rows = rows.filter(pa.array(~deleted))
        if rows.num_rows:
            yield rows


def _read_batches(
    io: FileIO,
    location: str,
    schema: Schema,
    mapping: NameMapping | None,
    *,
    part: tuple[int, int] | None = None,
) -> Iterator[tuple[int, Decoded]]:
    """Yield batches of the columns of `schema`, with the file's own schema of them.

    Before each is the position of its first row in the file. `part` is that of a `FileTask`.
    """
    with io.new_input(location).open() as stream:
        file = pq.ParquetFile(
            stream,
            buffer_size=STREAM_BYTES,
            # Else pyarrow reads all column chunks of a row group ahead, whatever their size.
            pre_buffer=False,
            # Files of old writers have INT96 timestamps; Iceberg reads them as microseconds.
            coerce_int96_timestamp_unit="us",
            # A flipped bit is an error that names the file, not a value in the index.
            page_checksum_verification=True,
        )
        present = _select_columns(
            file.schema_arrow, schema, location, has_mapping=mapping is not None
        )
        # Not downcast: the text of a nanosecond timestamp has nine digits.
        file_schema = pyarrow_to_schema(
            present, mapping, downcast_ns_timestamp_to_us=False, format_version=_FORMAT_VERSION
        )
        # Without any column there would be no rows to count. One too many is not projected.
        names = present.names or file.schema_arrow.names[:1]
        batch_rows = _choose_batch_rows(file)
        for start, group in _choose_row_groups(file, part):
            # Without threads: Spark runs a task on each core already.
            for batch in file.iter_batches(
                batch_rows, row_groups=[group], columns=names, use_threads=False
            ):
                yield start, (batch, file_schema)
                start += len(batch)


def _choose_row_groups(
    file: pq.ParquetFile, part: tuple[int, int] | None
) -> Iterator[tuple[int, int]]:
    """Yield the position of the first row and the number of each row group that begins in `part`.

    Example, row groups of 100 rows that begin at the bytes 4, 400 and 800, `part` = (300, 900):

        (100, 1), (200, 2)
    """
    start = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if part is None or part[0] <= _find_first_byte(group) < part[1]:
            yield start, number
        start += int(group.num_rows)


def _find_first_byte(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    # Writers put 0, or nothing, where there is no dictionary.
    return int(column.dictionary_page_offset or column.data_page_offset)


def _select_columns(
    file: pa.Schema, schema: Schema, location: str, *, has_mapping: bool
) -> pa.Schema:
    """Return the file's columns that the schema has.

    Others are not decoded: they may be of types that pyarrow does not know.
    """
    ids = {field.field_id for field in schema.fields}
    with_ids = [field for field in file if _FIELD_ID in (field.metadata or {})]
    if not with_ids and has_mapping:
        return file
    if not with_ids:
        # Iceberg's own readers match by the order of the columns then, which is right by luck only.
        raise NoFieldIdsError(location)
    return pa.schema([field for field in with_ids if int(field.metadata[_FIELD_ID]) in ids])


def _choose_batch_rows(file: pq.ParquetFile) -> int:
    """Return how many rows of the file have about READ_BYTES."""
    groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
    # Uncompressed bytes, which are near to those of the decoded rows.
    size = sum(int(group.total_byte_size) for group in groups)
    return max(1, min(MAX_ROWS, READ_BYTES * int(file.metadata.num_rows) // max(1, size)))


def _build_metadata(name: str, location: str, start: int, deleted: Marks) -> pa.Array:
    match name:
        case "_file":
            return pa.repeat(location, len(deleted))
        case "_pos":
            return pa.array(np.arange(start, start + len(deleted), dtype=np.int64))
        case _:
            return pa.array(deleted)
