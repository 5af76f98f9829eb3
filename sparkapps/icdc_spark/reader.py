"""Reads groups of data files as data frames in the schema of one snapshot.

`Reader` is all that the diff knows of reading; a reader for tables that Spark's own reader cannot
open has to offer no more than this.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from icdc_spark.iceberg.errors import source_errors
from icdc_spark.iceberg.planning import FileGroup, list_files
from icdc_spark.iceberg.staging import Staging
from icdc_spark.iceberg.tables import IcebergTable


class Reader(Protocol):
    """Rows of groups of files, all in the schema of one snapshot."""

    @property
    def table_name(self) -> str:
        """For messages."""
        ...

    @property
    def session(self) -> SparkSession:
        """The session that the frames belong to."""
        ...

    def read(self, group: FileGroup, *, metadata: Sequence[str] = ()) -> DataFrame:
        """The rows of a group, columns by field id and named as in the schema.

        Deleted rows are left out, unless `metadata` names `_deleted`: then they are there, marked.
        """
        ...

    @property
    def nothing(self) -> FileGroup:
        """A group of no file; reading it gives the columns without rows."""
        ...

    def everything(self, *, within: Any = None) -> FileGroup:
        """All files of the snapshot; `within` may leave out files that hold no matching row."""
        ...

    def keep(self, frame: DataFrame) -> DataFrame:
        """Persists an intermediate result until the reader is closed."""
        ...


class StagedReader:
    """Reads through Spark's own Iceberg reader; a context manager, which cleans up after itself."""

    def __init__(self, session: SparkSession, table: IcebergTable, snapshot_id: int) -> None:
        self._session = session
        self._table = table
        self._snapshot_id = snapshot_id
        self._kept: list[DataFrame] = []
        with source_errors(table.name):
            self._staging = Staging(table.bridge, table.pinned(snapshot_id))

    def __enter__(self) -> "StagedReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while self._kept:
                self._kept.pop().unpersist()
        finally:
            self._staging.close()

    @property
    def table_name(self) -> str:
        """The table as the pipeline names it."""
        return self._table.name

    @property
    def session(self) -> SparkSession:
        """The session that the frames belong to."""
        return self._session

    def read(self, group: FileGroup, *, metadata: Sequence[str] = ()) -> DataFrame:
        """See `Reader.read`; metadata columns are `_file`, `_pos` and `_deleted`."""
        with source_errors(self._table.name):
            return self._staging.read(group.tasks, metadata)

    @property
    def nothing(self) -> FileGroup:
        """See `Reader.nothing`."""
        return list_files(self._table, None).group(())

    def everything(self, *, within: Any = None) -> FileGroup:
        """See `Reader.everything`; `within` is an Iceberg expression."""
        listing = list_files(self._table, self._snapshot_id, within=within)
        return listing.group(sorted(listing.files, key=lambda file: file.location))

    def keep(self, frame: DataFrame) -> DataFrame:
        """See `Reader.keep`; what does not fit into memory goes to local disk."""
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept
