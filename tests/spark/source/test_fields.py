"""Documents of `fields`: what becomes of expressions, of their failures, and of rows they need not.

Documents are worked out by hand here; random ones in `histories`.
"""

import json
import re
from typing import Any

import pytest

from icdc_api.errors import FieldInvalid
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, REFUSED, Lake, Op
from icdc_testing.tables.fields import derive, parse_fields, take

pytestmark = pytest.mark.spark

COLUMNS = (
    "id int, name string, price decimal(9,2), n int, day date, "
    "address struct<zip:string,no:int>, tags array<string>"
)
ROWS = (
    "(1, 'a', 6.00, 2, date '2024-03-15', named_struct('zip', '1011', 'no', 7), array('p','q')), "
    "(2, null, 6.00, 0, null, null, null), (3, 'c', null, null, null, null, array())"
)


def list_documents(lake: Lake, name: str, **wishes: Any) -> dict[str, Any]:
    """Return the documents of an export by id; for a refused row, its field."""
    (batch,) = lake.export(name, **wishes)
    return {op.id: op if op.expect in REFUSED else json.loads(op.doc or "null") for op in batch.ops}


@pytest.fixture
def table(lake: Lake) -> str:
    name = lake.create(COLUMNS)
    lake.sql(f"insert into lake.{name} values {ROWS}")
    return name


def test_fields_are_named_nested_worked_out_and_left_out(lake: Lake, table: str) -> None:
    wanted = parse_fields(
        "*",
        take("customer.name", "name"),
        derive("customer.initial", "upper(left(name, 1))"),
        take("zip", "address.zip"),
        derive("total", "price * n"),
        derive("parts", "transform(tags, t -> named_struct('tag', t, 'size', length(t)))"),
        {"exclude": "day"},
        {"exclude": "price"},
    )
    assert list_documents(lake, table, fields=wanted) == {
        "1": {
            "id": 1,
            "n": 2,
            "address": {"zip": "1011", "no": 7},
            "tags": ["p", "q"],
            "customer": {"name": "a", "initial": "A"},
            "zip": "1011",
            "total": "12.00",
            "parts": [{"tag": "p", "size": 1}, {"tag": "q", "size": 1}],
        },
        "2": {"id": 2, "n": 0, "total": "0.00"},
        "3": {"id": 3, "tags": [], "customer": {"name": "c", "initial": "C"}, "parts": []},
    }


@pytest.mark.usefixtures("whole_stage_codegen")
def test_a_row_on_which_an_expression_fails_is_refused_and_others_are_not(
    lake: Lake, table: str
) -> None:
    # The same part twice: it must not be evaluated once for both, where nothing catches it.
    wanted = parse_fields(
        take("id", "id"),
        derive("ratio", "cast(price / n as int)"),
        derive("more.next", "cast(price / n as int) + 1"),
        derive("near", "(price / n) between 1 and nullif(price / n, 9)"),
    )
    (batch,) = lake.export(table, fields=wanted)
    assert batch.ops == [
        Op("c", "1", '{"id":1,"ratio":3,"more":{"next":4},"near":true}'),
        Op("c", "3", '{"id":3}'),
        Op("n", "2", '{"id":2,"price":"6.00","n":0}', failed="ratio"),
    ]
    assert batch.counts.lines == 3


def test_a_row_is_refused_also_where_columns_were_widened_since(lake: Lake, table: str) -> None:
    lake.sql(f"alter table lake.{table} alter column n type bigint")
    lake.sql(f"alter table lake.{table} alter column address.no type bigint")
    wanted = parse_fields("*", derive("near", "(price / n) between 1 and address.no"))
    (batch,) = lake.export(table, fields=wanted)
    assert [(op.id, op.failed) for op in batch.ops] == [("1", None), ("3", None), ("2", "near")]


# Spark evaluates an operand once, before all else, where an expression needs it twice.
TWICE = derive("near", "(price / nullif(n, 7)) between 1 and 2")
TWICE_INSIDE = derive("tags", "transform(tags, t -> nullif(trim(t), ''))")
NEVER_FAILS = derive("more", "n + 1")


@pytest.mark.usefixtures("whole_stage_codegen")
@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ((TWICE, NEVER_FAILS), "near"),
        ((NEVER_FAILS, TWICE), "near"),
        ((TWICE_INSIDE, TWICE, NEVER_FAILS), "near"),
        ((TWICE_INSIDE, NEVER_FAILS, derive("total", "price / n")), "total"),
        ((NEVER_FAILS, derive("total", "price / n"), TWICE), "total"),
        ((TWICE,), "near"),
    ],
)
def test_the_first_field_that_fails_is_named(
    lake: Lake, table: str, fields: tuple[dict[str, Any], ...], failed: str
) -> None:
    (batch,) = lake.export(table, fields=parse_fields(*fields))
    assert {op.id: op.failed for op in batch.ops} == {"1": None, "2": failed, "3": None}


