"""Which rows of one data file are deleted: by position, by a vector, or by equality.

Works on what readers have decoded, in a Spark worker: no session, no JVM. The positions deleted in
the file, and the keys of the equality deletes that apply to it, are held in memory, as Iceberg's
own readers do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.types import IcebergType, StructType

from icdc_spark.iceberg.scan.file_tasks import DeleteFile, FileTask
from icdc_spark.readers.cells import project_rows

FORMATS = frozenset({"parquet", "puffin"})
"""Of delete files, which can be read."""

STREAM_BYTES = 1024 * 1024

Positions = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
Column: TypeAlias = pa.Array | pa.ChunkedArray

Decoded = tuple[pa.RecordBatch, Schema]
"""Rows of a file, and the file's own schema of them."""

Rows = Callable[[DeleteFile, Schema], Iterable[Decoded]]
"""Reads the columns of a schema from a delete file."""


class Deletions:
    """What is deleted of one data file; `schema` is the one that its rows are shown in."""

    def __init__(self, io: FileIO, task: FileTask, schema: Schema, rows: Rows) -> None:
        by_position = [each for each in task.deletes if not each.equality_ids]
        self._positions = _positions(io, by_position, task.location)
        self._constants = task.constants
        by_key = sorted((each for each in task.deletes if each.equality_ids), key=_columns)
        self._keys = [
            _Keys(prune_columns(schema, set(ids)), files, rows)
            for ids, files in groupby(by_key, key=_columns)
        ]

    def marks(self, batch: pa.RecordBatch, file: Schema, start: int) -> Marks:
        """Per row of a batch, which begins at position `start`, whether it is deleted.

        `file` is the file's own schema of the batch.
        """
        gone = np.zeros(len(batch), dtype=np.bool_)
        low, high = np.searchsorted(self._positions, [start, start + len(batch)])
        gone[self._positions[low:high] - start] = True
        for keys in self._keys:
            gone |= keys.hold(batch, file, self._constants)
        return gone


def _columns(delete: DeleteFile) -> list[int]:
    return sorted(delete.equality_ids)


class _Keys:
    """The keys of the equality deletes of the same columns, each key with a number of its own."""

    def __init__(self, schema: Schema, files: Iterable[DeleteFile], rows: Rows) -> None:
        self._schema = schema
        parts = [
            _leaves(schema, project_rows(schema, own, batch, {}))
            for file in files
            for batch, own in rows(file, schema)
            if len(batch)
        ]
        columns = [pa.chunked_array(column) for column in zip(*parts, strict=True)]
        self._values = [pc.unique(column) for column in columns]
        self._known: list[Positions] = []
        if columns:
            self._number(columns, learn=True)

    def hold(self, batch: pa.RecordBatch, file: Schema, constants: Mapping[int, Any]) -> Marks:
        """Per row whether its key is one of these; nulls are equal, as the specification says."""
        if not self._values:
            return np.zeros(len(batch), dtype=np.bool_)
        cells = project_rows(self._schema, file, batch, constants)
        return self._number(_leaves(self._schema, cells)) >= 0

    def _number(self, columns: Sequence[Column], *, learn: bool = False) -> Positions:
        """The number of each key, -1 for unknown ones: one column after the other, what was found
        so far and the next value make a pair, and known pairs are counted through."""
        numbers = np.zeros(len(columns[0]), dtype=np.int64)
        for at, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            found = pc.fill_null(pc.index_in(column, values), -1)
            own = np.asarray(found.to_numpy(), dtype=np.int64)
            pairs = np.where((numbers < 0) | (own < 0), -1, numbers * len(values) + own)
            if learn:
                self._known.append(np.unique(pairs))
            known = self._known[at]
            places = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
            numbers = np.where(known[places] == pairs, places, -1)
        return numbers


def _leaves(schema: Schema, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The primitive columns, those in structs too: a key may be made of these."""
    return [
        leaf
        for field, column in zip(schema.fields, columns, strict=True)
        for leaf in _parts(field.field_type, column)
    ]


def _parts(kind: IcebergType, cells: pa.Array) -> list[pa.Array]:
    if not isinstance(kind, StructType):
        return [cells]
    return [
        leaf
        for at, field in enumerate(kind.fields)
        for leaf in _parts(field.field_type, pc.struct_field(cells, at))
    ]


def _positions(io: FileIO, deletes: Sequence[DeleteFile], location: str) -> Positions:
    """The positions deleted in a file, sorted."""
    found: list[Positions] = []
    for delete in deletes:
        read = _vector if delete.file_format == "puffin" else _position_deletes
        found += read(io, delete, location)
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def _vector(io: FileIO, delete: DeleteFile, location: str) -> Sequence[Positions]:
    with io.new_input(delete.location).open() as stream:
        puffin = PuffinFile(stream.read())
    return [
        np.asarray(vector.to_vector().to_numpy(), dtype=np.int64)
        for vector in deletion_vectors_from_puffin_file(puffin)
        if vector.referenced_data_file == location
    ]


def _position_deletes(io: FileIO, delete: DeleteFile, location: str) -> Sequence[Positions]:
    with io.new_input(delete.location).open() as stream:
        file = pq.ParquetFile(stream, buffer_size=STREAM_BYTES, pre_buffer=False)
        batches = file.iter_batches(columns=["file_path", "pos"], use_threads=False)
        return [
            np.asarray(
                batch.filter(pc.equal(batch["file_path"], location))["pos"].to_numpy(),
                dtype=np.int64,
            )
            for batch in batches
        ]
