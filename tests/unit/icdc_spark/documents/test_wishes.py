"""The names by which a spec calls columns, in another schema of the table."""

import json
from typing import Any

import pytest

from icdc_spark.documents.schema import Schema, parse_schema
from icdc_spark.documents.wishes import DocumentWishes, follow_names
from icdc_testing.tables.fields import derive, parse_fields, take

pytestmark = pytest.mark.unit


def build_schema(**columns: tuple[int, Any]) -> Schema:
    fields = [
        {"id": number, "name": name, "type": kind, "required": False}
        for name, (number, kind) in columns.items()
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields, "schema-id": 3}))


def build_struct(inner: str) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [{"id": 11, "name": inner, "type": "string", "required": False}],
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
