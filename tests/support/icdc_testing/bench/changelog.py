"""What the benchmark of the changelog measures: ways from two snapshots to lines, and their cost.

Every way ends in the same null sink, which takes Arrow batches in Python workers as the sink for
OpenSearch does. Cost is that of the whole tree of processes: driver, JVM and workers, planning,
compiling and garbage collection included.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.spec.indices.fields import FieldEntry
from icdc_api.spec.spark import Spark
from icdc_api.spec.spark_defaults import build_defaults
from icdc_spark.diff.change_plan import ChangePlan, choose_planner
from icdc_spark.diff.lineage_changes import LAST_UPDATED
from icdc_spark.diff.row_sets import read_row_sets
from icdc_spark.diff.rows import compute_row_fingerprint, select_cells, select_keys
from icdc_spark.diff.strategies import Strategy, build_change_lines
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.iceberg.jvm.session import APPLICATION_CONF
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.iceberg.table.expressions import build_analyser
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.choose import open_reader
from icdc_testing.bench.native_floor import build_changed_lines
from icdc_testing.bench.session import list_stages, start_bench_session
from icdc_testing.waiting.process_cpu import sum_cpu_seconds

CATALOG = "lake"
_VIEW = "changelog_of_bench"


@dataclass(frozen=True, kw_only=True)
class Range:
    """What happened to a table: two of its snapshots."""

    table: str
    since: int | None
    """None for an empty table before it."""
    until: int


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one way took; `cpu_seconds` of all processes, `task_cpu_seconds` as Spark counts it,
    `calls` of the function that is counted, if any."""

    wall_seconds: float
    cpu_seconds: float
    task_cpu_seconds: float
    shuffled_mb: float
    lines: int
    written_mb: float
    calls: int = 0


def start_session(
    folder: Path,
    *,
    memory: str,
    more: Mapping[str, str] | None = None,
    master: str = "local[2]",
) -> SparkSession:
    """Start a Spark, of two cores by default, with a catalog of files in the folder.

    `more` are further properties.
    """
    catalog, wished = f"spark.sql.catalog.{CATALOG}", dict(more or {})
    conf = {
        **APPLICATION_CONF,
        **build_defaults(Spark(conf=wished)),
        "spark.sql.shuffle.partitions": "8",  # as `icdc run` sets it
        "spark.ui.retainedStages": "100000",  # the meter adds up all of them
        "spark.ui.showConsoleProgress": "false",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(folder / "warehouse"),
        f"{catalog}.cache-enabled": "false",
        **wished,
    }
    made = start_bench_session("bench-changelog", folder, memory=memory, conf=conf, master=master)
    made.sql(f"create namespace {CATALOG}.db")
    return made


