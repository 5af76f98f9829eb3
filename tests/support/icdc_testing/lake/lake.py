"""A local catalog with real Iceberg tables, and what the application would send for them."""

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from icdc_spark.diff.change_plan import ChangePlan, choose_planner
from icdc_spark.diff.export_plan import plan_export
from icdc_spark.diff.operation_lines import LineCounts, OperationLines
from icdc_spark.diff.strategies import (
    Strategy,
    build_change_lines,
    build_export_lines,
    choose_strategy,
)
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.expect import Expect
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.expressions import build_analyser
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import SnapshotReader

CATALOG = "lake"
VERSION = 7 << 20

COPY_ON_WRITE = "copy-on-write"
MERGE_ON_READ = "merge-on-read"

REFUSED = (Expect.REFUSED, Expect.REFUSED_NEW)
"""What is expected of a row without a document."""


class Op(NamedTuple):
    """One bulk operation, parsed; `doc` is the text of the document, None for a delete; `failed`
    the field for which a row is refused."""

    expect: str
    id: str
    doc: str | None
    routing: str | None = None
    failed: str | None = None


class BatchOperations(NamedTuple):
    """The operations of one batch in the order of their ids, and what was counted."""

    ops: list[Op]
    counts: LineCounts

    @property
    def short(self) -> list[tuple[str, str]]:
        """The expected operation on each id, without documents."""
        return [(op.expect, op.id) for op in self.ops]


class Lake:
    """The tables of one catalog of a session; they are made with unique names."""

    def __init__(self, session: SparkSession, catalog: str = CATALOG) -> None:
        self.session, self.catalog = session, catalog
        self._numbers = itertools.count()

    def sql(self, text: str) -> list[Any]:
        """Run one statement and collect."""
        return self.session.sql(text).collect()

    def create(
        self,
        columns: str,
        *,
        mode: str = COPY_ON_WRITE,
        version: int = 2,
        partitioned: str = "",
        properties: str = "",
    ) -> str:
        """Create a table `db.tN`; return its name below the catalog."""
        name = self.choose_name()
        clause = f"partitioned by ({partitioned})" if partitioned else ""
        modes = ", ".join(f"'write.{verb}.mode'='{mode}'" for verb in ("update", "delete", "merge"))
        self.sql(
            f"create table {self.catalog}.{name} ({columns}) using iceberg {clause} tblproperties("
            f"'format-version'='{version}', {modes}, 'write.distribution-mode'='none'{properties})"
        )
        return name

    def choose_name(self) -> str:
        """Return a name that no table has."""
        self.sql(f"create namespace if not exists {self.catalog}.db")
        return f"db.t{next(self._numbers)}"

    def compact(self, name: str) -> None:
        """Rewrite all data files, those of a partition into one."""
        self.sql(
            f"call {self.catalog}.system.rewrite_data_files(table => '{name}', "
            "options => map('rewrite-all', 'true', 'min-input-files', '1'))"
        )

    def load_table(self, name: str) -> IcebergTable:
        """Return the table as the application loads it."""
        return IcebergTable.load(self.session, self.catalog, name)

    def add_time_column(self, name: str) -> None:
        """Add the column `at`, for which Spark has no type: pyarrow reads the table from now on."""
        table = self.load_table(name)
        time = table.bridge.get_statics("org.apache.iceberg.types.Types$TimeType").get()
        table.java.updateSchema().addColumn("at", time).commit()
        # Readers go by the schema of the snapshot.
        table.java.newAppend().commit()

    def read_head(self, name: str) -> int:
        """Return the id of the current snapshot."""
        snapshot = self.load_table(name).find_current_snapshot()
        assert snapshot is not None
        return snapshot.id

    def resolve_spec(self, name: str, at: int | None = None, **wishes: Any) -> DocumentSpec:
        """Return the document spec; the key is the column `id` unless said otherwise."""
        if not wishes.get("append_only"):
            wishes.setdefault("identifier_columns", ("id",))
        schema = self.load_table(name).read_schema(at)
        return resolve_spec(
            name, schema, DocumentWishes(**wishes), build_analyser(self.session, name)
        )

    def export(
        self, name: str, *, target_bytes: int = 1 << 30, **wishes: Any
    ) -> list[BatchOperations]:
        """Return one batch per chunk of the current snapshot."""
        at, table = self.read_head(name), self.load_table(name)
        spec = self.resolve_spec(name, at, **wishes)
        plan = plan_export(table, at, target_bytes=target_bytes, target_rows=10_000)
        with open_reader(self.session, table, at, spec) as reader:
            return [
                parse(build_export_lines(reader, chunk, spec, version=VERSION))
                for chunk in plan.iterate_chunks()
            ]

    def diff(
        self,
        name: str,
        since: int | None,
        *,
        until: int | None = None,
        strategy: Strategy | None = None,
        **wishes: Any,
    ) -> BatchOperations:
        """Return the batch from one snapshot to another, to the current one unless said
        otherwise."""
        with self._open_plan(name, since, until, wishes) as (reader, plan, spec):
            return parse(build_change_lines(reader, plan, spec, version=VERSION, strategy=strategy))

    def compute_ways(self, name: str, since: int, **wishes: Any) -> dict[Strategy, BatchOperations]:
        """Return the batch to the current snapshot by every strategy that fits, the chosen one
        first."""
        with self._open_plan(name, since, None, wishes) as (reader, plan, spec):
            return {
                strategy: parse(
                    build_change_lines(reader, plan, spec, version=VERSION, strategy=strategy)
                )
                for strategy in (choose_strategy(plan), *list_other_strategies(plan))
            }

    @contextmanager
    def _open_plan(
        self, name: str, since: int | None, until: int | None, wishes: dict[str, Any]
    ) -> Iterator[tuple[SnapshotReader, ChangePlan, DocumentSpec]]:
        at, table = until or self.read_head(name), self.load_table(name)
        spec = self.resolve_spec(name, at, **wishes)
        plan = choose_planner(spec)(table, since, at)
        with open_reader(self.session, table, at, spec) as reader:
            yield reader, plan, spec


