"""Filters, projections, schema changes, duplicate keys and append-only tables."""

import re

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import (
    BadSpec,
    BranchNotFound,
    ColumnNotFound,
    DataFileMissing,
    Gap,
    NotAppendOnly,
    TableNotFound,
)
from icdc_spark.diff.change_plan import plan_changes
from icdc_spark.diff.export_plan import plan_export
from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.strategies import Strategy, build_export_lines, list_changed_ids
from icdc_spark.iceberg.table import tags
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.iceberg.table.tags import Tag
from icdc_spark.readers.choose import open_reader
from icdc_testing.lake.lake import (
    COPY_ON_WRITE,
    MERGE_ON_READ,
    VERSION,
    Lake,
    Op,
    make_frame_of_ids,
    parse,
)
from icdc_testing.tables.fields import derive, parse_fields, take

pytestmark = pytest.mark.spark

MODES = [pytest.param(COPY_ON_WRITE, 2, id="cow-v2"), pytest.param(MERGE_ON_READ, 3, id="mor-v3")]


def test_a_change_outside_the_projection_writes_nothing(lake: Lake) -> None:
    name = lake.create("id int, a string, b string")
    lake.sql(f"insert into lake.{name} values (1, 'a', 'b')")
    since = lake.read_head(name)
    lake.sql(f"update lake.{name} set b = 'x'")
    assert lake.diff(name, since, columns=("id", "a")).ops == []


def test_a_column_that_no_field_key_or_filter_names_is_not_read_from_files(lake: Lake) -> None:
    columns = "id int, price int, n int, flag boolean, address struct<city:string>, notes string"
    name = lake.create(columns)
    lake.sql(f"insert into lake.{name} values (1, 2, 3, true, named_struct('city', 'a'), 'x')")
    at, table = lake.read_head(name), lake.load_table(name)
    fields = parse_fields(derive("total", "price * n"), take("city", "address.city"))
    spec = lake.resolve_spec(name, at, fields=fields, row_filter="flag")
    plan = plan_export(table, at, target_bytes=1 << 30, target_rows=10)
    (chunk,) = plan.iterate_chunks()
    with open_reader(lake.session, table, at, spec) as reader:
        lines = build_export_lines(reader, chunk, spec, version=VERSION)
        optimised = str(lines.frame._jdf.queryExecution().optimizedPlan().toString())
    (read,) = re.findall(r"RelationV2\[([^\]]*)\]", optimised)
    assert re.findall(r"(\w+)#", read) == ["id", "price", "n", "flag", "address"]


def test_an_added_nullable_column_touches_no_document(lake: Lake) -> None:
    name = lake.create("id int, s struct<a:int>")
    lake.sql(f"insert into lake.{name} values (1, named_struct('a', 1)), (2, null)")
    since, before = lake.read_head(name), lake.resolve_spec(name)
    lake.sql(f"alter table lake.{name} add columns (x string, s.b double)")
    lake.sql(f"update lake.{name} set x = 'new' where id = 2")

    verdict = lake.resolve_spec(name).compare_with_stored(before.stored)

    assert (verdict.reason, verdict.added) == (None, ("s.b", "x"))
    assert lake.diff(name, since).ops == [Op("u", "2", '{"id":2,"x":"new"}')]


def test_rows_are_read_by_the_schema_of_the_later_snapshot(lake: Lake) -> None:
    name = lake.create("id int, a string, b string")
    lake.sql(f"insert into lake.{name} values (1, 'a', 'b')")
    since = lake.read_head(name)
    lake.sql(f"insert into lake.{name} values (2, 'c', 'd')")
    until = lake.read_head(name)
    lake.sql(f"alter table lake.{name} rename column a to z")
    lake.sql(f"alter table lake.{name} drop column b")
    lake.sql(f"insert into lake.{name} values (3, 'e')")

    assert lake.diff(name, since, until=until).ops == [Op("c", "2", '{"id":2,"a":"c","b":"d"}')]
    assert lake.diff(name, until).ops == [Op("c", "3", '{"id":3,"z":"e"}')]


def test_names_that_would_confuse_sql_are_taken_word_for_word(lake: Lake) -> None:
    name = lake.create("id int, `a b``c` string, `c0` int, `fingerprint` int, `select` string")
    lake.sql(f"insert into lake.{name} values (1, 'x', 2, 3, 'y')")
    (batch,) = lake.export(name)
    assert batch.ops == [Op("c", "1", '{"id":1,"a b`c":"x","c0":2,"fingerprint":3,"select":"y"}')]


class TestDuplicates:
    @pytest.fixture
    def duplicates(self, lake: Lake) -> tuple[str, int]:
        """Create a table whose batch writes the id 2 twice; id 1 is in an unchanged file."""
        name = lake.create("id int, a string")
        lake.sql(f"insert into lake.{name} values (1, 'a'), (3, 'c')")
        since = lake.read_head(name)
        lake.sql(f"insert into lake.{name} values (1, 'b'), (2, 'x'), (2, 'y')")
        return name, since

    @pytest.mark.parametrize("strategy", [Strategy.ONE_READ, Strategy.TWO_READS])
    def test_one_operation_per_key_is_sent_and_the_key_is_counted(
        self, lake: Lake, duplicates: tuple[str, int], strategy: Strategy
    ) -> None:
        batch = lake.diff(*duplicates, strategy=strategy)

        assert batch.short == [("c", "1"), ("c", "2")]
        assert batch.counts.duplicate_keys == 1
        # Which one is sent hangs on the salt of the batch; the snapshot decides afterwards.
        assert batch.ops[0] == lake.diff(*duplicates, strategy=Strategy.ONE_READ).ops[0]
        assert batch.ops[1].doc in {'{"id":2,"a":"x"}', '{"id":2,"a":"y"}'}

    def test_the_snapshot_decides_about_given_ids(
        self, lake: Lake, duplicates: tuple[str, int], spark: SparkSession
    ) -> None:
        name, since = duplicates
        table, spec = lake.load_table(name), lake.resolve_spec(name)
        plan = plan_changes(table, since, lake.read_head(name))
        with open_reader(lake.session, table, lake.read_head(name), spec) as reader:
            assert sorted(r["id"] for r in list_changed_ids(reader, plan, spec).collect()) == [
                "1",
                "2",
            ]
            ids = make_frame_of_ids(spark, ["1", "3", "3", "9"])
            batch = parse(look_up_ids(reader, ids, spec, version=VERSION))
            again = parse(look_up_ids(reader, ids, spec, version=VERSION))

        assert batch.short == [("d", "9"), ("u", "1"), ("u", "3")]
        assert again.ops == batch.ops


