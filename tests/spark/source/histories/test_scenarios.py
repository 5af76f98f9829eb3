"""Each kind of commit as operations on the index."""

from typing import Any

import pytest

from icdc_spark.diff.change_plan import plan_changes
from icdc_spark.diff.strategies import Strategy
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, BatchOperations, Lake, Op

pytestmark = pytest.mark.spark

TABLES = [
    pytest.param(COPY_ON_WRITE, 2, id="cow-v2"),
    pytest.param(MERGE_ON_READ, 2, id="mor-v2"),
    pytest.param(MERGE_ON_READ, 3, id="mor-v3"),
]

ROWS = "values (1, 'NL', 'a'), (2, 'NL', 'b'), (3, 'DE', 'c'), (4, 'DE', null)"


def create_table(lake: Lake, mode: str, version: int, partitioned: str = "") -> tuple[str, int]:
    """Create a table of four rows, one file per partition; return its name and snapshot."""
    columns = "id bigint not null, country string, name string"
    name = lake.create(columns, mode=mode, version=version, partitioned=partitioned)
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from ({ROWS})")
    return name, lake.read_head(name)


def run_all_strategies(lake: Lake, name: str, since: int, **wishes: Any) -> BatchOperations:
    """Return the batch, which must be the same by each strategy that fits.

    Only lineage may also send updated rows that are as before.
    """
    batches = lake.compute_ways(name, since, **wishes)
    chosen = next(iter(batches.values()))
    for strategy, batch in batches.items():
        more = set(batch.ops) - set(chosen.ops)
        assert set(chosen.ops) <= set(batch.ops), f"{strategy} differs"
        assert not more or strategy is Strategy.LINEAGE, f"{strategy} differs"
        assert {op.expect for op in more} <= {"u"}, f"{strategy} differs"
    return chosen


