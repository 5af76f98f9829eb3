"""Read through Spark's own Iceberg reader: every file format, every kind of delete file.

Iceberg applies the deletes. What is known to be applied wrongly is refused before it is read.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from icdc_api.errors import UnsupportedType
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.file_tasks import find_equality_ids
from icdc_spark.iceberg.scan.planning import FileGroup, list_reading_bytes
from icdc_spark.iceberg.table.read_options import choose_target_size, mend_options
from icdc_spark.iceberg.table.staging import Staging
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.parallelism import (
    OPEN_BYTES,
    compute_packing,
    count_reading_tasks,
)
from icdc_spark.readers.snapshot_reader import BaseReader

NOT_BY_ROWS, _NOT_BY_COLUMNS = frozenset({"time"}), frozenset({"variant"})
"""Types with which Iceberg 1.12 cannot read a file in one of its two ways, whichever columns are
read. By columns (vectorized) it fails at a variant in a list or a map, and at a shredded one; by
rows it fails at a `time`."""


class StagedReader(BaseReader):
    """A `SnapshotReader` of all columns that Spark can load."""

    def __init__(
        self,
        session: SparkSession,
        table: IcebergTable,
        snapshot_id: int,
        tasks: int | None = None,
    ) -> None:
        super().__init__(session, table, snapshot_id, tasks)
        with translate_source_errors(table.name):
            by_columns = (
                table.format_version < 3  # which has no variants
                or not table.has_had(_NOT_BY_COLUMNS)
                or table.has_had(NOT_BY_ROWS)
            )
            options = mend_options(table.properties)
            if not by_columns:
                options["vectorization-enabled"] = "false"
            # As of the snapshot: later commits do not change what its reader returns.
            snapshot_table = table.build_table_at(snapshot_id)
            self._staging = Staging(table.bridge, snapshot_table, options)

    @property
    def can_read_lineage(self) -> bool:
        """See `SnapshotReader.can_read_lineage`."""
        return True

    def read(self, group: FileGroup, *, metadata: Sequence[str] = ()) -> DataFrame:
        """See `SnapshotReader.read`. UnsupportedType for deletes that it would apply wrongly."""
        self._tasks_read.append(group.tasks)
        self._refuse_nested_keys(group)
        with translate_source_errors(self._table.name):
            return self._staging.read(group.tasks, metadata, self._choose_splits(group))

    def _choose_splits(self, group: FileGroup) -> dict[str, str]:
        """Return the read options by which Iceberg cuts a group into tasks."""
        tasks = count_reading_tasks(self._session, group, self._most_tasks)
        # One task of few files: it need not be asked how large each of them is.
        sizes = list_reading_bytes(self._table.bridge, group, OPEN_BYTES) if tasks > 1 else ()
        packing = compute_packing(sizes, tasks, choose_target_size(self._table.properties))
        return {"split-size": str(packing.task_bytes), "file-open-cost": str(packing.file_bytes)}

    def _refuse_nested_keys(self, group: FileGroup) -> None:
        # Iceberg 1.12 takes a field in a struct for null when it applies an equality delete: it
        # would leave out rows whose field is null, and return the deleted ones.
        ids = find_equality_ids(self._table, group.tasks) if group.files else frozenset()
        for field_id in sorted(ids):
            path = self._table.read_schema(self._snapshot_id).find_path(field_id)
            if path is not None and len(path) > 1:
                name = ".".join(field.name for field in path)
                raise UnsupportedType(
                    f"{self._table.name}: rows are deleted by values of `{name}`, a field in a "
                    "struct, and Spark's reader of Iceberg tables applies such deletes wrongly: "
                    "let the writer delete by a top-level column, and write the affected data "
                    "files again from their source"
                )

    def _close(self) -> None:
        self._staging.close()
