"""Reads one Parquet data file of a table, in a Spark worker: no session, no JVM.

Columns are found by field id, deletes are applied. Memory is bounded by READ_BYTES of decoded rows,
whatever the file's size, beside what `deletions` holds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from icdc_spark.iceberg.scan.file_tasks import DeleteFile, FileTask
from icdc_spark.readers.cells import project_rows
from icdc_spark.readers.deletions import STREAM_BYTES, Decoded, Deletions, Marks

READ_BYTES = 8 * 1024 * 1024
"""Decoded bytes of rows that are held at a time, by the average row of the file."""

MAX_ROWS = 10_000
"""Rows at a time at most: what Spark's own Arrow batches hold."""

_FIELD_ID = b"PARQUET:field_id"
_FORMAT_VERSION: Literal[3] = 3


class NoFieldIdsError(Exception):
    """A file's columns cannot be known; the name is what `iceberg.jvm.file_errors` looks for."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What to make of every file; plain data, so that it travels to workers.

    `schema` is the JSON of the Iceberg schema to show, `name_mapping` the table's mapping for files
    without field ids, `metadata` the metadata columns that follow the schema's.
    """

    schema: str
    name_mapping: str | None
    metadata: tuple[str, ...]


def read_file(
    task: FileTask, columns: Columns, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """The rows of one file in their order.

    Raises FileNotFoundError and NoFieldIdsError, which name the file.
    """
    schema = Schema.model_validate_json(columns.schema)
    mapping = parse_mapping_from_json(columns.name_mapping) if columns.name_mapping else None
    io = load_file_io(dict(properties), task.location)

    def keys(delete: DeleteFile, of: Schema) -> Iterator[Decoded]:
        return _batches(io, delete.location, of, None)

    deletions = Deletions(io, task, schema, keys)
    start = 0
    for batch, file_schema in _batches(io, task.location, schema, mapping):
        gone = deletions.marks(batch, file_schema, start)
        arrays = project_rows(schema, file_schema, batch, task.constants)
        names = [field.name for field in schema.fields]
        for name in columns.metadata:
            arrays.append(_metadata(name, task.location, start, gone))
            names.append(name)
        start += len(batch)
        made = pa.RecordBatch.from_arrays(arrays, names)
        if "_deleted" not in columns.metadata and gone.any():
            made = made.filter(pa.array(~gone))
        if made.num_rows:
            yield made


def _batches(
    io: FileIO, location: str, schema: Schema, mapping: NameMapping | None
) -> Iterator[Decoded]:
    """The rows of the columns wanted, each batch with the file's own schema of them."""
    with io.new_input(location).open() as stream:
        file = pq.ParquetFile(
            stream,
            buffer_size=STREAM_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        present = _wanted(file.schema_arrow, schema, location, has_mapping=mapping is not None)
        file_schema = pyarrow_to_schema(
            present, mapping, downcast_ns_timestamp_to_us=False, format_version=_FORMAT_VERSION
        )
        # Without any column there would be no rows to count; what is too much is not projected.
        names = present.names or file.schema_arrow.names[:1]
        for batch in file.iter_batches(_rows(file), columns=names, use_threads=False):
            yield batch, file_schema


def _wanted(file: pa.Schema, schema: Schema, location: str, *, has_mapping: bool) -> pa.Schema:
    """The file's columns that the schema shows.

    Others are not looked at: they may be of types that pyarrow does not know.
    """
    ids = {field.field_id for field in schema.fields}
    marked = [field for field in file if _FIELD_ID in (field.metadata or {})]
    if not marked and has_mapping:
        return file
    if not marked:
        # Iceberg's own readers go by the order of the columns then, which is right by luck only.
        raise NoFieldIdsError(location)
    return pa.schema([field for field in marked if int(field.metadata[_FIELD_ID]) in ids])


def _rows(file: pq.ParquetFile) -> int:
    """Rows that come to about READ_BYTES."""
    groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
    size = sum(int(group.total_byte_size) for group in groups)
    return max(1, min(MAX_ROWS, READ_BYTES * int(file.metadata.num_rows) // max(1, size)))


def _metadata(name: str, location: str, start: int, gone: Marks) -> pa.Array:
    match name:
        case "_file":
            return pa.repeat(location, len(gone))
        case "_pos":
            return pa.array(np.arange(start, start + len(gone), dtype=np.int64))
        case _:
            return pa.array(gone)
