"""Read Parquet files with pyarrow in Spark's Python workers: few files, or a part of a large one.

For tables whose documents need a column that Spark has no type for: Spark's own reader refuses such
a table as a whole. Slower than that one, and it reads all columns; what it cannot read it refuses
by name instead of guessing.

The driver cuts the files into parts and makes a frame of the numbers of the parts, one partition
each; `mapInArrow` turns a number into the rows of its files. The work on a file is in
`parquet_files`, which knows neither Spark nor the JVM, so that only plain data goes to workers.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from icdc_api.errors import UnsupportedType
from icdc_spark.documents.schema import parse_schema
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.file_tasks import FileTask, list_file_tasks
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.iceberg.table.read_options import choose_target_size
from icdc_spark.iceberg.table.snapshot_schema import read_snapshot_schema
from icdc_spark.iceberg.table.staging import METADATA_TYPES
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.deletions import FORMATS as DELETE_FORMATS
from icdc_spark.readers.parallelism import (
    OPEN_BYTES,
    Packing,
    compute_packing,
    count_reading_tasks,
)
from icdc_spark.readers.parquet_files import Columns, read_file
from icdc_spark.readers.snapshot_reader import BaseReader

NOT_BY_ARROW = frozenset({"variant"})
"""Types that Spark's reader reads and this one cannot."""


class ArrowReader(BaseReader):
    """A `SnapshotReader` of all columns but variants, of Parquet files."""

    def __init__(
        self,
        session: SparkSession,
        table: IcebergTable,
        snapshot_id: int,
        tasks: int | None = None,
    ) -> None:
        super().__init__(session, table, snapshot_id, tasks)
        self._shape = read_snapshot_schema(table, snapshot_id, without=NOT_BY_ARROW)
        self._schema = parse_schema(self._shape.iceberg_schema)

    @property
    def can_read_lineage(self) -> bool:
        """See `SnapshotReader.can_read_lineage`."""
        # `parquet_files` makes no column of row lineage.
        return False

    def read(self, group: FileGroup, *, metadata: Sequence[str] = ()) -> DataFrame:
        """See `SnapshotReader.read`. UnsupportedType for what only Spark's reader could read."""
        schema = T.StructType(list(self._shape.spark_schema.fields))
        for column in metadata:
            schema = schema.add(column, METADATA_TYPES[column])
        self._tasks_read.append(group.tasks)
        with translate_source_errors(self._table.name):
            tasks = list_file_tasks(self._table, group.tasks)
            # On the driver, before any row: an error in a worker has lost its class.
            for task in tasks:
                self._refuse_unreadable(task)
            if not tasks:
                return self._session.createDataFrame([], schema)
            columns = Columns(
                schema=self._shape.iceberg_schema,
                name_mapping=self._shape.name_mapping,
                metadata=tuple(metadata),
            )
            # Numbers of parts are the frame: the parts go to workers inside the function, once.
            parts = pack_tasks(tasks, *self._choose_packing(group, tasks))
            work = _build_work(parts, columns, self._shape.io_properties)
            numbers = self._session.range(0, len(parts), 1, len(parts))
            return numbers.mapInArrow(work, schema)

    def _choose_packing(self, group: FileGroup, tasks: Sequence[FileTask]) -> Packing:
        return compute_packing(
            [max(task.bytes, OPEN_BYTES) for task in tasks],
            count_reading_tasks(self._session, group, self._most_tasks),
            choose_target_size(self._table.properties),
        )

    def _refuse_unreadable(self, task: FileTask) -> None:
        if task.file_format != "parquet":
            raise self._build_unsupported_type(task.location, task.file_format)
        for delete in task.deletes:
            if delete.file_format not in DELETE_FORMATS:
                raise self._build_unsupported_type(delete.location, delete.file_format)
            lost = [
                field_id for field_id in delete.equality_ids if not self._schema.find_path(field_id)
            ]
            if lost:
                raise UnsupportedType(
                    f"{self._table.name}: {delete.location} deletes rows by values of a column "
                    f"that is no longer in the table (field id {lost[0]}); it cannot be read "
                    f"together with columns such as {self._format_text_columns()}: compact the "
                    "table, or leave these columns out by naming the other columns in `columns`"
                )

    def _build_unsupported_type(self, location: str, file_format: str) -> UnsupportedType:
        return UnsupportedType(
            f"{self._table.name}: {location} has the format {file_format}; together with columns "
            f"such as {self._format_text_columns()} only parquet can be read: rewrite the data "
            "files, or leave these columns out by naming the other columns in `columns`"
        )

    def _format_text_columns(self) -> str:
        return ", ".join(f"`{name}`" for name in self._shape.text_columns)


def _build_work(
    parts: Sequence[Sequence[FileTask]], columns: Columns, properties: dict[str, str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    # A partial of a function at module level: workers get it by name, and nothing of the reader,
    # which holds objects of the JVM.
    return functools.partial(_read_parts, parts, columns, properties)


def _read_parts(
    parts: Sequence[Sequence[FileTask]],
    columns: Columns,
    properties: dict[str, str],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for task in parts[number]:
                yield from read_file(task, columns, properties)


def pack_tasks(tasks: Sequence[FileTask], target: int, least: int) -> list[list[FileTask]]:
    """Return neighbouring files together up to `target` bytes; a larger file in parts of so many.

    A file counts `least` bytes at least.

    Example, files of 40, 50 and 250 bytes, `target` = 100:

        [a, b], [c from 0 to 100], [c from 100 to 200], [c from 200 on]
    """
    parts: list[list[FileTask]] = []
    filled = 0
    for task in tasks:
        size = max(task.bytes, least)
        if not parts or filled + size > target:
            parts.append([])
            filled = 0
        if task.bytes > target:
            # In place of the part that was begun above, which is still empty.
            parts[-1:] = ([piece] for piece in _cut(task, target))
        else:
            parts[-1].append(task)
        filled += size
    return parts


def _cut(task: FileTask, target: int) -> Iterator[FileTask]:
    for start in range(0, task.bytes, target):
        end = start + target
        # The size is what a manifest says: whatever lies beyond belongs to the last part.
        yield replace(task, part=(start, end if end < task.bytes else sys.maxsize))
