"""What stands for Spark and Iceberg's files: plans and lines of a batch, from the model's rows.

A task may outlive its driver: then the driver's process goes on as the task alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icdc_api.errors import DataFileMissing, Gap
from icdc_spark.diff.export_plan import Chunk
from icdc_spark.diff.operation_lines import LineCounts
from icdc_spark.documents.expect import Expect
from icdc_spark.iceberg.jvm.session import SessionClosedError
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.opensearch.wire.operations import build_delete_entry, build_index_entry
from icdc_spark.replication.duplicates import NO_DUPLICATES, DuplicateSummary
from icdc_testing.simulation import border
from icdc_testing.simulation.model.lake import LoadedTable, Rows
from icdc_testing.simulation.schedule import Killed, TaskKilled

CHUNK_ROWS = 2
"""Rows of a chunk of an export, and operations of a task."""
ROW_BYTES = 100
MAX_ATTEMPTS = 4
"""Attempts of one task, as Spark's `spark.task.maxFailures` has it."""

Operation = tuple[bytes, str]
"""One line and what it is expected to find."""


class Session:
    """Stands for a SparkSession."""

    sparkContext = None  # noqa: N815  Spark's name


class OpenedSession:
    """Stands for `icdc_spark.iceberg.jvm.session.TableSession`."""

    def __init__(self, mark: Callable[..., None]) -> None:
        self._session: Session | None = Session()
        self._mark = mark
        mark(is_open=True)

    @property
    def spark(self) -> Session:
        """The session; SessionClosedError after `close`."""
        if self._session is None:
            raise SessionClosedError("the session is closed")
        return self._session

    def close(self) -> None:
        """Forget the session."""
        self._session = None
        self._mark(is_open=False)


@dataclass(frozen=True)
class Reader:
    """Reads rows of one snapshot of the table as its driver loaded it."""

    table: LoadedTable
    snapshot_id: int
    table_name: str = "shop.orders"

    def read_rows(self, snapshot_id: int | None) -> Rows:
        """Return the rows of a snapshot; DataFileMissing where its files were removed."""
        if snapshot_id is None:
            return {}
        if snapshot_id not in self.table.lake.snapshots:
            raise DataFileMissing(f"a file of snapshot {snapshot_id} is missing")
        return self.table.lake.rows[snapshot_id]

    def persist(self, frame: Any) -> Any:
        """Return the frame."""
        return frame


@contextmanager
def open_reader(
    session: Any, table: LoadedTable, snapshot_id: int, spec: Any, tasks: int | None = None
) -> Iterator[Reader]:
    """Stand for `icdc_spark.readers.choose.open_reader`."""
    yield Reader(table, snapshot_id)


@dataclass(frozen=True)
class Plan:
    """Stands for a ChangePlan: the rows that differ."""

    from_id: int | None
    to_id: int
    changes: tuple[tuple[int, int | None, bool], ...]
    """Id, new value or None, and whether there was a row before."""
    files: int = 1

    @property
    def bytes(self) -> int:
        """The size of what is read."""
        return len(self.changes) * ROW_BYTES

    @property
    def is_empty(self) -> bool:
        """True if nothing differs."""
        return not self.changes


def choose_planner(spec: Any) -> Callable[..., Plan]:
    """Stand for `icdc_spark.diff.change_plan.choose_planner`."""
    return _plan_changes


