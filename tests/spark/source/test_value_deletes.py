"""Rows removed by equality deletes, found by one read of their values or without a read."""

from typing import Any

import pytest

from icdc_spark.diff.change_plan import plan_changes
from icdc_spark.iceberg.changes import key_deletes
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.lake import MERGE_ON_READ, Lake, Op
from icdc_testing.lake.schemas import build_schema_json, create_from_json

pytestmark = pytest.mark.spark

# type, what makes Java values of the texts (none: they are values), the deleted one, another
TYPES: list[tuple[str, tuple[str, str] | None, Any, Any]] = [
    ("boolean", None, False, True),
    ("int", None, 0, -1),
    ("long", None, 1 << 62, -(1 << 62)),
    ("decimal(9, 2)", ("java.math.BigDecimal", "new"), "-1.50", "0.00"),
    ("date", ("java.time.LocalDate", "parse"), "0001-01-01", "9999-12-31"),
    (
        "timestamp",
        ("java.time.LocalDateTime", "parse"),
        "1969-12-31T23:59:59.999999",
        "1969-12-31T23:59:59.999998",
    ),
    (
        "timestamptz",
        ("java.time.OffsetDateTime", "parse"),
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59.999998Z",
    ),
    ("string", None, "", "\u00e4\U0001f600"),
    (
        "uuid",
        ("java.util.UUID", "fromString"),
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        "00000000-0000-0000-0000-000000000001",
    ),
    ("fixed[2]", None, bytearray(b"\0\xff"), bytearray(b"\0\xfe")),
    ("binary", None, b"", b"\0"),
]


def test_values_of_all_types_are_found_as_iceberg_finds_them(lake: Lake) -> None:
    columns = {f"v{at}": kind for at, (kind, *_) in enumerate(TYPES)}
    name, bridge = create_typed_table(lake, {"type": "int", **columns}), Bridge(lake.session)
    rows: list[dict[str, Any]] = []
    keys: list[list[dict[str, Any]]] = []
    for at, (_, maker, deleted, other) in enumerate(TYPES):
        values = [_convert_to_java(bridge, maker, text) for text in (deleted, other)]
        rows += [{"type": at, f"v{at}": value} for value in (*values, None, None)]
        keys.append([{"type": at, f"v{at}": values[0]}, {"type": -1, f"v{at}": None}])
    keys[0].append({"type": 0, "v0": None})
    JavaWriter(lake.load_table(name)).append([{"id": at, **row} for at, row in enumerate(rows)])
    # A row that is deleted before, and then by its value once more.
    JavaWriter(lake.load_table(name)).delete_equal([{"id": 4}])
    since = lake.read_head(name)
    for values in keys:
        JavaWriter(lake.load_table(name)).delete_equal(values)

    missing = list_deleted(lake, name, since)
    assert missing == [0, 2, 3, *range(8, 4 * len(TYPES), 4)]
    planned = plan_changes(lake.load_table(name), since, lake.read_head(name))
    assert [read.data.files for read in planned.value_deletes] == [1] * len(TYPES)
    assert sorted(int(op.id) for op in lake.diff(name, since).ops) == missing


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_delete_files_of_any_format_are_looked_up(lake: Lake, file_format: str) -> None:
    name = create_typed_table(lake, {"v": "string"})
    JavaWriter(lake.load_table(name)).append([{"id": at, "v": f"v{at}"} for at in range(3)])
    since = lake.read_head(name)
    keys = [{"v": "v1"}, {"v": "v5"}]
    JavaWriter(lake.load_table(name)).delete_equal(keys, file_format=file_format)

    assert len(plan_changes(lake.load_table(name), since, lake.read_head(name)).value_deletes) == 1
    assert lake.diff(name, since).short == [("d", "1")]


UPSERTED = [{"id": 1, "v": "new"}, {"id": 7, "v": "first"}]


@pytest.mark.parametrize("also", ["int", "time"])
def test_of_many_rows_none_is_read_where_the_deletes_name_the_ids(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, also: str
) -> None:
    """Nor by the reader of tables that Spark cannot load."""
    monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", 2)
    name = create_typed_table(lake, {"v": "string", "t": also})
    old = JavaWriter(lake.load_table(name)).append([{"id": at, "v": "old"} for at in range(3)])
    since = lake.read_head(name)
    JavaWriter(lake.load_table(name)).upsert(UPSERTED, "id")
    JavaWriter(lake.load_table(name)).delete_equal([{"id": 2}, {"id": 8}])
    lake.load_table(name).java.io().deleteFile(old.location())

    for strategy, batch in lake.compute_ways(name, since).items():
        assert batch.ops == [
            # Whether 7 and 8 were there nobody knows who does not read the older file.
            Op("d", "2", None),
            Op("d", "8", None),
            Op("u", "1", '{"id":1,"v":"new"}'),
            Op("u", "7", '{"id":7,"v":"first"}'),
        ], strategy


