"""Tables of format 3, whose rows say when they were last written: when that is believed, and what
is then sent.
"""

from typing import Any

import pytest

from icdc_api.errors import Bug
from icdc_spark.diff.change_plan import plan_changes
from icdc_spark.diff.row_sets import BROADCAST_IDS
from icdc_spark.diff.strategies import Strategy
from icdc_spark.readers.choose import can_read_lineage
from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.lake import CATALOG, COPY_ON_WRITE, MERGE_ON_READ, Lake, Op
from icdc_testing.lake.lineage import compute_by_lineage, put_back
from icdc_testing.lake.schemas import build_schema_json, create_from_json

pytestmark = pytest.mark.spark

MODES = [pytest.param(COPY_ON_WRITE, id="cow"), pytest.param(MERGE_ON_READ, id="mor")]
ROWS = "values (1, 'NL', 'a'), (2, 'NL', 'b'), (3, 'DE', 'c'), (4, 'DE', null)"


def create_table(lake: Lake, mode: str = COPY_ON_WRITE, **wishes: Any) -> tuple[str, int]:
    """Create a table of format 3 with four rows in one file; return its name and snapshot."""
    wishes.setdefault("version", 3)
    name = lake.create("id int, country string, name string", mode=mode, **wishes)
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from ({ROWS})")
    return name, lake.read_head(name)


def uses_lineage(lake: Lake, name: str, since: int) -> bool:
    """Return whether the batch relies on the row lineage of its rows."""
    return (
        plan_changes(lake.load_table(name), since, lake.read_head(name)).lineage_since is not None
    )


class TestBelieved:
    @pytest.mark.parametrize(
        ("mode", "written_as"),
        [
            (COPY_ON_WRITE, "parquet"),
            (MERGE_ON_READ, "parquet"),
            (COPY_ON_WRITE, "avro"),
            (MERGE_ON_READ, "orc"),
        ],
    )
    def test_only_rows_written_since_are_sent(self, lake: Lake, mode: str, written_as: str) -> None:
        as_files = f", 'write.format.default'='{written_as}'"
        name, since = create_table(lake, mode, properties=as_files)
        lake.sql(
            f"merge into lake.{name} t using (select * from values (1, 'one'), (2, 'two'), "
            "(9, 'nine') as v(k, v)) s "
            "on t.id = s.k when matched and k = 1 then delete "
            "when matched then update set name = v "
            "when not matched then insert (id, country, name) values (k, 'FR', v)"
        )

        assert compute_by_lineage(lake, name, since).ops == [
            Op("c", "9", '{"id":9,"country":"FR","name":"nine"}'),
            Op("d", "1", None),
            Op("u", "2", '{"id":2,"country":"NL","name":"two"}'),
        ]

    @pytest.mark.parametrize("mode", MODES)
    def test_compactions_keep_the_age_of_rows(self, lake: Lake, mode: str) -> None:
        name, since = create_table(lake, mode)
        lake.compact(name)
        # What a compaction wrote is read only where it was changed again.
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")
        assert compute_by_lineage(lake, name, since).short == [("u", "2")]

        lake.sql(f"delete from lake.{name} where id = 3")
        lake.compact(name)
        lake.sql(f"update lake.{name} set country = 'BE' where id = 4")
        assert compute_by_lineage(lake, name, since).short == [("d", "3"), ("u", "2"), ("u", "4")]

    def test_an_update_to_the_same_values_is_sent_where_there_are_many_rows(
        self, lake: Lake
    ) -> None:
        name, since = create_table(lake)
        lake.sql(f"update lake.{name} set name = 'b' where id = 2")

        assert compute_by_lineage(lake, name, since).short == [("u", "2")]
        assert lake.diff(name, since).ops == []

    def test_an_overwrite_makes_every_row_new(self, lake: Lake) -> None:
        name, since = create_table(lake)
        lake.sql(f"insert overwrite lake.{name} values (1, 'NL', 'a'), (2, 'NL', 'z')")

        assert compute_by_lineage(lake, name, since).ops == [
            *[Op("d", "3", None), Op("d", "4", None)],
            Op("u", "1", '{"id":1,"country":"NL","name":"a"}'),
            Op("u", "2", '{"id":2,"country":"NL","name":"z"}'),
        ]

    @pytest.mark.usefixtures("whole_stage_codegen")
    def test_very_many_new_rows_are_compared_all_the_same(self, lake: Lake) -> None:
        name = lake.create("id int", version=3)
        rows = f"select id from range({BROADCAST_IDS + 2})"
        lake.sql(f"insert into lake.{name} {rows}")
        since = lake.read_head(name)
        lake.sql(f"insert overwrite lake.{name} {rows} where id <> 5")

        assert compute_by_lineage(lake, name, since).ops == [Op("d", "5", None)]

    def test_keys_change_and_rows_leave_the_filter(self, lake: Lake) -> None:
        name, since = create_table(lake)
        lake.sql(f"update lake.{name} set id = 30 where id = 3")
        lake.sql(f"update lake.{name} set country = 'BE' where id = 2")
        lake.sql(f"update lake.{name} set country = 'NL' where id = 4")

        batch = compute_by_lineage(
            lake, name, since, row_filter="country <> 'BE'", columns=("country",)
        )

        assert batch.ops == [
            Op("c", "30", '{"country":"DE"}'),
            *[Op("d", "2", None), Op("d", "3", None)],
            Op("u", "4", '{"country":"NL"}'),
        ]

    def test_equality_deletes_and_new_rows_of_the_same_keys_are_updates(self, lake: Lake) -> None:
        name, since = create_table(lake)
        writer = JavaWriter(lake.load_table(name))
        writer.delete_equal([{"id": 2}, {"id": 3}])
        writer.append([{"id": 2, "name": "two"}, {"id": 5}])

        assert compute_by_lineage(lake, name, since).ops == [
            Op("c", "5", '{"id":5}'),
            Op("d", "3", None),
            Op("u", "2", '{"id":2,"name":"two"}'),
        ]

    def test_a_file_that_was_put_back_brings_back_its_rows(self, lake: Lake) -> None:
        name, _ = create_table(lake)
        lake.sql(f"update lake.{name} set name = 'x' where id = 1")
        past = lake.read_head(name)
        lake.sql(f"update lake.{name} set name = 'y' where id = 2")
        since = lake.read_head(name)
        put_back(lake, name, past)

        batch = compute_by_lineage(lake, name, since)
        assert Op("u", "2", '{"id":2,"country":"NL","name":"b"}') in batch.ops
        assert {op.id for op in batch.ops} <= {"1", "2"}

    def test_rows_of_before_the_upgrade_are_believed_after_the_next_commit(
        self, lake: Lake
    ) -> None:
        name, _ = create_table(lake, version=2)
        lake.sql(f"alter table lake.{name} set tblproperties('format-version'='3')")
        lake.sql(f"insert into lake.{name} values (5, 'BE', 'e')")
        since = lake.read_head(name)
        lake.sql(f"update lake.{name} set name = 'x' where id in (2, 5)")

        assert compute_by_lineage(lake, name, since).short == [("u", "2"), ("u", "5")]