@pytest.mark.parametrize("mode", [COPY_ON_WRITE, MERGE_ON_READ])
def test_rows_are_compared_by_what_fields_read_and_deletes_are_not_worked_out(
    lake: Lake, mode: str
) -> None:
    name = lake.create("id int, price int, n int, notes string", mode=mode)
    lake.sql(
        f"insert into lake.{name} values (1, 6, 2, ''), (2, 6, 3, ''), (3, 6, 0, ''), (4, 1, 1, '')"
    )
    since = lake.read_head(name)
    lake.sql(f"update lake.{name} set notes = 'x' where id = 1")
    lake.sql(f"update lake.{name} set n = 6 where id = 2")
    lake.sql(f"delete from lake.{name} where id >= 3")
    # It fails on a row without values, as the other side of a join has them for deletes.
    wanted = parse_fields(
        derive("ratio", "price / n"), derive("sure", "assert_true(n is not null) is null")
    )
    for strategy, batch in lake.compute_ways(name, since, fields=wanted).items():
        ops = [op for op in batch.ops if op.id != "1"]
        assert ops == [
            Op("d", "3", None),
            Op("d", "4", None),
            Op("u", "2", '{"ratio":1.0,"sure":true}'),
        ], strategy
        if mode == COPY_ON_WRITE:
            assert ops == batch.ops, "nothing that a field reads has changed in row 1"


@pytest.mark.parametrize("mode", [COPY_ON_WRITE, MERGE_ON_READ])
def test_an_expression_may_tell_numbers_apart_that_are_null_in_documents(
    lake: Lake, mode: str
) -> None:
    name = lake.create("id int, n double, l array<float>", mode=mode)
    lake.sql(f"insert into lake.{name} values (1, null, null), (2, double('-inf'), array(null))")
    since = lake.read_head(name)
    lake.sql(f"update lake.{name} set n = double('nan') where id = 1")
    lake.sql(f"update lake.{name} set n = double('inf'), l = array(float('nan')) where id = 2")
    wanted = parse_fields("*", derive("large", "n > 5"), derive("odd", "exists(l, x -> isnan(x))"))
    for strategy, batch in lake.compute_ways(name, since, fields=wanted).items():
        assert batch.ops == [
            Op("u", "1", '{"id":1,"large":true}'),
            Op("u", "2", '{"id":2,"l":[null],"large":true,"odd":true}'),
        ], strategy


@pytest.mark.usefixtures("whole_stage_codegen")
def test_an_expression_is_evaluated_for_written_rows_alone(lake: Lake) -> None:
    name = lake.create("id int, n int")
    lake.sql(f"insert into lake.{name} select id, id from range(0, 1000, 1, 1)")
    since = lake.read_head(name)
    lake.sql(f"update lake.{name} set n = -1 where id < 3")
    # Were it evaluated for the other rows, it would fail on each of them.
    wanted = parse_fields(derive("n", "if(n >= 0, raise_error('evaluated'), n)"))
    for strategy, batch in lake.compute_ways(name, since, fields=wanted).items():
        assert [op.expect for op in batch.ops] == ["u"] * 3, strategy


COLUMN_CALLED = ("id", "expect", "c0", "f0", "a.b", "a b", "iii`", "Id2")


def test_columns_may_be_called_as_our_own_ones(lake: Lake) -> None:
    columns = ", ".join(f"`{name.replace('`', '``')}` int" for name in COLUMN_CALLED)
    name = lake.create(columns)
    lake.sql(f"insert into lake.{name} values ({', '.join(map(str, range(len(COLUMN_CALLED))))})")
    wanted = parse_fields(
        *(
            derive(f"x{number}", f"`{column.replace('`', '``')}` + 1")
            for number, column in enumerate(COLUMN_CALLED)
        ),
        derive("lower", "id2 + C0"),
        take("dotted", "a.b"),
    )
    assert list_documents(lake, name, fields=wanted) == {
        "0": {**{f"x{n}": n + 1 for n in range(len(COLUMN_CALLED))}, "lower": 9, "dotted": 4}
    }


