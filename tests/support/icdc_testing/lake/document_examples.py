"""Rows of the page docs/reference/documents.md: a value of each Iceberg type, and what it becomes.

The page is made of them, and a test with Spark and OpenSearch compares them with what both give.
Mappings are not here: the page asks the product for them.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from icdc_spark.documents.schema import Schema, parse_schema


class ValueExample(NamedTuple):
    """One value of a column."""

    kind: str | dict[str, object]
    """The type, as Iceberg's JSON form of a schema has it."""
    value: str
    """The value as people write it."""
    sql: str
    """The value as Spark gets it from the readers, which have no type for some of them."""
    source: str | None
    """JSON text of the value; None where the field is left out."""
    identifier: str | None
    """The id of a row with this key; None for types that cannot be part of one."""
    name: str = ""
    """The type in words; empty where `kind` says it."""


class IdExample(NamedTuple):
    """One id, of the key's columns."""

    key: str
    """The values as people write them."""
    columns: tuple[tuple[str, str], ...]
    """Iceberg type and SQL of each column."""
    identifier: str
    """The id."""
    why: str
    """What the example shows."""


STRUCT: dict[str, object] = {
    "type": "struct",
    "fields": [
        {"id": 101, "name": "city", "required": False, "type": "string"},
        {"id": 102, "name": "zip", "required": False, "type": "int"},
    ],
}
LIST: dict[str, object] = {"type": "list", "element-id": 103, "element": "int"}
MAP: dict[str, object] = {
    "type": "map",
    "key-id": 104,
    "key": "int",
    "value-id": 105,
    "value": "string",
}
UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
NANOS = "2024-03-15T14:30:00.123456789"

VALUES: Sequence[ValueExample] = (
    ValueExample("boolean", "true", "true", "true", "true"),
    ValueExample("int", "42", "42", "42", "42"),
    ValueExample("long", "9007199254740993", "9007199254740993L", *["9007199254740993"] * 2),
    ValueExample("float", "1.5", "1.5F", "1.5", None),
    ValueExample("double", "0.1", "0.1D", "0.1", None),
    ValueExample("double", "NaN", "double('NaN')", None, None),
    ValueExample("decimal(9, 2)", "1.50", "cast(1.5 as decimal(9,2))", '"1.50"', "1.50"),
    ValueExample("decimal(20, 2)", "1.50", "cast(1.5 as decimal(20,2))", '"1.50"', "1.50"),
    ValueExample("date", "2024-03-15", "date'2024-03-15'", '"2024-03-15"', "2024-03-15"),
    ValueExample("time", "14:30", "'14:30:00.000000'", '"14:30:00.000000"', "14:30:00.000000"),
    ValueExample(
        "timestamp",
        "2024-03-15 14:30:00.5",
        "timestamp_ntz'2024-03-15 14:30:00.5'",
        '"2024-03-15T14:30:00.500000"',
        "2024-03-15T14:30:00.500000",
    ),
    ValueExample(
        "timestamptz",
        "2024-03-15 14:30:00+02:00",
        "timestamp'2024-03-15 14:30:00+02:00'",
        '"2024-03-15T12:30:00.000000Z"',
        "2024-03-15T12:30:00.000000Z",
    ),
    ValueExample(
        "timestamp_ns", "2024-03-15 14:30:00.123456789", f"'{NANOS}'", f'"{NANOS}"', NANOS
    ),
    ValueExample(
        "timestamptz_ns",
        "2024-03-15 14:30:00.123456789Z",
        f"'{NANOS}Z'",
        f'"{NANOS}Z"',
        f"{NANOS}Z",
    ),
    ValueExample("string", 'a "b"', "'a \"b\"'", '"a \\"b\\""', 'a "b"'),
    ValueExample("uuid", UUID, f"'{UUID}'", f'"{UUID}"', UUID),
    ValueExample("binary", "bytes 00 ff 10", "X'00ff10'", '"AP8Q"', "AP8Q"),
    ValueExample("fixed[3]", "bytes 00 ff 10", "X'00ff10'", '"AP8Q"', "AP8Q"),
    ValueExample("variant", '{"a": [1, 2]}', "parse_json('{\"a\":[1,2]}')", '{"a":[1,2]}', None),
    ValueExample("variant", "7", "parse_json('7')", '{"value":7}', None),
    ValueExample(
        STRUCT,
        "Utrecht, 3511",
        "named_struct('city', 'Utrecht', 'zip', 3511)",
        '{"city":"Utrecht","zip":3511}',
        None,
        "struct<city: string, zip: int>",
    ),
    ValueExample(
        STRUCT,
        "Utrecht, null",
        "named_struct('city', 'Utrecht', 'zip', null)",
        '{"city":"Utrecht"}',
        None,
        "struct<city: string, zip: int>",
    ),
    ValueExample(LIST, "1, null", "array(1, null)", "[1,null]", None, "list<int>"),
    ValueExample(MAP, "1: a", "map(1, 'a')", '{"1":"a"}', None, "map<int, string>"),
)

IDS: Sequence[IdExample] = (
    IdExample("42", (("long", "42"),), "42", "the text of the value"),
    IdExample("EU, 7", (("string", "'EU'"), ("int", "7")), "EU|7", "a bar joins values"),
    IdExample(
        "a|b, 7",
        (("string", "'a|b'"), ("int", "7")),
        r"a\|b|7",
        "a bar in a string is escaped, and so is a backslash",
    ),
    IdExample("null, 7", (("string", "null"), ("int", "7")), r"\N|7", "null has a text of its own"),
    IdExample("empty string", (("string", "''"),), r"\E", "OpenSearch refuses an empty id"),
    IdExample(
        "600 times x",
        (("string", "repeat('x', 600)"),),
        r"\H5130b33e6b87fbf5316ed9049e98924eb110800bcbaaad8050f642fba6df37c9",
        "SHA-256 of an id above 512 bytes, OpenSearch's limit, or of one that is no UTF-8",
    ),
)


def build_schema(kinds: Sequence[object]) -> Schema:
    """Return a schema with a column `c0`, `c1` and so on of each type."""
    fields = [
        {"id": number + 1, "name": f"c{number}", "required": False, "type": kind}
        for number, kind in enumerate(kinds)
    ]
    return parse_schema(json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))