class TestNotBelieved:
    def test_across_an_upgrade_rows_are_compared(self, lake: Lake) -> None:
        name, since = create_table(lake, version=2)
        lake.sql(f"alter table lake.{name} set tblproperties('format-version'='3')")
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")

        assert not uses_lineage(lake, name, since)
        assert lake.diff(name, since).short == [("u", "2")]

    def test_after_a_rollback_rows_are_compared(self, lake: Lake) -> None:
        name, first = create_table(lake)
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")
        since = lake.read_head(name)
        lake.sql(f"call lake.system.rollback_to_snapshot('{name}', {first})")
        lake.sql(f"update lake.{name} set name = 'y' where id = 3")

        assert not uses_lineage(lake, name, since)
        assert lake.diff(name, since).ops == [
            Op("u", "2", '{"id":2,"country":"NL","name":"b"}'),
            Op("u", "3", '{"id":3,"country":"DE","name":"y"}'),
        ]

    def test_rows_are_compared_where_the_way_to_them_is_no_longer_known(self, lake: Lake) -> None:
        name, since = create_table(lake)
        lake.sql(f"alter table lake.{name} create tag kept as of version {since}")
        lake.sql(f"update lake.{name} set name = 'x' where id = 2")
        between = lake.read_head(name)
        lake.sql(f"delete from lake.{name} where id = 3")
        lake.sql(f"call lake.system.expire_snapshots('{name}', snapshot_ids => array({between}L))")

        assert not uses_lineage(lake, name, since)
        assert lake.diff(name, since).short == [("d", "3"), ("u", "2")]

    def test_a_reader_that_cannot_ask_rows_compares_them(self, lake: Lake) -> None:
        name = lake.choose_name()
        described = build_schema_json({"id": "int", "at": "time"})
        create_from_json(lake.session, f"{CATALOG}.{name}", described, {"format-version": "3"})
        file = JavaWriter(lake.load_table(name)).append([{"id": 1}, {"id": 2}])
        since = lake.read_head(name)
        writer = JavaWriter(lake.load_table(name))
        writer.replace(file, [{"id": 1}, {"id": 2, "at": writer.parse_value("time", "14:30")}])
        until = lake.read_head(name)

        assert can_read_lineage(
            lake.load_table(name), until, lake.resolve_spec(name, columns=("id",))
        )
        assert not can_read_lineage(lake.load_table(name), until, lake.resolve_spec(name))
        assert lake.diff(name, since).ops == [Op("u", "2", '{"id":2,"at":"14:30:00.000000"}')]
        with pytest.raises(Bug, match="do not say when they were last written"):
            lake.diff(name, since, strategy=Strategy.LINEAGE)


def test_of_keys_with_several_rows_those_that_live_decide(lake: Lake) -> None:
    name = lake.create("id int, a string", version=3)
    pairs = ", ".join(f"({key}, 'x'), ({key}, 'y')" for key in (2, 3, 4, 5, 6))
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from (values (1, 'x'), {pairs})")
    since = lake.read_head(name)
    lake.sql(f"insert into lake.{name} values (1, 'w')")
    lake.sql(f"update lake.{name} set a = 'z' where id = 2 and a = 'x'")
    lake.sql(f"delete from lake.{name} where id = 3 and a = 'x' or id = 4 and a = 'y' or id = 5")

    batch = compute_by_lineage(lake, name, since)
    compared = lake.diff(name, since, strategy=Strategy.TWO_READS)

    # Each of these has two rows left, of which a fingerprint with a random salt picks one.
    ambiguous = {"1", "2", "6"}
    assert {op for op in compared.ops if op.id not in ambiguous} <= set(batch.ops)
    ids = [op.id for op in batch.ops]
    assert sorted(ids) == ["1", "2", "3", "4", "5", "6"]
    assert {op.id for op in compared.ops} <= set(ids)
    assert batch.counts.duplicate_keys == len(ambiguous)