@contextmanager
def read_rows_one_by_one(session: SparkSession) -> Iterator[None]:
    """Let Spark read files by rows: Iceberg 1.12 fails to read variants by columns."""
    name = "spark.sql.iceberg.vectorization.enabled"
    session.conf.set(name, "false")
    try:
        yield
    finally:
        session.conf.unset(name)


def list_other_strategies(plan: ChangePlan) -> Sequence[Strategy]:
    """Return the strategies that must agree with the chosen one."""
    usable = {Strategy.ONE_READ, Strategy.TWO_READS}
    if plan.removed.files == 0:
        usable.add(Strategy.STREAM)
    if plan.lineage_since is not None:
        usable.add(Strategy.LINEAGE)
    return sorted(usable - {choose_strategy(plan)})


def parse(lines: OperationLines) -> BatchOperations:
    """Run the lines and take them apart; assert what every operation has in common."""
    with translate_source_errors("the table"):
        rows = lines.frame.collect()
    return BatchOperations(
        sorted(_parse_op(bytes(row["line"]), row["expect"]) for row in rows), lines.read_counts()
    )


def make_frame_of_ids(session: SparkSession, ids: Sequence[str]) -> DataFrame:
    """Return a frame with the column `id`."""
    return session.createDataFrame([(one,) for one in ids], "id string")


def _parse_op(line: bytes, expect: str) -> Op:
    assert line.endswith(b"\n")
    action, *source = line.decode().removesuffix("\n").split("\n")
    ((verb, details),) = json.loads(action).items()
    assert verb == ("delete" if expect == "d" else "index")
    assert details.keys() == {"_id", "version", "version_type"} | (
        {"failed", "routing"} & {*details}
    )
    assert ("failed" in details) == (expect in REFUSED)
    assert (details["version"], details["version_type"]) == (VERSION, "external")
    assert len(source) == (0 if verb == "delete" else 1)
    document = source[0] if source else None
    return Op(expect, details["_id"], document, details.get("routing"), details.get("failed"))


def apply_batch(index: dict[str, str], batch: BatchOperations) -> dict[str, str]:
    """Return the documents of an index after a batch; assert one operation per id."""
    ids = [op.id for op in batch.ops]
    assert len(ids) == len(set(ids)), f"more than one operation for an id: {sorted(ids)}"
    return dict(_list_applied(index, batch))


def _list_applied(index: dict[str, str], batch: BatchOperations) -> Iterator[tuple[str, str]]:
    # Of a row that is refused the older document is removed.
    written = {op.id: None if op.expect in REFUSED else op.doc for op in batch.ops}
    for key, doc in {**index, **written}.items():
        if doc is not None:
            yield key, doc