XSD = "map('rowValidationXSDPath', '/etc/hostname')"
WRONG_EXPRESSIONS = [
    ("totl * 2", "Did you mean one of the following? [`total`"),
    ("total +", "cannot be evaluated"),
    ("*", "has a star"),
    ("struct(*)", "has a star"),
    ("struct(* except (total))", "has a star"),
    ("window(happened, '1 hour').start", "stands for several rows or none"),
    ("window(happened, '1 hour', '5 minutes')", "stands for several rows or none"),
    ("session_window(happened, '1 hour').end", "stands for several rows or none"),
    ("window_time(window(happened, '1 hour'))", "stands for several rows or none"),
    ("aes_encrypt(string(total), 'abcdefghijklmnop')", "not deterministic"),
    ("sum(total)", "made of its row alone"),
    ("row_number() over (order by total)", "made of its row alone"),
    ("explode(array(total))", "made of its row alone"),
    ("total in (select total from nothing)", "made of its row alone"),
    ("(select max(total) from {t})", "depends on more than the row"),
    ("total + rand()", "not deterministic"),
    ("uuid()", "depends on more than the row"),
    ("current_date", "depends on more than the row"),
    ("date 'today'", "depends on the time"),
    ("date/**/'today'", "depends on the time"),
    ("happened > timestamp '10:30'", "depends on the time"),
    ("timestamp('10:30')", "depends on the day of the run"),
    ("date -- a day\n 'today'", "depends on the time"),
    (r"date 't\u006fday'", "depends on the time"),
    ("current_user()", "depends on more than the row"),
    ("input_file_name()", "depends on more than the row"),
    ("reflect('java.util.UUID', 'randomUUID')", "not deterministic"),
    ("_file", "cannot be evaluated"),
    ("from_protobuf(x'00', 'P', '/etc/hostname')", "calls from_protobuf(), which may read a file"),
    ("`To_Protobuf` (struct(total), 'P')", "calls to_protobuf(), which may read a file"),
    ("identifier('from_' || 'protobuf')(x'00', 'P')", "calls identifier(), which may read a file"),
    (f"from_xml('<a/>', 'a int', {XSD})", "depends on a file (rowvalidationxsdpath)"),
    (f"struct({'total, ' * 40} schema_of_xml('<a/>', {XSD}))", "depends on a file"),
    ("null", "gives `made` the type void"),
    ("interval 1 day", "gives `made` the type interval day"),
    ("named_struct('a.b', 1)", "its name holds a dot"),
    ("named_struct('a', total, 'a', 2)", "two fields of the same name"),
    ("named_struct('a', total, 'A', 2)", "two fields of the same name"),
    ("1", "no field reads a column"),
]


@pytest.mark.parametrize(("expression", "words"), WRONG_EXPRESSIONS)
def test_an_expression_that_is_no_function_of_the_row_is_refused(
    lake: Lake, expression: str, words: str
) -> None:
    name = "db.refusing"
    lake.sql("create namespace if not exists lake.db")
    lake.sql(
        f"create table if not exists lake.{name} (total int, happened timestamp) using iceberg"
    )
    expression = expression.format(t=f"lake.{name}")
    with pytest.raises(FieldInvalid, match=re.escape(words)) as caught:
        lake.resolve_spec(
            name, identifier_columns=("total",), fields=parse_fields(derive("made", expression))
        )
    assert name in caught.value.message
    assert "made" in caught.value.message or "no field" in words


TYPES = [
    ("cast(1 as tinyint)", "long", 1),
    ("true", "boolean", True),
    ("id / 2", "double", 0.5),
    ("double('nan')", "double", None),
    ("float(0.5)", "float", 0.5),
    ("cast(id as decimal(20, 1))", "keyword", "1.0"),
    ("cast(id as decimal(5, 1))", "scaled_float", "1.0"),
    ("date '2024-03-15'", "date", "2024-03-15"),
    ("date '1970-01-01' = date/**/' epoch'", "boolean", True),
    ("'my date' = c or 'date' = 'time'", "boolean", False),
    ("timestamp '2024-03-15 14:30:00Z'", "date", "2024-03-15T14:30:00.000000Z"),
    ("'10:30' = c or timestamp '2024' = timestamp '2024-01-01'", "boolean", True),
    ("timestamp_ntz '2024-03-15 14:30:00'", "date", "2024-03-15T14:30:00.000000"),
    ("c collate UNICODE_CI", "keyword", "a"),
    ("x'ff'", "binary", "/w=="),
    ("map(id, c)", "flat_object", {"1": "a"}),
    ("array(id, null)", "long", [1, None]),
    ("parse_json('[1]')", "flat_object", {"value": [1]}),
    ("named_struct('lat', 1.5D, 'lon', double(null))", None, {"lat": 1.5}),
]


def test_types_of_expressions_have_the_forms_of_columns(lake: Lake) -> None:
    from icdc_spark.documents.mapping import build_index_mapping

    name = lake.create("id int, c string")
    lake.sql(f"insert into lake.{name} values (1, 'a')")
    wanted = parse_fields(
        take("id", "id"), *(derive(f"x{n}", text) for n, (text, _, _) in enumerate(TYPES))
    )
    properties = build_index_mapping(lake.resolve_spec(name, fields=wanted), table_uuid="u")[
        "properties"
    ]
    (document,) = list_documents(lake, name, fields=wanted).values()
    for number, (text, kind, value) in enumerate(TYPES):
        assert properties[f"x{number}"].get("type") == kind, text
        assert document.get(f"x{number}") == value, text
