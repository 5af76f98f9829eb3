"""Mark the deleted rows of one data file: by position, by deletion vector, or by equality.

| delete file | says | row 3 of `a.parquet` (id 7) is deleted if |
|---|---|---|
| position deletes | rows of `file_path`, `pos` | one is (`a.parquet`, 3) |
| deletion vector | a bitmap for one data file | it is for `a.parquet` and has bit 3 |
| equality deletes by `id` | rows of `id` | one is 7 |

Which delete files apply to the data file is decided by Iceberg's planning. Works on decoded rows,
in a Spark worker: no session, no JVM. The deleted positions and the keys of the equality deletes
are in memory, as in Iceberg's own readers.
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
"""Formats of delete files that can be read; deletion vectors are in puffin files."""

STREAM_BYTES = 1024 * 1024
"""Bytes of one read of a file: enough for few requests to an object store."""

Positions = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
"""One flag per row of a batch: true if it is deleted."""
Column: TypeAlias = pa.Array | pa.ChunkedArray

Decoded = tuple[pa.RecordBatch, Schema]
"""Rows of a file, and the file's own schema of their columns."""

Rows = Callable[[DeleteFile, Schema], Iterable[Decoded]]
"""Reads the columns of a schema from a delete file."""


class Deletions:
    """The deleted rows of one data file; `schema` is that of the rows to be returned."""

    def __init__(self, io: FileIO, task: FileTask, schema: Schema, rows: Rows) -> None:
        by_position = [delete for delete in task.deletes if not delete.equality_ids]
        self._positions = _read_positions(io, by_position, task.location)
        self._constants = task.constants
        # Sorted, because `groupby` groups neighbours only.
        by_key = sorted(
            (delete for delete in task.deletes if delete.equality_ids), key=_list_key_ids
        )
        self._keys = [
            _DeletedKeys(prune_columns(schema, set(ids)), files, rows)
            for ids, files in groupby(by_key, key=_list_key_ids)
        ]

    def mark_deleted(self, batch: pa.RecordBatch, file: Schema, start: int) -> Marks:
        """Return the marks of a batch that begins at position `start` of the file.

        `file` is the file's own schema of the batch.
        """
        deleted = np.zeros(len(batch), dtype=np.bool_)
        # Positions are sorted: those of the batch are one slice.
        low, high = np.searchsorted(self._positions, [start, start + len(batch)])
        deleted[self._positions[low:high] - start] = True
        for keys in self._keys:
            deleted |= keys.mark_matches(batch, file, self._constants)
        return deleted


def _list_key_ids(delete: DeleteFile) -> list[int]:
    return sorted(delete.equality_ids)


