"""Deletes of tables with columns that Spark has no type for: the second reader applies them."""

from typing import Any

import pytest

from icdc_api.errors import UnsupportedType
from icdc_spark.diff.strategies import Strategy
from icdc_testing.lake.java.writers import JavaWriter, Row
from icdc_testing.lake.lake import Lake, Op
from icdc_testing.lake.schemas import create_with_time

pytestmark = pytest.mark.spark

INTS = {"type": "struct", "fields": [{"id": 20, "name": "n", "type": "int", "required": False}]}


def make_writer(lake: Lake, name: str) -> JavaWriter:
    return JavaWriter(lake.load_table(name))


def list_ids(lake: Lake, name: str) -> list[str]:
    """Return the ids in the table, which must be the same by Spark's own reader."""
    (by_arrow,) = lake.export(name)
    (by_spark,) = lake.export(name, columns=("id",))
    assert by_arrow.short == by_spark.short
    return [op.id for op in by_arrow.ops]


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_are_left_out_and_deleted_in_the_index(lake: Lake, version: int) -> None:
    name = create_with_time(lake, {}, version=version)
    java = make_writer(lake, name)
    at = java.parse_value("time", "10:00")
    first = java.append([{"id": n, "t": at} for n in range(6)])
    other = java.append([{"id": n, "t": at} for n in range(6, 9)])
    start = lake.read_head(name)
    make_writer(lake, name).delete_positions(first, [0, 2, 5])
    middle = lake.read_head(name)
    make_writer(lake, name).delete_positions(other, [1])

    (exported,) = lake.export(name)

    assert [op.id for op in exported.ops] == ["1", "3", "4", "6", "8"]
    deleted = lake.diff(name, start, until=middle)
    assert deleted.ops == [Op("d", key, None) for key in ("0", "2", "5")]
    assert lake.diff(name, middle).short == [("d", "7")]
    # Back again: what was deleted is written anew.
    undeleted = lake.diff(name, lake.read_head(name), until=start)
    assert [op.id for op in undeleted.ops] == ["0", "2", "5", "7"]


@pytest.mark.parametrize(
    ("columns", "rows", "keys", "retained"),
    [
        pytest.param({}, [{}, {}, {}], [{"id": 1}, {"id": 9}], ["0", "2"], id="the key"),
        pytest.param(
            {"a": "string", "b": "int"},
            [{"a": "x", "b": 1}, {"a": "x", "b": 2}, {"a": "y", "b": 1}, {"a": "x"}, {"b": 1}, {}],
            [{"a": "x", "b": 1}, {"a": "y", "b": 2}, {"a": "x", "b": None}, {"a": None, "b": None}],
            ["1", "2", "4"],
            id="two columns, nulls among them",
        ),
        pytest.param(
            {"f": "double"},
            [{"f": float("nan")}, {"f": 0.0}, {"f": -0.0}, {}],
            [{"f": float("nan")}, {"f": -0.0}],
            ["1", "3"],
            id="not a number, and minus zero",
        ),
        pytest.param(
            {"b": "binary"},
            [{"b": b""}, {"b": b"\0"}, {}],
            [{"b": b""}],
            ["1", "2"],
            id="bytes",
        ),
    ],
)
def test_rows_are_deleted_by_their_values(
    lake: Lake, columns: dict[str, Any], rows: list[Row], keys: list[Row], retained: list[str]
) -> None:
    name = create_with_time(lake, columns)
    java = make_writer(lake, name)
    java.append([{"id": n, **row} for n, row in enumerate(rows)])
    since = lake.read_head(name)
    make_writer(lake, name).delete_equal(keys)

    assert list_ids(lake, name) == retained

    missing = [str(n) for n in range(len(rows)) if str(n) not in retained]
    for strategy in (Strategy.ONE_READ, Strategy.TWO_READS, Strategy.STREAM):
        deleted = lake.diff(name, since, strategy=strategy)
        assert deleted.ops == [Op("d", key, None) for key in missing], strategy


def test_rows_are_deleted_by_a_column_that_only_this_reader_reads(lake: Lake) -> None:
    name = create_with_time(lake, {})
    java = make_writer(lake, name)
    ten, eleven = java.parse_value("time", "10:00"), java.parse_value("time", "11:00")
    java.append([{"id": 1, "t": ten}, {"id": 2, "t": eleven}, {"id": 3}])
    make_writer(lake, name).delete_equal([{"t": eleven}])

    (exported,) = lake.export(name)

    assert exported.short == [("c", "1"), ("c", "3")]