class TestAppendOnly:
    def test_ids_hang_on_the_place_of_a_row_and_compaction_adds_none(self, lake: Lake) -> None:
        name = lake.create("a string")
        lake.sql(f"insert into lake.{name} values ('x')")
        (first,) = lake.export(name, append_only=True)
        since = lake.read_head(name)
        lake.sql(f"insert into lake.{name} values ('y')")
        lake.sql(
            f"call lake.system.rewrite_data_files(table => '{name}', "
            "options => map('rewrite-all', 'true', 'min-input-files', '1'))"
        )
        batch = lake.diff(name, since, append_only=True)

        assert [(op.expect, op.doc) for op in batch.ops] == [("c", '{"a":"y"}')]
        assert re.fullmatch("[0-9a-f]{64}", batch.ops[0].id)
        assert first.ops[0].id != batch.ops[0].id

    def test_any_other_change_stops_the_table_and_is_named(self, lake: Lake) -> None:
        name = lake.create("a string")
        lake.sql(f"insert into lake.{name} values ('x'), ('y')")
        since = lake.read_head(name)
        lake.sql(f"insert into lake.{name} values ('z')")
        lake.sql(f"update lake.{name} set a = 'q' where a = 'x'")
        culprit = lake.read_head(name)
        lake.sql(f"insert into lake.{name} values ('w')")

        with pytest.raises(NotAppendOnly, match=f"snapshot {culprit} has the operation overwrite"):
            lake.diff(name, since, append_only=True)


class TestTables:
    def test_what_is_not_there_is_named(self, lake: Lake) -> None:
        name = lake.create("id int")
        with pytest.raises(TableNotFound, match=r"db\.nope: the catalog has no such table"):
            lake.load_table("db.nope")
        with pytest.raises(BadSpec, match="is not a table name"):
            lake.load_table("db.")
        with pytest.raises(BranchNotFound, match="has no branch `dev`"):
            lake.load_table(name).find_current_snapshot("dev")
        with pytest.raises(ColumnNotFound, match="`nope`"):
            lake.resolve_spec(name, columns=("nope",))
        assert lake.load_table(name).find_current_snapshot() is None

    def test_an_expired_snapshot_is_a_gap(self, lake: Lake) -> None:
        name = lake.create("id int")
        lake.sql(f"insert into lake.{name} values (1)")
        since = lake.read_head(name)
        lake.sql(f"insert into lake.{name} values (2)")
        lake.sql(f"call lake.system.expire_snapshots('{name}', timestamp'2100-01-01', 1)")
        assert lake.load_table(name).find_snapshot(since) is None
        with pytest.raises(Gap, match=str(since)):
            lake.diff(name, since)

    def test_a_tag_keeps_a_snapshot_and_moves(self, lake: Lake) -> None:
        name = lake.create("id int")
        lake.sql(f"insert into lake.{name} values (1)")
        first, table = lake.read_head(name), lake.load_table(name)
        tags.change(table, put={"icdc-x": Tag(snapshot_id=first, max_age_ms=None)})
        lake.sql(f"insert into lake.{name} values (2)")
        lake.sql(f"call lake.system.expire_snapshots('{name}', timestamp'2100-01-01', 1)")
        table.refresh()
        assert table.find_snapshot(first) is not None
        assert table.is_ancestor(first, lake.read_head(name))
        moved = Tag(snapshot_id=lake.read_head(name), max_age_ms=5000)
        tags.change(table, put={"icdc-x": moved, "icdc-y": moved})
        assert tags.find(table, "icdc-x") == moved
        tags.change(table, remove=["icdc-x"])
        assert tags.list_names(table) == ["icdc-y"]
        assert tags.find(table, "icdc-x") is None

    def test_a_missing_data_file_is_named_as_such(self, lake: Lake) -> None:
        name = lake.create("id int")
        lake.sql(f"insert into lake.{name} values (1)")
        table = lake.load_table(name)
        (path,) = [row[0] for row in lake.sql(f"select file_path from lake.{name}.files")]
        table.java.io().deleteFile(path)
        with pytest.raises(DataFileMissing, match="is missing"):
            lake.export(name)

    def test_every_file_is_in_one_chunk_of_an_export(self, lake: Lake) -> None:
        name = lake.create("id int")
        for number in range(3):
            lake.sql(f"insert into lake.{name} values ({number})")
        table: IcebergTable = lake.load_table(name)
        chunks = plan_export(
            table, lake.read_head(name), target_bytes=1, target_rows=100
        ).iterate_chunks()
        assert [(chunk.number, chunk.group.files) for chunk in chunks] == [(0, 1), (1, 1), (2, 1)]
        whole = lake.export(name, target_bytes=1)
        assert sorted(op.id for batch in whole for op in batch.ops) == ["0", "1", "2"]
