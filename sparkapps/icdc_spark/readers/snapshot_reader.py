"""Read rows of one snapshot: the protocol that the diff knows, and the base of all readers.

The diff plans by files, so a reader takes a group of files, not a table. It must not know why they
are read.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from icdc_api.errors import Bug, FileUnreadable, IcdcError, SourceUnavailable
from icdc_spark.iceberg.jvm.source_errors import FOREIGN_ERRORS, translate_error
from icdc_spark.iceberg.scan.column_bounds import estimate_key_range
from icdc_spark.iceberg.scan.damaged_files import find_damage, name_suspects
from icdc_spark.iceberg.scan.ordered_scan import OrderedScan
from icdc_spark.iceberg.scan.planning import FileGroup, list_files, release_groups
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.parallelism import count_tasks

_STORED_TASKS = 4
"""Tasks for each core that make a part of a snapshot which is stored. The driver remembers where
the result of each task is, and packed as usual thousands of small files are hundreds of tasks."""


class SnapshotReader(Protocol):
    """Reads rows of groups of files, all in the schema of one snapshot; a context manager.

    Leaving the context gives back persisted frames. If an error goes through it that one of the
    files read may have caused, it becomes a FileUnreadable that names the file.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def table_name(self) -> str:
        """The name of the table, for messages."""
        ...

    @property
    def session(self) -> SparkSession:
        """The session that the frames belong to."""
        ...

    @property
    def can_read_lineage(self) -> bool:
        """True if it can read when rows were last written."""
        ...

    def read(self, group: FileGroup, *, metadata: Sequence[str] = ()) -> DataFrame:
        """Return the rows of a group, columns by field id and named as in the schema.

        Types that Spark does not have come as the text that documents hold. `metadata` names
        columns among `_file`, `_pos`, `_deleted` and, where reader and table have row lineage,
        `_last_updated_sequence_number`. Deleted rows are left out. With `_deleted` they are
        returned as well, and marked by it.
        """
        ...

    @property
    def empty_group(self) -> FileGroup:
        """A group without files; reading it gives the columns without rows."""
        ...

    def iterate_groups(self, files: int) -> Iterator[FileGroup]:
        """Yield all files of the snapshot in a fixed order, up to `files` of them at a time."""
        ...

    def release(self, group: FileGroup) -> None:
        """Let the JVM free the tasks of a group that nobody reads any more."""
        ...

    def estimate_key_range(self, group: FileGroup, fields: Sequence[int]) -> int | None:
        """Estimate how many different keys the files of a group may have, from their bounds.

        `fields` are the ids of the fields of the key, all whole numbers. A file with ids from 100
        to 199 has a range of 100. None where a file has no bounds.
        """
        ...

    def persist(self, frame: DataFrame) -> DataFrame:
        """Persist an intermediate result until the reader is closed."""
        ...

    def store(self, frame: DataFrame) -> DataFrame:
        """Compute a frame now and store its rows until the reader is closed.

        Unlike one that is persisted it holds nothing that it was made of, and is not computed again
        where rows are lost.
        """
        ...


class BaseReader:
    """The parts that all readers share: files of the snapshot, persisted frames, errors."""

    def __init__(
        self,
        session: SparkSession,
        table: IcebergTable,
        snapshot_id: int,
        tasks: int | None = None,
    ) -> None:
        """Open; `tasks` read a group of files at most, None for as many as there are cores."""
        self._session = session
        self._table = table
        self._snapshot_id = snapshot_id
        self._most_tasks = tasks
        self._persisted: list[DataFrame] = []
        self._stored: list[int] = []
        # Iceberg's scan tasks of all groups that were read: the suspects where a read fails.
        self._tasks_read: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while self._persisted:
                self._persisted.pop().unpersist()
            while self._stored:
                # Not by the RDD's own method, which warns that nothing can compute it again.
                context = self._table.bridge.java_session.sparkContext()
                context.unpersistRDD(self._stored.pop(), False)
        finally:
            # Also where unpersisting fails, as after the session has ended.
            self._close()
        explained = self._explain(error)
        if explained is not None:
            raise explained from error

    def _explain(self, error: BaseException | None) -> IcdcError | None:
        """Return an error that names the damaged file, if one of those read here is the cause."""
        cause = (
            translate_error(self._table.name, error) if isinstance(error, FOREIGN_ERRORS) else error
        )
        # A damaged file shows itself as one of these; after any other error no file need be opened.
        if not isinstance(cause, Bug | FileUnreadable | SourceUnavailable):
            return None
        # Spark's error seldom names the file, so the files read are checked, one after the other.
        damage = find_damage(self._table, self._tasks_read)
        if damage:
            return damage
        if isinstance(cause, FileUnreadable):
            return FileUnreadable(f"{cause}; {name_suspects(self._table, self._tasks_read)}")
        return None

    def _close(self) -> None:
        """Give back what the reader holds besides persisted frames."""

    @property
    def table_name(self) -> str:
        """See `SnapshotReader.table_name`."""
        return self._table.name

    @property
    def session(self) -> SparkSession:
        """The session that the frames belong to."""
        return self._session

    @property
    def empty_group(self) -> FileGroup:
        """See `SnapshotReader.empty_group`."""
        return list_files(self._table, None).group(())

    def iterate_groups(self, files: int) -> Iterator[FileGroup]:
        """See `SnapshotReader.iterate_groups`."""
        return OrderedScan(self._table, self._snapshot_id, window_files=files).iterate_groups()

    def release(self, group: FileGroup) -> None:
        """See `SnapshotReader.release`."""
        release_groups(self._table, [group])

    def estimate_key_range(self, group: FileGroup, fields: Sequence[int]) -> int | None:
        """See `SnapshotReader.estimate_key_range`."""
        return estimate_key_range(self._table, self._snapshot_id, group, fields)

    def persist(self, frame: DataFrame) -> DataFrame:
        """See `SnapshotReader.persist`; what does not fit into memory goes to local disk."""
        persisted = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._persisted.append(persisted)
        return persisted

    def store(self, frame: DataFrame) -> DataFrame:
        """See `SnapshotReader.store`; what does not fit into memory goes to local disk."""
        stored = frame.coalesce(_STORED_TASKS * count_tasks(self._session)).localCheckpoint()
        java: Any = stored._jdf
        self._stored.append(java.queryExecution().analyzed().rdd().id())
        return stored