def _plan_changes(table: LoadedTable, from_id: int | None, to_id: int) -> Plan:
    for number in (from_id, to_id):
        if number is not None and number not in table.snapshots:
            raise Gap(f"snapshot {number} has expired")
    before: Rows = table.lake.rows[from_id] if from_id is not None else {}
    after = table.lake.rows[to_id]
    changes = [
        (key, after.get(key), key in before)
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    return Plan(from_id, to_id, tuple(changes))


class KeyedExportPlan:
    """Stands for `icdc_spark.diff.export_plan.ExportPlan`: the keys of the rows, in order."""

    def __init__(self, keys: list[int]) -> None:
        self.records = len(keys)
        starts = range(0, len(keys), CHUNK_ROWS)
        self._parts = [keys[start : start + CHUNK_ROWS] for start in starts]
        self.count = len(self._parts)

    def iterate_chunks(self, first: int = 0) -> Iterator[Chunk]:
        """Yield the chunks from number `first` on."""
        for number, part in enumerate(self._parts[first:], first):
            yield Chunk(number=number, group=_make_group(part))


def plan_export(table: LoadedTable, snapshot_id: int, **_: int) -> KeyedExportPlan:
    """Stand for `icdc_spark.diff.export_plan.plan_export`."""
    table.require(snapshot_id)
    return KeyedExportPlan(sorted(table.lake.rows[snapshot_id]))


def merge_groups(table: LoadedTable, groups: Sequence[FileGroup]) -> FileGroup:
    """Stand for `icdc_spark.iceberg.scan.planning.merge_groups`."""
    return _make_group([key for group in groups for key in group.tasks])


def release_groups(table: LoadedTable, groups: Sequence[FileGroup]) -> None:
    """Stand for `icdc_spark.iceberg.scan.planning.release_groups`."""


def _make_group(keys: list[int]) -> FileGroup:
    return FileGroup(tasks=keys, files=1, records=len(keys), bytes=len(keys) * ROW_BYTES)


class KeyedLines:
    """Stands for OperationLines and its DataFrame."""

    def __init__(self, operations: list[Operation]) -> None:
        self._operations = operations
        self._task: Callable[..., Iterator[pa.RecordBatch]] | None = None

    @property
    def frame(self) -> "KeyedLines":
        """The frame of the lines."""
        return self

    def read_counts(self) -> LineCounts:
        """Return the counts: no key has two rows."""
        return LineCounts(lines=len(self._operations), non_finite=0, duplicate_keys=0)

    def read_non_finite(self) -> int:
        """Return 0: no column holds floats."""
        return 0

    def select(self, *_: object) -> "KeyedLines":
        """Stand for DataFrame.select, and for limit: tables of worlds are smaller."""
        return self

    limit = select

    def mapInArrow(self, task: Any, schema: str) -> "KeyedLines":  # noqa: N802  Spark's name
        """Stand for DataFrame.mapInArrow."""
        self._task = task
        return self

    def collect(self) -> list[dict[str, str]]:
        """Run the task over all partitions, one after the other."""
        starts = range(0, len(self._operations), CHUNK_ROWS)
        parts = [self._operations[start : start + CHUNK_ROWS] for start in starts]
        return [row for part in parts for row in self._run(part)]

    def _run(self, part: list[Operation]) -> list[dict[str, str]]:
        world, task = border.get_world(), self._task
        assert task is not None
        lines = pa.array([line for line, _ in part], pa.binary())
        expects = pa.array([expect for _, expect in part], pa.string())
        batch = pa.RecordBatch.from_arrays([lines, expects], names=["line", "expect"])
        me = world.schedule.current
        for attempt in range(MAX_ATTEMPTS):
            me.in_task, me.attempt = True, attempt
            try:
                return [row for result in task(iter([batch])) for row in result.to_pylist()]
            except TaskKilled:
                continue
            finally:
                me.in_task = False
                if me.orphaned:
                    me.dead = True
                    raise Killed
        raise Killed


def build_export_lines(reader: Reader, chunk: Chunk, spec: Any, *, version: int) -> KeyedLines:
    """Stand for `icdc_spark.diff.strategies.build_export_lines`."""
    rows = reader.read_rows(reader.snapshot_id)
    lines = [_write(key, rows[key], version, Expect.CREATED) for key in chunk.group.tasks]
    return KeyedLines(lines)


def build_change_lines(reader: Reader, plan: Plan, spec: Any, *, version: int) -> KeyedLines:
    """Stand for `icdc_spark.diff.strategies.build_change_lines`."""
    reader.read_rows(plan.from_id)
    reader.read_rows(plan.to_id)
    return KeyedLines([_build_operation(*change, version) for change in plan.changes])


def _build_operation(key: int, value: int | None, was_there: bool, version: int) -> Operation:
    if value is None:
        return build_delete_entry(f"k{key}", version), str(Expect.DELETED)
    expect = Expect.UPDATED if was_there else Expect.CREATED
    return _write(key, value, version, expect)


def _write(key: int, value: int, version: int, expect: Expect) -> Operation:
    document = f'{{"id":{key},"value":{value}}}'.encode()
    return build_index_entry(f"k{key}", version, document), str(expect)


def list_changed_ids(*_: Any) -> Mapping[str, str]:
    """Stand for `icdc_spark.diff.strategies.list_changed_ids`."""
    return {}


def settle(*_: Any, **__: Any) -> DuplicateSummary:
    """Stand for `icdc_spark.replication.duplicates.settle`: no key has two rows."""
    return NO_DUPLICATES


def count_tasks(_: Any) -> int:
    """Stand for `icdc_spark.readers.parallelism.count_tasks`."""
    return 1


class TableCache:
    """Stands for `icdc_spark.iceberg.table.cached_table.CachedTable`."""

    def __init__(self, *_: Any) -> None:
        self._lake = border.get_world().lake
        self._is_closed = False

    def load(self) -> LoadedTable:
        """Return the table as it is now; SessionClosedError after `close`."""
        if self._is_closed:
            raise SessionClosedError("the table is closed")
        return LoadedTable(self._lake)

    def close(self) -> None:
        """Answer no more."""
        self._is_closed = True


class InlinePool:
    """Stands for a ThreadPoolExecutor: the work is done at once, by whoever submits it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> "InlinePool":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do the work and return its future."""
        future: border.Future[Any] = border.Future()
        future.set_result(work(*arguments))
        return future