@pytest.mark.parametrize(("mode", "version"), TABLES)
class TestOneCommit:
    def test_a_first_snapshot_creates_every_row(self, lake: Lake, mode: str, version: int) -> None:
        name, _ = create_table(lake, mode, version)

        assert lake.diff(name, None).ops == [
            Op("c", "1", '{"id":1,"country":"NL","name":"a"}'),
            Op("c", "2", '{"id":2,"country":"NL","name":"b"}'),
            Op("c", "3", '{"id":3,"country":"DE","name":"c"}'),
            Op("c", "4", '{"id":4,"country":"DE"}'),
        ]

    def test_an_insert_creates_its_rows_only(self, lake: Lake, mode: str, version: int) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"insert into lake.{name} values (5, 'BE', 'e')")

        assert run_all_strategies(lake, name, since).ops == [
            Op("c", "5", '{"id":5,"country":"BE","name":"e"}')
        ]

    def test_an_update_of_one_row_in_a_file_writes_that_row(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")

        assert run_all_strategies(lake, name, since).ops == [
            Op("u", "2", '{"id":2,"country":"NL","name":"x"}')
        ]

    def test_a_delete_of_one_row_in_a_file_deletes_its_document(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"delete from lake.{name} where id = 2")

        assert run_all_strategies(lake, name, since).ops == [Op("d", "2", None)]

    def test_a_merge_becomes_its_three_effects(self, lake: Lake, mode: str, version: int) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(
            f"merge into lake.{name} t using (select * from values (1, 'one'), (2, 'two'), "
            "(9, 'nine') as v(k, v)) s "
            "on t.id = s.k when matched and k = 1 then delete "
            "when matched then update set name = v "
            "when not matched then insert (id, country, name) values (k, 'FR', v)"
        )

        assert run_all_strategies(lake, name, since).ops == [
            Op("c", "9", '{"id":9,"country":"FR","name":"nine"}'),
            Op("d", "1", None),
            Op("u", "2", '{"id":2,"country":"NL","name":"two"}'),
        ]

    def test_a_row_that_moves_to_another_partition_is_one_update(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        name, since = create_table(lake, mode, version, partitioned="country")
        lake.sql(f"update lake.{name} set country = 'BE' where id = 1")

        assert run_all_strategies(lake, name, since).short == [("u", "1")]

    def test_a_changed_key_is_a_delete_and_a_create(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"update lake.{name} set id = 20 where id = 2")

        assert run_all_strategies(lake, name, since).short == [("c", "20"), ("d", "2")]

    def test_a_metadata_delete_of_a_partition_deletes_its_rows(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        name, since = create_table(lake, mode, version, partitioned="country")
        lake.sql(f"delete from lake.{name} where country = 'DE'")

        assert run_all_strategies(lake, name, since).short == [("d", "3"), ("d", "4")]

    def test_a_truncate_deletes_everything(self, lake: Lake, mode: str, version: int) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"truncate table lake.{name}")

        assert run_all_strategies(lake, name, since).short == [("d", key) for key in "1234"]

    def test_an_overwrite_writes_what_differs(self, lake: Lake, mode: str, version: int) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"insert overwrite lake.{name} values (1, 'NL', 'a'), (2, 'NL', 'z')")

        assert run_all_strategies(lake, name, since).short == [("d", "3"), ("d", "4"), ("u", "2")]


@pytest.mark.parametrize(("mode", "version"), TABLES)
class TestMaintenance:
    def test_a_compaction_writes_nothing(self, lake: Lake, mode: str, version: int) -> None:
        name, _ = create_table(lake, mode, version)
        lake.sql(f"insert into lake.{name} values (5, 'BE', 'e')")
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")
        since = lake.read_head(name)
        lake.compact(name)

        assert lake.read_head(name) != since
        assert run_all_strategies(lake, name, since).ops == []

    def test_a_compaction_among_changes_leaves_the_changes(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")
        lake.compact(name)
        lake.sql(f"delete from lake.{name} where id = 3")
        lake.sql(f"insert into lake.{name} values (5, 'BE', 'e')")

        assert run_all_strategies(lake, name, since).short == [("c", "5"), ("d", "3"), ("u", "2")]

    def test_rewritten_manifests_write_nothing(self, lake: Lake, mode: str, version: int) -> None:
        name, _ = create_table(lake, mode, version)
        lake.sql(f"insert into lake.{name} values (5, 'BE', 'e')")
        since = lake.read_head(name)
        lake.sql(f"call lake.system.rewrite_manifests('{name}')")

        assert plan_changes(lake.load_table(name), since, lake.read_head(name)).is_empty
        assert lake.diff(name, since).ops == []

    def test_a_rollback_undoes_what_was_done(self, lake: Lake, mode: str, version: int) -> None:
        name, first = create_table(lake, mode, version)
        lake.sql(f"delete from lake.{name} where id = 1")
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")
        lake.sql(f"insert into lake.{name} values (5, 'BE', 'e')")
        since = lake.read_head(name)
        lake.sql(f"call lake.system.rollback_to_snapshot('{name}', {first})")

        assert run_all_strategies(lake, name, since).ops == [
            Op("c", "1", '{"id":1,"country":"NL","name":"a"}'),
            Op("d", "5", None),
            Op("u", "2", '{"id":2,"country":"NL","name":"b"}'),
        ]

    def test_a_rollback_to_before_a_column_was_widened_undoes_what_was_done(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        columns = "id bigint not null, n int, d decimal(4,1), l array<int>"
        name = lake.create(columns, mode=mode, version=version)
        lake.sql(f"insert into lake.{name} values (1, 1, 1.5, array(1))")
        first = lake.read_head(name)
        lake.sql(f"alter table lake.{name} alter column n type bigint")
        lake.sql(f"alter table lake.{name} alter column d type decimal(20,1)")
        lake.sql(f"alter table lake.{name} alter column l.element type bigint")
        lake.sql(f"insert into lake.{name} values (2, 9000000000, 9000000000.5, array(9000000000))")
        lake.sql(f"update lake.{name} set n = 9000000000 where id = 1")
        since = lake.read_head(name)
        lake.sql(f"call lake.system.rollback_to_snapshot('{name}', {first})")

        assert run_all_strategies(lake, name, since).ops == [
            Op("d", "2", None),
            Op("u", "1", '{"id":1,"n":1,"d":"1.5","l":[1]}'),
        ]

    def test_a_rollback_to_before_nulls_were_allowed_undoes_what_was_done(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        columns = "id bigint not null, name string not null, n int not null, key int not null"
        name = lake.create(columns, mode=mode, version=version)
        lake.sql(f"insert into lake.{name} values (1, 'a', 1, 1), (2, 'b', 2, 2)")
        first = lake.read_head(name)
        for column in ("name", "n", "key"):
            lake.sql(f"alter table lake.{name} alter column {column} drop not null")
        lake.sql(f"insert into lake.{name} values (3, null, null, null)")
        lake.sql(f"update lake.{name} set name = null, n = null where id = 1")
        since = lake.read_head(name)
        lake.sql(f"call lake.system.rollback_to_snapshot('{name}', {first})")

        keys = {"identifier_columns": ("id", "key")}
        assert run_all_strategies(lake, name, since, **keys).ops == [
            Op("d", "3|\\N", None),
            Op("u", "1|1", '{"id":1,"name":"a","n":1,"key":1}'),
        ]

    def test_there_and_back_again_writes_no_other_content(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")
        lake.sql(f"update lake.{name} set name = 'b' where id = 2")

        batch = run_all_strategies(lake, name, since)
        expected = (
            [] if mode == COPY_ON_WRITE else [Op("u", "2", '{"id":2,"country":"NL","name":"b"}')]
        )
        assert batch.ops == expected

    def test_a_row_inserted_and_deleted_in_between_leaves_no_trace(
        self, lake: Lake, mode: str, version: int
    ) -> None:
        name, since = create_table(lake, mode, version)
        lake.sql(f"insert into lake.{name} values (5, 'BE', 'e'), (6, 'BE', 'f')")
        lake.sql(f"delete from lake.{name} where id = 5")

        assert run_all_strategies(lake, name, since).short == [("c", "6")]


@pytest.mark.usefixtures("whole_stage_codegen")
@pytest.mark.parametrize(
    ("mode", "version", "row_filter"),
    [
        pytest.param(COPY_ON_WRITE, 2, "country = 'NL'", id="cow-v2"),
        pytest.param(MERGE_ON_READ, 2, None, id="mor-v2"),
        pytest.param(MERGE_ON_READ, 3, None, id="mor-v3"),
    ],
)
def test_deletes_alone_are_sent_also_where_spark_plans_anew_while_it_runs(
    lake: Lake, mode: str, version: int, row_filter: str | None
) -> None:
    name, since = create_table(lake, mode, version)
    lake.sql(f"delete from lake.{name} where country = 'NL'")
    batch = run_all_strategies(lake, name, since, row_filter=row_filter)
    assert batch.ops == [Op("d", "1", None), Op("d", "2", None)]
