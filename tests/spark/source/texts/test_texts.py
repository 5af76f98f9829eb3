"""Columns that Spark has no type for: times of day, and timestamps of nanoseconds.

They are read by another reader than everything else, so both readers must agree on all they share.
"""

import json
from typing import Any

import pytest

from icdc_api.errors import DataFileMissing, FileUnreadable, UnsupportedType
from icdc_spark.diff.strategies import Strategy
from icdc_spark.readers.arrow import ArrowReader
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.staged import StagedReader
from icdc_testing.lake.damage import find_file
from icdc_testing.lake.java.writers import JavaWriter, Row
from icdc_testing.lake.lake import CATALOG, Lake, Op
from icdc_testing.lake.schemas import build_schema_json, create_from_json
from icdc_testing.lake.typed_values import VALUES

pytestmark = pytest.mark.spark

# Iceberg type, the value in ISO, its text in documents and ids
CELLS = [
    ("time", "14:30", "14:30:00.000000"),
    ("time", "00:00", "00:00:00.000000"),
    ("time", "23:59:59.999999", "23:59:59.999999"),
    ("timestamp_ns", "2024-03-15T14:30:00", "2024-03-15T14:30:00.000000000"),
    ("timestamp_ns", "1969-12-31T23:59:59.999999999", "1969-12-31T23:59:59.999999999"),
    ("timestamp_ns", "1677-09-21T00:12:43.145224193", "1677-09-21T00:12:43.145224193"),
    ("timestamp_ns", "2262-04-11T23:47:16.854775807", "2262-04-11T23:47:16.854775807"),
    ("timestamptz_ns", "2024-03-15T14:30:00.5+02:00", "2024-03-15T12:30:00.500000000Z"),
    ("timestamptz_ns", "1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z"),
]
KINDS = ["time", "timestamp_ns", "timestamptz_ns"]


def create(lake: Lake, columns: dict[str, Any], *, version: int = 3) -> str:
    """Create a table with an `id` and columns of these Iceberg types; return its name."""
    name = lake.choose_name()
    described = build_schema_json({"id": "int", **columns})
    properties = {"format-version": str(version)}
    create_from_json(lake.session, f"{CATALOG}.{name}", described, properties)
    return name


def make_writer(lake: Lake, name: str) -> JavaWriter:
    return JavaWriter(lake.load_table(name))


def test_every_value_has_its_text_by_export_and_by_changelog(lake: Lake) -> None:
    name = create(lake, {f"c{at}": kind for at, (kind, _, _) in enumerate(CELLS)})
    java = make_writer(lake, name)
    some = {f"c{at}": java.parse_value(kind, iso) for at, (kind, iso, _) in enumerate(CELLS)}
    file = java.append([{"id": 1}, {"id": 2}])
    since = lake.read_head(name)
    make_writer(lake, name).replace(file, [{"id": 1, **some}, {"id": 2}])

    (exported,) = lake.export(name)

    fields = "".join(f',"c{at}":"{text}"' for at, (_, _, text) in enumerate(CELLS))
    assert [op.doc for op in exported.ops] == [f'{{"id":1{fields}}}', '{"id":2}']
    for strategy in (Strategy.ONE_READ, Strategy.TWO_READS):
        changed = lake.diff(name, since, strategy=strategy)
        assert changed.ops == [Op("u", "1", exported.ops[0].doc)]
    assert [op.doc for op in lake.diff(name, None).ops] == [op.doc for op in exported.ops]


