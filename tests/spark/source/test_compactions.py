"""Compactions between two snapshots: their files are not read, and the batch stays right."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import DataFileMissing, SourceUnavailable
from icdc_spark.diff.change_plan import ChangePlan, plan_changes
from icdc_spark.diff.strategies import build_change_lines
from icdc_spark.readers.choose import open_reader
from icdc_spark.replication.batches import check_plan
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, VERSION, Lake, apply_batch, parse
from icdc_testing.lake.metadata_table import MetadataTable

pytestmark = pytest.mark.spark

COLUMNS = "id bigint not null, country string, name string"
FIRST = "values (1, 'NL', 'a'), (2, 'NL', 'b'), (3, 'DE', 'c'), (4, 'DE', null)"
SECOND = "values (5, 'NL', 'e'), (6, 'DE', 'f')"

COMPACT = "compact"
APPEND = "insert into {t} values (7, 'NL', 'g')"
UPDATE_DE = "update {t} set name = 'x' where id = 3"
DELETE_NL = "delete from {t} where id = 1"
DELETE_DE = "delete from {t} where id = 6"
DROP_NL = "delete from {t} where country = 'NL'"
APPEND_DE = "insert into {t} select /*+ coalesce(1) */ * from values (7, 'DE', 'g'), (8, 'DE', 'h')"
DELETE_LATE = "delete from {t} where id = 7"
EVOLVE = "alter table {t} add partition field bucket(2, id)"


class PlanRows(NamedTuple):
    """The rows that a plan reads of each kind; of files with deletes all rows count."""

    added: int = 0
    removed: int = 0
    with_deletes: int = 0


TABLES = {
    "cow": (COPY_ON_WRITE, 2),
    "cow-v3": (COPY_ON_WRITE, 3),
    "mor": (MERGE_ON_READ, 2),
    "mor-v3": (MERGE_ON_READ, 3),
}


class CompactionCase(NamedTuple):
    """Statements before and after the earlier snapshot, and what is to be read then."""

    name: str
    tables: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    expected: PlanRows


ANY = "cow mor-v3"
CASES = [
    CompactionCase("compaction alone", ANY, (), (COMPACT,), PlanRows()),
    CompactionCase("compaction that applies deletes", "mor", (DELETE_NL,), (COMPACT,), PlanRows()),
    CompactionCase(
        "compaction of what a compaction wrote", ANY, (), (COMPACT, COMPACT), PlanRows()
    ),
    CompactionCase("rows appended after it", ANY, (), (COMPACT, APPEND), PlanRows(added=1)),
    CompactionCase("rows appended before it", ANY, (), (APPEND, COMPACT), PlanRows(added=1)),
    CompactionCase(
        "twice, with rows in between", ANY, (), (COMPACT, APPEND, COMPACT), PlanRows(added=1)
    ),
    CompactionCase(
        "rows updated after it elsewhere", "cow", (), (COMPACT, UPDATE_DE), PlanRows(3, 3)
    ),
    CompactionCase(
        "rows updated before it elsewhere", "cow-v3", (), (UPDATE_DE, COMPACT), PlanRows(2, 2)
    ),
    CompactionCase(
        "rows deleted before it", "mor", (), (DELETE_NL, COMPACT), PlanRows(with_deletes=2)
    ),
    CompactionCase("rows deleted after it", "mor", (), (COMPACT, DELETE_NL), PlanRows(3, 3)),
    CompactionCase(
        "deleted before it of a file of other partition spec",
        "mor-v3",
        (EVOLVE,),
        (DELETE_NL, COMPACT),
        PlanRows(with_deletes=2),
    ),
    CompactionCase("spec changed by it", ANY, (EVOLVE,), (COMPACT,), PlanRows()),
    CompactionCase(
        "all rows of a partition deleted first", "mor-v3", (), (DROP_NL, COMPACT), PlanRows(0, 3)
    ),
    CompactionCase(
        "late rows deleted before it",
        "mor-v3",
        (),
        (APPEND_DE, DELETE_LATE, COMPACT),
        PlanRows(added=2),
    ),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, kind, id=f"{case.name}-{kind}")
        for case in CASES
        for kind in case.tables.split()
    ],
)
def test_of_a_compaction_is_read_only_what_may_differ(
    lake: Lake, case: CompactionCase, kind: str
) -> None:
    name = create_table(lake, *TABLES[kind])
    play(lake, name, case.before)
    since = lake.read_head(name)
    documents = apply_batch({}, lake.diff(name, None))
    play(lake, name, case.after)

    assert (
        count_read(plan_changes(lake.load_table(name), since, lake.read_head(name)))
        == case.expected
    )
    assert apply_batch(documents, lake.diff(name, since)) == apply_batch({}, lake.diff(name, None))


def test_a_compaction_whose_parent_is_expired_is_compared(lake: Lake) -> None:
    name = create_table(lake, COPY_ON_WRITE, 2)
    since = lake.read_head(name)
    lake.sql(f"alter table lake.{name} create tag kept as of version {since}")
    play(lake, name, (APPEND, COMPACT))
    expire(lake, name)

    assert count_read(plan_changes(lake.load_table(name), since, lake.read_head(name))) == PlanRows(
        7, 6
    )
    assert lake.diff(name, since).short == [("c", "7")]


def test_files_that_expire_while_they_are_read_are_planned_anew(lake: Lake) -> None:
    name = create_table(lake, COPY_ON_WRITE, 2)
    since = lake.read_head(name)
    lake.sql(f"alter table lake.{name} create tag kept as of version {since}")
    play(lake, name, (APPEND, COMPACT))
    until, table = lake.read_head(name), lake.load_table(name)
    plan = plan_changes(table, since, until)
    missing = DataFileMissing("no such file")

    check_plan(table, plan, plan_changes, missing)
    expire(lake, name)
    with (
        pytest.raises(DataFileMissing),
        open_reader(lake.session, table, until, spec := lake.resolve_spec(name)) as reader,
    ):
        parse(build_change_lines(reader, plan, spec, version=VERSION))
    with pytest.raises(SourceUnavailable, match="the batch is planned anew"):
        check_plan(table, plan, plan_changes, missing)
    assert count_read(plan_changes(table, since, until)) == PlanRows(7, 6)


def test_a_rollback_past_a_compaction_is_compared(lake: Lake) -> None:
    name = create_table(lake, COPY_ON_WRITE, 2)
    first = lake.read_head(name)
    play(lake, name, (COMPACT, APPEND))
    since = lake.read_head(name)
    lake.sql(f"call lake.system.rollback_to_snapshot('{name}', {first})")

    assert count_read(plan_changes(lake.load_table(name), since, first)) == PlanRows(6, 7)
    assert lake.diff(name, since).short == [("d", "7")]


class TestDoubtful:
    """Snapshots of operation `replace` that changed rows, or may have changed some."""

    def test_one_that_lost_rows_is_compared(self, spark: SparkSession) -> None:
        assert read_after_rewrite(spark, rows=2, by=1) == PlanRows(1, 2)

    def test_one_that_kept_their_number_is_not(self, spark: SparkSession) -> None:
        assert read_after_rewrite(spark, rows=2, by=2) == PlanRows()

    def test_one_whose_old_file_was_put_back_counts_as_added(self, spark: SparkSession) -> None:
        table = make_table(spark, 2)
        old, new = make_data_file(table, 2), make_data_file(table, 2)
        table.java.newFastAppend().appendFile(old).commit()
        since = read_head(table)
        rewrite(table, old, new)
        table.java.newFastAppend().appendFile(old).commit()

        assert count_read(plan_changes(table.load(), since, read_head(table))) == PlanRows(2, 0)

    def test_one_with_equality_deletes_that_came_since_is_compared(
        self, spark: SparkSession
    ) -> None:
        table = make_table(spark, 2)
        old, new = make_data_file(table, 2), make_data_file(table, 2)
        table.java.newFastAppend().appendFile(old).commit()
        since = read_head(table)
        rewrite(table, old, new)
        table.java.newRowDelta().addDeletes(table.make_equality_deletes(new)).commit()

        assert count_read(plan_changes(table.load(), since, read_head(table))) == PlanRows(2, 2)


def create_table(lake: Lake, mode: str, version: int) -> str:
    """Create a table of six rows in two commits, partitioned by country; return its name."""
    name = lake.create(COLUMNS, mode=mode, version=version, partitioned="country")
    for rows in (FIRST, SECOND):
        lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from ({rows})")
    return name


def expire(lake: Lake, name: str) -> None:
    """Expire all snapshots but the current one and those with a tag or branch."""
    lake.sql(
        f"call lake.system.expire_snapshots(table => '{name}', retain_last => 1, "
        "older_than => timestamp '2999-01-01 00:00:00')"
    )


def play(lake: Lake, name: str, statements: Sequence[str]) -> None:
    for statement in statements:
        if statement == COMPACT:
            lake.compact(name)
        else:
            lake.sql(statement.format(t=f"lake.{name}"))


def count_read(plan: ChangePlan) -> PlanRows:
    deletes = max(plan.shared_before.records, plan.shared_after.records)
    return PlanRows(plan.added.records, plan.removed.records, deletes)


def read_after_rewrite(spark: SparkSession, *, rows: int, by: int) -> PlanRows:
    """Return what a plan reads after one file of `rows` was replaced by one of `by` rows."""
    table = make_table(spark, 2)
    old, new = make_data_file(table, rows), make_data_file(table, by)
    table.java.newFastAppend().appendFile(old).commit()
    since = read_head(table)
    rewrite(table, old, new)
    return count_read(plan_changes(table.load(), since, read_head(table)))


def make_table(spark: SparkSession, version: int) -> MetadataTable:
    return MetadataTable(spark, **{"format-version": str(version)})


def make_data_file(table: MetadataTable, rows: int) -> Any:
    """Return a data file whose metadata states this number of rows."""
    file = table.make_data_file()
    builder = table.bridge.get_statics("org.apache.iceberg.DataFiles").builder(table.java.spec())
    return builder.copy(file).withRecordCount(rows).build()


def rewrite(table: MetadataTable, old: Any, new: Any) -> None:
    table.java.newRewrite().deleteFile(old).addFile(new).commit()


def read_head(table: MetadataTable) -> int:
    table.java.refresh()
    return int(table.java.currentSnapshot().snapshotId())