def test_a_file_that_was_put_in_again_keeps_the_keys_that_were_deleted_before(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", 0)
    name = create_typed_table(lake, {"v": "string"})
    again = JavaWriter(lake.load_table(name)).append([{"id": at, "v": "old"} for at in range(3)])
    JavaWriter(lake.load_table(name)).append([{"id": 5, "v": "old"}])
    since = lake.read_head(name)
    JavaWriter(lake.load_table(name)).delete_equal([{"id": 1}, {"id": 5}])
    lake.load_table(name).java.newDelete().deleteFile(again).commit()
    lake.load_table(name).java.newFastAppend().appendFile(again).commit()

    assert list_deleted(lake, name, since) == [5]
    for strategy, batch in lake.compute_ways(name, since).items():
        assert [op for op in batch.ops if op.expect == "d"] == [Op("d", "5", None)], strategy


@pytest.mark.parametrize(
    ("wishes", "keys", "rows"),
    [
        pytest.param({"row_filter": "v = 'old'"}, [{"id": 2}, {"id": 8}], 2, id="a filter"),
        pytest.param({}, [{"id": 2, "v": "old"}, {"id": 8, "v": "old"}], 2, id="other columns"),
        pytest.param({"identifier_columns": ("id", "v")}, [{"id": 2}], 2, id="another key"),
        pytest.param({}, [{"id": 2}, {"id": 8}], 3, id="few rows"),
    ],
)
def test_rows_are_read_where_deletes_do_not_say_all(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    wishes: dict[str, Any],
    keys: list[dict[str, Any]],
    rows: int,
) -> None:
    monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", rows)
    name = create_typed_table(lake, {"v": "string"})
    JavaWriter(lake.load_table(name)).append([{"id": at, "v": "old"} for at in range(3)])
    since = lake.read_head(name)
    JavaWriter(lake.load_table(name)).delete_equal(keys)

    missing = "2|old" if "identifier_columns" in wishes else "2"
    assert lake.diff(name, since, **wishes).ops == [Op("d", missing, None)]


@pytest.mark.parametrize("version", [2, 3])
def test_where_a_filter_decides_no_positions_are_taken_for_keys(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", 2)
    name = lake.create("id int, v string", mode=MERGE_ON_READ, version=version)
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ id, 'old' from range(3)")
    since = lake.read_head(name)
    lake.sql(f"delete from lake.{name} where id = 2")
    lake.sql(f"update lake.{name} set v = 'new' where id = 1")

    for strategy, batch in lake.compute_ways(name, since, row_filter="v = 'old'").items():
        assert batch.ops == [Op("d", "1", None), Op("d", "2", None)], strategy


def test_numbers_of_which_two_are_zero_are_left_to_iceberg(lake: Lake) -> None:
    name, bridge = create_typed_table(lake, {"v": "double"}), Bridge(lake.session)
    of = ("java.lang.Double", "valueOf")
    values = [_convert_to_java(bridge, of, text) for text in ("0.0", "-0.0", "NaN")]
    JavaWriter(lake.load_table(name)).append(
        [{"id": at, "v": value} for at, value in enumerate(values)]
    )
    since = lake.read_head(name)
    JavaWriter(lake.load_table(name)).delete_equal([{"v": values[1]}, {"v": values[2]}])

    assert list_deleted(lake, name, since) == [1, 2]
    assert not plan_changes(lake.load_table(name), since, lake.read_head(name)).value_deletes
    for strategy, batch in lake.compute_ways(name, since).items():
        assert [op.id for op in batch.ops] == ["1", "2"], strategy


def create_typed_table(lake: Lake, columns: dict[str, str]) -> str:
    """Create a table of format 2 with an `id` and these Iceberg types; return its name."""
    name = lake.choose_name()
    described = build_schema_json({"id": "int", **columns})
    create_from_json(lake.session, f"lake.{name}", described, {"format-version": "2"})
    return name


def list_deleted(lake: Lake, name: str, since: int) -> list[int]:
    """Return the ids that Spark's own reader finds in a snapshot, but no longer in the table."""
    before = {row["id"] for row in lake.sql(f"select id from lake.{name} version as of {since}")}
    return sorted(before - {row["id"] for row in lake.sql(f"select id from lake.{name}")})


def _convert_to_java(bridge: Bridge, maker: tuple[str, str] | None, text: Any) -> Any:
    """Convert a value to its Java object."""
    if maker is None:
        return text
    owner, method = maker
    if method == "new":
        return bridge.create_object(owner, text)
    return getattr(bridge.get_statics(owner), method)(text)