@pytest.mark.parametrize(("kind", "iso", "text"), CELLS[::2])
def test_a_value_is_found_at_every_depth(lake: Lake, kind: str, iso: str, text: str) -> None:
    field = {"id": 20, "name": "at", "type": kind, "required": False}
    structs = {"type": "struct", "fields": [field]}
    name = create(
        lake,
        {
            "s": structs,
            "l": {"type": "list", "element-id": 30, "element": kind, "element-required": False},
            "m": {
                "type": "map",
                "key-id": 40,
                "key": kind,
                "value-id": 41,
                "value": kind,
                "value-required": False,
            },
        },
    )
    java = make_writer(lake, name)
    value = java.parse_value(kind, iso)
    filled = java.make_struct("s", {"at": value})
    java.append(
        [
            {"id": 1, "s": filled, "l": [value, None], "m": {value: None}},
            {"id": 2, "s": java.make_struct("s", {}), "l": [], "m": {}},
            {"id": 3},
            {"id": 4, "s": filled, "l": None, "m": {value: value}},
        ]
    )

    (exported,) = lake.export(name)

    assert [json.loads(op.doc or "") for op in exported.ops] == [
        {"id": 1, "s": {"at": text}, "l": [text, None], "m": {text: None}},
        {"id": 2, "s": {}, "l": [], "m": {}},
        {"id": 3},
        {"id": 4, "s": {"at": text}, "m": {text: text}},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_may_be_made_of_them(lake: Lake, kind: str) -> None:
    name = create(lake, {"k": kind})
    java = make_writer(lake, name)
    iso, text = next((iso, text) for name, iso, text in CELLS if name == kind)
    java.append([{"id": 1, "k": java.parse_value(kind, iso)}, {"id": 2}])

    (exported,) = lake.export(name, identifier_columns=("k", "id"))

    assert exported.short == [("c", f"{text}|1"), ("c", r"\N|2")]


def test_both_readers_make_the_same_bytes_of_what_both_can_read(lake: Lake) -> None:
    values = [value for value in VALUES if "variant" not in value[0]]
    columns = ", ".join(f"`c{at}` {kind}" for at, (kind, _, _) in enumerate(values))
    name = lake.create(f"id int, {columns}, n int, f float, old string, gone string", version=3)
    some = ", ".join(f"{sql} c{at}" for at, (_, sql, _) in enumerate(values))
    none = ", ".join(f"cast(null as {kind}) c{at}" for at, (kind, _, _) in enumerate(values))
    rest = "7 n, float('1.5') f, 'kept' old, 'x' gone"
    lake.sql(f"insert into lake.{name} select 1 id, {some}, {rest} union all select 2, {none}, "
             "null, null, null, null")  # fmt: skip
    lake.sql(f"alter table lake.{name} alter column n type bigint")
    lake.sql(f"alter table lake.{name} alter column f type double")
    lake.sql(f"alter table lake.{name} rename column old to fresh")
    lake.sql(f"alter table lake.{name} drop column gone")
    lake.sql(f"alter table lake.{name} add column gone int first")
    lake.sql(f"insert into lake.{name} (id, gone) values (3, 5)")
    # A new snapshot with the new schema, which Spark can still load.
    (staged,) = lake.export(name)
    staged_paths = lake.export(name, append_only=True)
    change = lake.load_table(name).java.updateSchema()
    iceberg = lake.load_table(name).bridge.jvm.org.apache.iceberg
    change.addColumn("t", iceberg.types.Types.TimeType.get()).commit()
    make_writer(lake, name).append([{"id": 4}])

    (arrow,) = lake.export(name)

    assert [op for op in arrow.ops if op.id != "4"] == staged.ops
    assert arrow.counts.non_finite == staged.counts.non_finite
    both = {op for batch in staged_paths for op in batch.ops}
    assert both < {op for batch in lake.export(name, append_only=True) for op in batch.ops}


def test_rows_of_before_show_the_default_of_a_column_added_later(lake: Lake) -> None:
    name = create(lake, {"t": "time"})
    make_writer(lake, name).append([{"id": 1}])
    table = lake.load_table(name)
    literals, types = (
        table.bridge.jvm.org.apache.iceberg.expressions.Literal,
        table.bridge.jvm.org.apache.iceberg.types.Types,
    )
    change = table.java.updateSchema()
    change = change.addColumn("n", types.IntegerType.get(), None, literals.of(5))
    at = literals.of("10:00:00.000001").to(types.TimeType.get())
    change.addColumn("at", types.TimeType.get(), None, at).commit()
    make_writer(lake, name).append([{"id": 2}])

    (exported,) = lake.export(name)

    assert [op.doc for op in exported.ops] == [
        '{"id":1,"n":5,"at":"10:00:00.000001"}',
        '{"id":2}',
    ]
    (staged,) = lake.export(name, columns=("id", "n"))
    assert [op.doc for op in staged.ops] == ['{"id":1,"n":5}', '{"id":2}']


def test_a_filter_may_speak_of_them_by_their_text(lake: Lake) -> None:
    name = create(lake, {"t": "time", "a": "string"})
    java = make_writer(lake, name)
    java.append([{"id": n, "t": java.parse_value("time", f"{n:02d}:30")} for n in range(4)])

    (exported,) = lake.export(name, columns=("id", "a"), row_filter="T >= '02:00' and id < 3")

    assert exported.ops == [Op("c", "2", '{"id":2}')]


def test_the_slower_reader_is_taken_only_where_it_is_needed(lake: Lake) -> None:
    name = create(lake, {"t": "time", "a": "string"})
    make_writer(lake, name).append([{"id": 1}])
    table, at = lake.load_table(name), lake.read_head(name)

    def choose_reader(**wishes: Any) -> type:
        with open_reader(lake.session, table, at, lake.resolve_spec(name, **wishes)) as reader:
            return type(reader)

    assert choose_reader() is ArrowReader
    assert choose_reader(columns=("id", "a")) is StagedReader
    assert choose_reader(columns=("a",), identifier_columns=("id", "t")) is ArrowReader
    assert choose_reader(columns=("id",), row_filter="t is null") is ArrowReader
    assert choose_reader(columns=("id",), row_filter="a is null") is StagedReader


def test_a_variant_beside_them_is_refused_and_may_be_left_out(lake: Lake) -> None:
    name = create(lake, {"t": "time", "v": "variant"})
    make_writer(lake, name).append([{"id": 1}])

    with pytest.raises(UnsupportedType) as caught:
        lake.export(name)

    assert str(caught.value) == (
        f"{name}: column `v` has the type variant, column `t` has the type time, and no reader can "
        "read both; leave one of them out by naming the other columns in `columns`"
    )
    for column in ("t", "v"):
        (exported,) = lake.export(name, columns=("id", column))
        assert exported.short == [("c", "1")]


NESTED = {
    "struct": {
        "type": "struct",
        "fields": [{"id": 50, "name": "x", "type": "int", "required": False}],
    },
    "list": {"type": "list", "element-id": 50, "element": "int", "element-required": False},
}


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("retained", [True, False], ids=["left-out", "dropped"])
def test_a_time_that_is_left_out_or_was_dropped_does_not_hinder_nested_columns(
    lake: Lake, nested: str, retained: bool
) -> None:
    name = create(lake, {"t": "time", "s": NESTED[nested]})
    make_writer(lake, name).append([{"id": 1}])
    if not retained:
        lake.load_table(name).java.updateSchema().deleteColumn("t").commit()
        make_writer(lake, name).append([{"id": 2}])
    since = lake.read_head(name)
    make_writer(lake, name).append([{"id": 3}])
    (exported,) = lake.export(name, columns=("id", "s"))
    assert exported.short == [("c", key) for key in ("1", "2", "3") if key != "2" or not retained]
    assert lake.diff(name, since, columns=("id", "s")).short == [("c", "3")]


def test_a_nested_variant_in_files_with_a_time_is_refused(lake: Lake) -> None:
    listed = {"type": "list", "element-id": 50, "element": "variant", "element-required": False}
    name = create(lake, {"t": "time", "v": listed})
    make_writer(lake, name).append([{"id": 1}])

    with pytest.raises(UnsupportedType) as caught:
        lake.export(name, columns=("id", "v"))

    assert f"{name}: column `v` has the type list" in str(caught.value)
    assert "files of the table contain a time, and no reader can read both; leave it out" in str(
        caught.value
    )


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_files_of_other_formats_are_refused_by_name(lake: Lake, file_format: str) -> None:
    name = create(lake, {"t": "time"})
    file = make_writer(lake, name).append([{"id": 1}], file_format=file_format)

    with pytest.raises(UnsupportedType) as caught:
        lake.export(name)

    assert str(caught.value) == (
        f"{name}: {file.location()} has the format {file_format}; together with columns such as "
        "`t` only parquet can be read: rewrite the data files, or leave these columns out by "
        "naming the other columns in `columns`"
    )


@pytest.mark.parametrize(("left", "error"), [(None, DataFileMissing), (9, FileUnreadable)])
def test_a_broken_data_file_is_named(lake: Lake, left: int | None, error: type[Exception]) -> None:
    name = create(lake, {"t": "time"})
    file = make_writer(lake, name).append([{"id": 1}])
    path = find_file(file.location())
    content = path.read_bytes()
    path.unlink()
    if left is not None:
        path.write_bytes(content[:left])

    with pytest.raises(error, match=file.location()):
        lake.export(name)


def test_a_file_is_read_in_small_parts_whatever_its_size(lake: Lake) -> None:
    name = create(lake, {"t": "time", "pad": "string"})
    rows: list[Row] = [{"id": n, "pad": f"{n:06d}" * 500} for n in range(5_000)]
    file = make_writer(lake, name).append(rows)
    make_writer(lake, name).delete_positions(file, [0, 2_499, 2_500, 4_999])

    (exported,) = lake.export(name, columns=("id", "t"))

    assert {int(op.id) for op in exported.ops} == set(range(5_000)) - {0, 2_499, 2_500, 4_999}
