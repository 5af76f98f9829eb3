"""Every type of the documents' type table, on every path by which a row can reach its index.

The same rows are exported; arrive by changelog in added files; and are carried through the join of
old and new rows by an update. All three must give the same bytes under the same ids.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from icdc_testing.tables.paths import assert_same_bytes, build_paths
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import COW2, MOR3, Op, put, select_rows

pytestmark = pytest.mark.spark


class Cell(NamedTuple):
    """A value in SQL, and as JSON; OMITTED where the field must be left out."""

    sql: str
    json: Any


OMITTED = object()
NULL = Cell("null", OMITTED)
NAN, INF, MINUS_INF = (f"double('{text}')" for text in ("NaN", "Infinity", "-Infinity"))
FAR, EARLY = "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00"
EMOJI = "\N{GRINNING FACE}\N{MUSICAL SYMBOL G CLEF}"

# Per column: its type, then a usual value, an extreme one, and an empty or odd one.
COLUMNS: dict[str, tuple[str, Cell, Cell, Cell]] = {
    "flag": ("boolean", Cell("true", True), Cell("false", False), NULL),
    "i": ("int", Cell("7", 7), Cell("-2147483648", -2147483648), Cell("0", 0)),
    "l": (
        "bigint",
        Cell("9007199254740993", 9007199254740993),
        Cell("9223372036854775807", 9223372036854775807),
        Cell("-1", -1),
    ),
    "f": ("float", Cell("1.5", 1.5), Cell("float('NaN')", OMITTED), Cell("float('-0.0')", -0.0)),
    "d": ("double", Cell("1e300", 1e300), Cell(INF, OMITTED), Cell("double('-0.0')", -0.0)),
    "d2": ("double", Cell("0.1", 0.1), Cell(MINUS_INF, OMITTED), Cell("4.9e-324", 5e-324)),
    "small": (
        "decimal(10,2)",
        Cell("123.45", "123.45"),
        Cell("-99999999.99", "-99999999.99"),
        Cell("0.00", "0.00"),
    ),
    "wide": (
        "decimal(18,0)",
        Cell("123456789012345678", "123456789012345678"),
        Cell("-999999999999999999", "-999999999999999999"),
        Cell("1", "1"),
    ),
    "huge": (
        "decimal(38,10)",
        Cell("1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456789"),
        Cell("0.0000000001", "0.0000000001"),
        Cell("0", "0.0000000000"),
    ),
    "day": (
        "date",
        Cell("date'2024-03-15'", "2024-03-15"),
        Cell("date'9999-12-31'", "9999-12-31"),
        Cell("date'0001-01-01'", "0001-01-01"),
    ),
    "moment": (
        "timestamp",
        Cell("timestamp'2024-03-15 14:30:00+02:00'", "2024-03-15T12:30:00.000000Z"),
        Cell(f"timestamp'{FAR}'", "9999-12-31T23:59:59.999999Z"),
        Cell(f"timestamp'{EARLY}'", "0001-01-01T00:00:00.000000Z"),
    ),
    "local": (
        "timestamp_ntz",
        Cell("timestamp_ntz'2024-03-15 14:30:00.000001'", "2024-03-15T14:30:00.000001"),
        Cell(f"timestamp_ntz'{FAR}'", "9999-12-31T23:59:59.999999"),
        Cell(f"timestamp_ntz'{EARLY}'", "0001-01-01T00:00:00.000000"),
    ),
    "s": (
        "string",
        Cell("'plain'", "plain"),
        Cell(f"'{EMOJI} \\\\ \" \\n\\t/<>&'", f'{EMOJI} \\ " \n\t/<>&'),
        Cell("''", ""),
    ),
    "bin": ("binary", Cell("X'00ff10'", "AP8Q"), Cell("X'" + "fb" * 60 + "'", "+/v7" * 20),
            Cell("X''", "")),
    "st": (
        "struct<x:int,y:struct<z:string,w:double>>",
        Cell("named_struct('x',1,'y',named_struct('z','a','w',2.5D))",
             {"x": 1, "y": {"z": "a", "w": 2.5}}),
        Cell(f"named_struct('x',null,'y',named_struct('z',null,'w',{NAN}))", {"y": {}}),
        Cell("named_struct('x',null,'y',null)", {}),
    ),
    "li": (
        "array<int>",
        Cell("array(1,2,3)", [1, 2, 3]),
        Cell("array(null,1,null)", [None, 1, None]),
        Cell("array()", []),
    ),
    "ls": (
        "array<struct<p:string,q:decimal(10,2)>>",
        Cell("array(named_struct('p','a','q',1.50))", [{"p": "a", "q": "1.50"}]),
        Cell("array(null,named_struct('p',null,'q',null))", [None, {}]),
        Cell("array()", []),
    ),
    "ll": (
        "array<array<double>>",
        Cell("array(array(1.5D),array())", [[1.5], []]),
        Cell(f"array(null,array({NAN},null,{INF},double('-0.0')))", [None, [None] * 3 + [-0.0]]),
        Cell("array()", []),
    ),
    "ms": (
        "map<string,string>",
        Cell("map('a','b')", {"a": "b"}),
        Cell("map('a.b',null,'','x','|\\\\','y')", {"a.b": None, "": "x", "|\\": "y"}),
        Cell("map()", {}),
    ),
    "mi": ("map<int,string>", Cell("map(1,'a',-2,'b')", {"1": "a", "-2": "b"}), NULL,
           Cell("map()", {})),
    "md": (
        "map<date,double>",
        Cell("map(date'2024-03-15',1.5D)", {"2024-03-15": 1.5}),
        Cell(f"map(date'0001-01-01',{NAN},date'9999-12-31',null)",
             {"0001-01-01": None, "9999-12-31": None}),
        NULL,
    ),
    "mt": (
        "map<timestamp,struct<k:string>>",
        Cell("map(timestamp'2024-03-15 14:30:00',named_struct('k','v'))",
             {"2024-03-15T14:30:00.000000Z": {"k": "v"}}),
        Cell("map(timestamp'2024-03-15 14:30:00.5',null)", {"2024-03-15T14:30:00.500000Z": None}),
        NULL,
    ),
    "mk": (
        "map<decimal(4,2),array<int>>",
        Cell("map(1.50,array(1))", {"1.50": [1]}),
        Cell("map(-0.10,array(null))", {"-0.10": [None]}),
        NULL,
    ),
    "mb": (
        "map<binary,map<boolean,float>>",
        Cell("map(X'00ff10',map(true,1.5F))", {"AP8Q": {"true": 1.5}}),
        Cell("map(X'01',map(false,float('NaN')))", {"AQ==": {"false": None}}),
        NULL,
    ),
}  # fmt: skip


Row = Mapping[str, Cell]
ROWS: Sequence[Row] = (
    {name: column[1] for name, column in COLUMNS.items()},
    {name: column[2] for name, column in COLUMNS.items()},
    {name: column[3] for name, column in COLUMNS.items()},
    {},
)


def insert_all(marker: str) -> str:
    """Return one INSERT of all rows, in one file."""
    selects = [
        ", ".join(
            [
                f"select {number} as id, '{marker}' as marker",
                *(
                    f"cast({row.get(name, NULL).sql} as {column[0]}) as {name}"
                    for name, column in COLUMNS.items()
                ),
            ]
        )
        for number, row in enumerate(ROWS)
    ]
    return "insert into {t} select /*+ coalesce(1) */ * from (" + " union all ".join(selects) + ")"


def list_writes(marker: str) -> list[Op]:
    """Return what must be written for the rows."""
    fields = [
        {name: cell.json for name, cell in row.items() if cell.json is not OMITTED} for row in ROWS
    ]
    return [
        put(str(n), id=n, marker=marker, **fields_of_row) for n, fields_of_row in enumerate(fields)
    ]


VARIANTS = [
    ('{"a":{"b":[1,null,"x"]},"c":1.50}', {"a": {"b": [1, None, "x"]}, "c": 1.5}),
    ("[1,2]", {"value": [1, 2]}),
    ('"text"', {"value": "text"}),
    ("12", {"value": 12}),
    ("true", {"value": True}),
    ("null", {"value": None}),
    ("{}", {}),
]


def build_variant_insert(marker: str) -> str:
    values = [f"({n}, '{marker}', parse_json('{text}'))" for n, (text, _) in enumerate(VARIANTS)]
    return "insert into {t} " + select_rows(", ".join([*values, f"(99, '{marker}', null)"]))


def expect_variants(marker: str) -> list[Op]:
    puts = [put(str(n), id=n, marker=marker, v=wanted) for n, (_, wanted) in enumerate(VARIANTS)]
    return [*puts, put("99", id=99, marker=marker)]


ALL_COLUMNS = "id int, marker string, " + ", ".join(f"{n} {c[0]}" for n, c in COLUMNS.items())
GROUPS = {
    "types-cow2": build_paths("types", COW2, insert_all, list_writes, columns=ALL_COLUMNS),
    "types-mor3": build_paths("types", MOR3, insert_all, list_writes, columns=ALL_COLUMNS),
    "variants-mor3": build_paths(
        "variants",
        MOR3,
        build_variant_insert,
        expect_variants,
        columns="id int, marker string, v variant",
    ),
}
SCENARIOS = [scenario for scenarios in GROUPS.values() for scenario in scenarios]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play(SCENARIOS)


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_a_value_of_each_type_becomes_its_document(stages: Stages, alias: str) -> None:
    assert_played(stages[alias])


@pytest.mark.parametrize("group", GROUPS)
def test_every_path_gives_the_same_bytes_under_the_same_ids(stages: Stages, group: str) -> None:
    assert_same_bytes(stages, GROUPS[group])


def test_negative_zero_keeps_its_sign(stages: Stages) -> None:
    source = stages["types-exported-cow2"].outcomes[-1].sources["2"]

    assert b'"f":-0.0,"d":-0.0,' in source