class _DeletedKeys:
    """The keys of the equality deletes of the same columns, as numbers.

    Rows are matched without a Python object per key. The deleted keys (5, 'a'), (5, 'b'), (9, 'a')
    are numbered column by column. `pair` is the number so far times the count of values of the next
    column, plus the number of the value in it; different pairs are numbered in their order:

    | key | first value, its number | second value, its number | pair | number of the key |
    |---|---|---|---|---|
    | (5, 'a') | 5: 0 | 'a': 0 | 0 * 2 + 0 = 0 | 0 |
    | (5, 'b') | 5: 0 | 'b': 1 | 0 * 2 + 1 = 1 | 1 |
    | (9, 'a') | 9: 1 | 'a': 0 | 1 * 2 + 0 = 2 | 2 |
    | (9, 'b'), a row | 9: 1 | 'b': 1 | 1 * 2 + 1 = 3 | -1: no deleted key has this pair |
    """

    def __init__(self, schema: Schema, files: Iterable[DeleteFile], rows: Rows) -> None:
        self._schema = schema
        parts = [
            _list_leaves(schema, project_rows(schema, own, batch, {}))
            for file in files
            for batch, own in rows(file, schema)
            if len(batch)
        ]
        columns = [pa.chunked_array(column) for column in zip(*parts, strict=True)]
        self._values = [pc.unique(column) for column in columns]
        # The sorted pairs of each column; a pair's index is its number.
        self._pairs: list[Positions] = []
        if columns:
            self._number_keys(columns, learn=True)

    def mark_matches(
        self, batch: pa.RecordBatch, file: Schema, constants: Mapping[int, Any]
    ) -> Marks:
        """Return the marks of the rows that have one of these keys.

        Nulls are equal, as Iceberg's specification says.
        """
        # All delete files of these columns are empty.
        if not self._values:
            return np.zeros(len(batch), dtype=np.bool_)
        cells = project_rows(self._schema, file, batch, constants)
        return self._number_keys(_list_leaves(self._schema, cells)) >= 0

    def _number_keys(self, columns: Sequence[Column], *, learn: bool = False) -> Positions:
        """Return the number of each key, -1 for a key that is not deleted; `learn` numbers them."""
        numbers = np.zeros(len(columns[0]), dtype=np.int64)
        for depth, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            # `index_in` finds a null too where the values have one: nulls are equal here.
            indices = pc.fill_null(pc.index_in(column, values), -1)
            own = np.asarray(indices.to_numpy(), dtype=np.int64)
            # Renumbered at each column, numbers stay below the count of keys: no overflow.
            pairs = np.where((numbers < 0) | (own < 0), -1, numbers * len(values) + own)
            if learn:
                self._pairs.append(np.unique(pairs))
            known_pairs = self._pairs[depth]
            # Beyond the greatest pair `searchsorted` gives the length, which is no index.
            candidates = np.minimum(np.searchsorted(known_pairs, pairs), len(known_pairs) - 1)
            numbers = np.where(known_pairs[candidates] == pairs, candidates, -1)
        return numbers


def _list_leaves(schema: Schema, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Return the primitive columns, those in structs too: a key may be made of these."""
    return [
        leaf
        for field, column in zip(schema.fields, columns, strict=True)
        for leaf in _split_structs(field.field_type, column)
    ]


def _split_structs(kind: IcebergType, cells: pa.Array) -> list[pa.Array]:
    if not isinstance(kind, StructType):
        return [cells]
    return [
        leaf
        for number, field in enumerate(kind.fields)
        for leaf in _split_structs(field.field_type, pc.struct_field(cells, number))
    ]


def _read_positions(io: FileIO, deletes: Sequence[DeleteFile], location: str) -> Positions:
    """Return the positions deleted in a file, sorted."""
    positions: list[Positions] = []
    for delete in deletes:
        read = _read_vector if delete.file_format == "puffin" else _read_position_deletes
        positions += read(io, delete, location)
    # Two position deletes may name one row.
    return np.unique(np.concatenate(positions)) if positions else np.empty(0, dtype=np.int64)


def _read_vector(io: FileIO, delete: DeleteFile, location: str) -> Sequence[Positions]:
    # One puffin file has the vectors of many data files.
    with io.new_input(delete.location).open() as stream:
        puffin = PuffinFile(stream.read())
    return [
        np.asarray(vector.to_vector().to_numpy(), dtype=np.int64)
        for vector in deletion_vectors_from_puffin_file(puffin)
        if vector.referenced_data_file == location
    ]


def _read_position_deletes(io: FileIO, delete: DeleteFile, location: str) -> Sequence[Positions]:
    with io.new_input(delete.location).open() as stream:
        # Neither ahead nor with threads, and with checksums, for the reasons that `parquet_files`
        # gives: a flipped bit in a position would delete another row.
        file = pq.ParquetFile(
            stream, buffer_size=STREAM_BYTES, pre_buffer=False, page_checksum_verification=True
        )
        batches = file.iter_batches(columns=["file_path", "pos"], use_threads=False)
        return [
            np.asarray(
                batch.filter(pc.equal(batch["file_path"], location))["pos"].to_numpy(),
                dtype=np.int64,
            )
            for batch in batches
        ]
