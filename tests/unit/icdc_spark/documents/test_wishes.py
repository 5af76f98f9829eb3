"""The names by which a spec calls columns, in another schema of the table."""

import json
from typing import Any

import pytest

from icdc_spark.documents.schema import Schema, parse_schema
from icdc_spark.documents.wishes import (
    DocumentWishes,
    describe_renamed,
    find_renamed,
    follow_names,
    list_followed,
)
from icdc_testing.tables.fields import derive, parse_fields, take

pytestmark = pytest.mark.unit


def build_schema(**columns: tuple[int, Any]) -> Schema:
    fields = [
        {"id": number, "name": name, "type": kind, "required": False}
        for name, (number, kind) in columns.items()
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields, "schema-id": 3}))


def build_struct(inner: str, number: int = 11) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [{"id": number, "name": inner, "type": "string", "required": False}],
    }


def test_names_of_columns_are_those_of_another_schema_by_id() -> None:
    older = build_schema(id=(1, "long"), name=(2, "string"), address=(4, build_struct("zip")))
    # Two columns have exchanged their names; a struct and its part have new ones.
    named = build_schema(id=(2, "string"), name=(1, "long"), home=(4, build_struct("code")))
    wishes = DocumentWishes(
        fields=parse_fields(
            *(take("a", "id"), take("b", "home.code"), {"exclude": "name"}, "*"),
            derive("c", "id + 1"),
        ),
        identifier_columns=("name",),
        routing=("name",),
        columns=("id", "new"),
    )
    assert follow_names(wishes, named, older) == DocumentWishes(
        fields=parse_fields(
            *(take("a", "name"), take("b", "address.zip"), {"exclude": "id"}, "*"),
            derive("c", "id + 1"),
        ),
        identifier_columns=("id",),
        routing=("id",),
        columns=("name", "new"),
    )
    assert follow_names(wishes, named, named) is wishes


def a(number: int) -> tuple[int, str]:
    return number, "string"


@pytest.mark.parametrize(
    ("now", "others", "renamed"),
    [
        pytest.param({"a": a(1)}, [{"a": a(1)}], {}, id="nothing"),
        pytest.param({"b": a(1)}, [{"a": a(1)}], {"a": "b"}, id="renamed"),
        pytest.param(
            {"c": a(1)}, [{"b": a(1)}, {"a": a(1)}], {"b": "c", "a": "c"}, id="twice renamed"
        ),
        pytest.param({"b": a(1), "a": a(2)}, [{"a": a(1)}], {}, id="the name is in use again"),
        pytest.param(
            {"b": a(1), "c": a(2)},
            [{"b": a(1), "a": a(2)}, {"a": a(1)}],
            {},
            id="two columns had the name",
        ),
        pytest.param(
            {"c": a(1), "b": a(2)},
            # Names were exchanged and given back, which made the first schema current again.
            [{"b": a(1), "a": a(2)}, {"d": a(1), "a": a(2)}, {"a": a(1), "b": a(2)}],
            {"d": "c"},
            id="two had exchanged their names for a while",
        ),
        pytest.param(
            {"b": a(2)}, [{"a": a(1)}, {"a": a(2)}], {"a": "b"}, id="dropped, added again, renamed"
        ),
        pytest.param(
            {"b": a(1)}, [{"b": a(1), "a": a(2)}, {"a": a(1)}], {}, id="the later one is gone"
        ),
        pytest.param({"b": a(1)}, [{"b": a(1), "a": a(2)}], {}, id="dropped"),
        pytest.param({"A": a(1)}, [{"a": a(1)}], {"a": "A"}, id="by case alone"),
        pytest.param(
            {"s": (1, build_struct("b"))},
            [{"s": (1, build_struct("a"))}],
            {"s.a": "s.b"},
            id="inside a struct",
        ),
        pytest.param(
            {"t": (1, build_struct("b"))},
            [{"s": (1, build_struct("a"))}],
            {"s": "t", "s.a": "t.b"},
            id="a struct and what is inside",
        ),
        pytest.param(
            {"t": (1, build_struct("a")), "s": (2, build_struct("b", 12))},
            [{"s": (1, build_struct("a"))}],
            {},
            id="another struct has the name",
        ),
    ],
)
def test_an_earlier_name_means_the_column_that_had_it_last_unless_it_is_in_use(
    now: dict[str, Any], others: list[dict[str, Any]], renamed: dict[str, str]
) -> None:
    schema, earlier = build_schema(**now), [build_schema(**other) for other in others]
    assert find_renamed(schema, earlier) == find_renamed(schema, earlier[::-1]) == renamed


def test_earlier_names_are_followed_where_they_name_a_column_alone() -> None:
    schema = build_schema(number=(1, "long"), label=(2, "string"), town=(3, "string"))
    renamed = {"id": "number", "name": "label", "city": "town"}
    wishes = DocumentWishes(
        fields=parse_fields(
            "*", take("who.name", "name"), {"exclude": "city"}, derive("twice", "id * 2")
        ),
        identifier_columns=("id",),
        routing=("id",),
        columns=("name",),
        row_filter="id > 1",
    )
    assert follow_names(wishes, schema, schema, renamed) == DocumentWishes(
        fields=parse_fields(
            "*", take("who.name", "label"), {"exclude": "town"}, derive("twice", "id * 2")
        ),
        identifier_columns=("number",),
        routing=("number",),
        columns=("name",),
        row_filter="id > 1",
    )
    assert list_followed(wishes, renamed) == renamed
    assert list_followed(DocumentWishes(row_filter="id > 1"), renamed) == {}
    # In the schema of an earlier snapshot the column has the earlier name, or another one.
    before = build_schema(key=(1, "long"), name=(2, "string"), city=(9, "string"))
    followed = follow_names(wishes, schema, before, renamed)
    assert followed.identifier_columns == ("key",)
    assert [entry.from_ or entry.exclude for entry in followed.fields[1:3]] == ["name", "city"]
    # Nor does what is not there mean another column, which then had the present name.
    before = build_schema(key=(1, "long"), label=(9, "string"))
    assert follow_names(wishes, schema, before, renamed).fields[1].from_ == "name"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("upper(name)", "; `name` is now called `label`"),
        ("upper(`Name`)", "; `name` is now called `label`"),
        ("upper(s.name) + names", ""),
        ("`s`.`a` = name", "; `name` is now called `label`, `s.a` is now called `s.b`"),
        ("n * 2", ""),
    ],
)
def test_what_an_expression_calls_by_an_earlier_name_is_said(text: str, hint: str) -> None:
    assert describe_renamed({"name": "label", "s.a": "s.b"}, text) == hint
