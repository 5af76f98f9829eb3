"""Reads through Spark's own Iceberg reader: every file format, every kind of delete file."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from icdc_spark.iceberg.errors import source_errors
from icdc_spark.iceberg.planning import FileGroup
from icdc_spark.iceberg.staging import Staging
from icdc_spark.iceberg.tables import IcebergTable
from icdc_spark.readers.reader import SnapshotReader


class StagedReader(SnapshotReader):
    """A `Reader` of all columns that Spark can load."""

    def __init__(self, session: SparkSession, table: IcebergTable, snapshot_id: int) -> None:
        super().__init__(session, table, snapshot_id)
        with source_errors(table.name):
            self._staging = Staging(table.bridge, table.pinned(snapshot_id))

    @property
    def tells_lineage(self) -> bool:
        """See `Reader.tells_lineage`."""
        return True

    def read(self, group: FileGroup, *, metadata: Sequence[str] = ()) -> DataFrame:
        """See `Reader.read`."""
        self._tasks_read.append(group.tasks)
        with source_errors(self._table.name):
            return self._staging.read(group.tasks, metadata)

    def _close(self) -> None:
        self._staging.close()