class Ways:
    """The ways to the lines of a range; each answers how many lines and bytes it handed over."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        # As the application has them: resolved once for each schema of a table.
        self._specs: dict[tuple[str, ...], DocumentSpec] = {}

    def plan(self, where: Range) -> ChangePlan:
        """Plan which files the changelog has to read."""
        table = IcebergTable.load(self._spark, CATALOG, where.table)
        return self._plan(table, where)[1]

    def compute_changelog(
        self, where: Range, strategy: Strategy | None, fields: tuple[FieldEntry, ...] = ()
    ) -> tuple[int, int]:
        """Compute the changes as the application does it, from loading the table on."""
        table = IcebergTable.load(self._spark, CATALOG, where.table)
        spec, plan = self._plan(table, where, fields)
        if plan.is_empty:
            return 0, 0  # as `changelog.write` does
        with open_reader(self._spark, table, where.until, spec) as reader:
            lines = build_change_lines(reader, plan, spec, version=1 << 20, strategy=strategy)
            return _swallow(lines.frame.select("line"))

    def compute_view(self, where: Range, *, updates: bool) -> tuple[int, int]:
        """Compute Iceberg's own changelog, its rows as JSON, as a user without the operator
        would."""
        by_key = ", identifier_columns => array('id')" if updates else ""
        self._spark.sql(
            f"call {CATALOG}.system.create_changelog_view(table => '{where.table}', "
            f"changelog_view => '{_VIEW}', options => map('start-snapshot-id', '{where.since}', "
            f"'end-snapshot-id', '{where.until}'){by_key})"
        )
        rows = self._spark.table(_VIEW)
        return _swallow(rows.select(F.to_json(F.struct("*")).cast("binary").alias("line")))

    def read_ids(self, where: Range) -> tuple[int, int]:
        """Read the keys of all rows at the beginning once: what looking for some cannot beat."""
        name = f"{CATALOG}.{where.table}"
        rows = self._spark.read.option("versionAsOf", where.since).table(name)
        rows.agg(F.max(F.xxhash64("id"))).collect()
        return 0, 0

    def read_inputs(self, where: Range, strategy: Strategy) -> tuple[int, int]:
        """Read what a strategy reads of a range without delete files, and compare nothing.

        Of the rows to be written, TWO_READS takes a hundredth, LINEAGE those whose row says so.
        """
        table = IcebergTable.load(self._spark, CATALOG, where.table)
        spec, plan = self._plan(table, where)
        columns = (LAST_UPDATED,) if strategy is Strategy.LINEAGE else ()
        with open_reader(self._spark, table, where.until, spec) as reader:
            row_sets = read_row_sets(reader, plan, metadata=columns)

            def narrow(rows: DataFrame) -> DataFrame:
                last = (
                    F.col(LAST_UPDATED)
                    if columns
                    else compute_row_fingerprint(rows, spec, salt="1")
                )
                return select_keys(rows, spec, last.alias("compared"))

            def select_written(rows: DataFrame) -> DataFrame:
                some = F.xxhash64("id") % 100 == 0
                since = F.col(LAST_UPDATED) > F.lit(plan.lineage_since) if columns else some
                return select_cells(rows.where(since), spec)

            _decode(
                row_sets.combine((row_sets.added_rows, narrow), (row_sets.removed_rows, narrow))
            )
            _decode(row_sets.combine((row_sets.added_rows, select_written)))
        return 0, 0

    def compute_natively(self, where: Range) -> tuple[int, int]:
        """Find the changed lines with a native engine; only for ranges without delete files."""
        plan = self.plan(where)
        row_sets = (_list_locations(plan.added), _list_locations(plan.removed))
        columns = self._spark.table(f"{CATALOG}.{where.table}").columns
        sizes = [len(line) for line in build_changed_lines(*row_sets, columns=columns, key="id")]
        return len(sizes), sum(sizes)

    def _plan(
        self, table: IcebergTable, where: Range, fields: tuple[FieldEntry, ...] = ()
    ) -> tuple[DocumentSpec, ChangePlan]:
        key = (where.table, *map(str, fields))
        if key not in self._specs:
            wishes = DocumentWishes(identifier_columns=("id",), fields=fields)
            analyse = build_analyser(self._spark, where.table)
            schema = table.read_schema(where.until)
            self._specs[key] = resolve_spec(where.table, schema, wishes, analyse)
        spec = self._specs[key]
        return spec, choose_planner(spec)(table, where.since, where.until)


def _list_locations(group: FileGroup) -> list[str]:
    return [str(task.file().location()) for task in group.tasks]


class Meter:
    """Measures one piece of work at a time."""

    def __init__(self, spark: SparkSession, count_calls: Callable[[], int] = lambda: 0) -> None:
        """`count_calls` returns how often a function was called until now."""
        self._spark = spark
        self._count_calls = count_calls
        self._jvm: Any = spark._jvm

    def measure(self, work: Callable[[], tuple[int, int]]) -> Cost:
        """Return the cost of the work, after a garbage collection that counts for nobody."""
        self._jvm.System.gc()
        tasks, shuffled = self._sum_tasks()
        calls = self._count_calls()
        processor, started = sum_cpu_seconds(), time.monotonic()
        lines, size = work()
        wall = time.monotonic() - started
        processor = sum_cpu_seconds() - processor
        tasks_after, shuffled_after = self._sum_tasks()
        return Cost(
            wall_seconds=round(wall, 2),
            cpu_seconds=round(processor, 2),
            task_cpu_seconds=round(tasks_after - tasks, 2),
            shuffled_mb=round((shuffled_after - shuffled) / 1e6, 2),
            lines=lines,
            written_mb=round(size / 1e6, 2),
            calls=self._count_calls() - calls,
        )

    def _sum_tasks(self) -> tuple[float, int]:
        """Return CPU seconds and shuffled bytes of all stages until now."""
        stages_so_far = list_stages(self._spark)
        nanoseconds = sum(int(stage.executorCpuTime()) for stage in stages_so_far)
        return nanoseconds / 1e9, sum(int(stage.shuffleWriteBytes()) for stage in stages_so_far)


def _swallow(lines: DataFrame) -> tuple[int, int]:
    """Hand lines to Python workers, which do nothing with them; return their number and bytes."""
    counted = lines.mapInArrow(_count, "lines long, bytes long").collect()
    return sum(row["lines"] for row in counted), sum(row["bytes"] for row in counted)


def _decode(rows: DataFrame) -> None:
    """Look at every cell in the tasks that read it."""
    rows.agg(F.max(F.xxhash64(*rows.columns))).collect()


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        size = pc.sum(pc.binary_length(batch.column(0))).as_py() or 0
        yield pa.RecordBatch.from_pydict({"lines": [batch.num_rows], "bytes": [size]})