def test_rows_are_deleted_by_a_field_of_a_struct(lake: Lake) -> None:
    name = create_with_time(lake, {"s": INTS})
    java = make_writer(lake, name)
    java.append([{"id": n, "s": java.make_struct("s", {"n": n})} for n in range(3)] + [{"id": 3}])
    make_writer(lake, name).delete_equal([{"s": {"n": 1}}])

    (exported,) = lake.export(name)

    assert [op.id for op in exported.ops] == ["0", "2", "3"]
    # Spark's own reader shows row 1 here, and not row 3.
    with pytest.raises(UnsupportedType) as caught:
        lake.export(name, columns=("id",))
    assert str(caught.value) == (
        f"{name}: rows are deleted by values of `s.n`, a field in a struct, and Spark's reader of "
        "Iceberg tables applies such deletes wrongly: let the writer delete by a top-level column, "
        "and write the affected data files again from their source"
    )


def test_a_column_may_have_been_widened_since_the_delete(lake: Lake) -> None:
    name = create_with_time(lake, {"n": "int"})
    make_writer(lake, name).append([{"id": n, "n": n} for n in range(3)])
    make_writer(lake, name).delete_equal([{"n": 1}])
    table = lake.load_table(name)
    long = table.bridge.get_statics("org.apache.iceberg.types.Types$LongType").get()
    table.java.updateSchema().updateColumn("n", long).commit()
    make_writer(lake, name).append([{"id": 5, "n": 3 << 40}, {"id": 6, "n": 1 << 40}])
    make_writer(lake, name).delete_equal([{"n": 1 << 40}])

    assert list_ids(lake, name) == ["0", "2", "5"]


def test_a_column_that_a_file_lacks_is_null_there(lake: Lake) -> None:
    name = create_with_time(lake, {})
    make_writer(lake, name).append([{"id": 1}, {"id": 2}])
    table = lake.load_table(name)
    text = table.bridge.get_statics("org.apache.iceberg.types.Types$StringType").get()
    table.java.updateSchema().addColumn("late", text).commit()
    make_writer(lake, name).append([{"id": 3, "late": "x"}, {"id": 4}])
    make_writer(lake, name).delete_equal([{"late": None, "id": 1}, {"late": None, "id": 3}])
    make_writer(lake, name).delete_equal([{"late": "x"}])

    assert list_ids(lake, name) == ["2", "4"]


def test_a_deleted_key_may_be_written_again_also_in_that_commit(lake: Lake) -> None:
    name = create_with_time(lake, {"a": "string"})
    make_writer(lake, name).append([{"id": n, "a": "old"} for n in range(4)])
    since = lake.read_head(name)
    make_writer(lake, name).upsert(
        [{"id": 1, "a": "new"}, {"id": 7, "a": "first"}, {"id": 7, "a": "last"}], "id"
    )

    changed = lake.diff(name, since)

    assert changed.ops == [Op("c", "7", '{"id":7,"a":"last"}'), Op("u", "1", '{"id":1,"a":"new"}')]
    assert list_ids(lake, name) == ["0", "1", "2", "3", "7"]


def test_deletes_by_a_column_that_was_dropped_are_refused_by_name(lake: Lake) -> None:
    name = create_with_time(lake, {"a": "string"})
    make_writer(lake, name).append([{"id": 1, "a": "x"}])
    make_writer(lake, name).delete_equal([{"a": "x"}])
    lake.load_table(name).java.updateSchema().deleteColumn("a").commit()
    make_writer(lake, name).append([{"id": 2}])

    with pytest.raises(UnsupportedType) as caught:
        lake.export(name)

    assert str(caught.value).endswith(
        "deletes rows by values of a column that is no longer in the table (field id 3); it cannot "
        "be read together with columns such as `t`: compact the table, or leave these columns out "
        "by naming the other columns in `columns`"
    )


def test_delete_files_of_other_formats_are_refused_by_name(lake: Lake) -> None:
    name = create_with_time(lake, {})
    make_writer(lake, name).append([{"id": 1}])
    make_writer(lake, name).delete_equal([{"id": 1}], file_format="avro")

    with pytest.raises(UnsupportedType, match="avro has the format avro; together with columns"):
        lake.export(name)
