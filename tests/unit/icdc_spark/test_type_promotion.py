"""Files of all snapshots can be read under the widest types of one document form."""

import json

import pytest

from icdc_spark.iceberg.table.type_promotion import widen_types
from icdc_testing.lake.schemas import build_schema_json

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ("int", "long", "long"),
        ("long", "int", "long"),
        ("decimal(9, 2)", "decimal(11, 2)", "decimal(11, 2)"),
        ("decimal(11, 2)", "decimal(9, 2)", "decimal(11, 2)"),
        ("decimal(9, 2)", "decimal(11, 3)", "decimal(9, 2)"),
        ("float", "double", "float"),  # other documents: such a table is exported again
        ("int", "string", "int"),
        ("string", "string", "string"),
    ],
)
def test_a_column_has_the_widest_type_that_gives_the_same_documents(
    own: str, other: str, expected: str
) -> None:
    widened = json.loads(
        widen_types(build_schema_json({"a": own}), [build_schema_json({"a": other})])
    )

    assert widened["fields"][0]["type"] == expected


def test_types_inside_of_others_are_widened_by_their_field_ids() -> None:
    def nest(number: str) -> str:
        pairs = {"type": "map", "key-id": 12, "key": number, "value-id": 13, "value": number}
        inner = {"type": "list", "element-id": 11, "element": number, "element-required": False}
        field = {"id": 14, "name": "x", "type": number, "required": False}
        struct = {"type": "struct", "fields": [field]}
        return build_schema_json({"a": inner, "b": {**pairs, "value-required": False}, "c": struct})

    assert json.loads(widen_types(nest("int"), [nest("long")])) == json.loads(nest("long"))


def test_another_column_of_the_same_name_changes_nothing() -> None:
    own, other = build_schema_json({"a": "int"}), build_schema_json({"z": "string", "a": "long"})

    assert json.loads(widen_types(own, [other])) == json.loads(own)


def test_what_may_be_null_in_one_schema_may_be_null_and_then_identifies_no_row() -> None:
    def nest(*, required: bool) -> str:
        inner = {"type": "list", "element-id": 11, "element": "int", "element-required": required}
        pairs = {"type": "map", "key-id": 12, "key": "int", "value-id": 13, "value": inner}
        described = build_schema_json(
            {"a": {**pairs, "value-required": required}, "b": "int"}, required=required
        )
        return json.dumps({**json.loads(described), "identifier-field-ids": [2]})

    strict, loose = nest(required=True), nest(required=False)
    expected = json.loads(loose)
    del expected["identifier-field-ids"]
    assert json.loads(widen_types(strict, [strict, loose])) == expected
    assert json.loads(widen_types(strict, [strict])) == json.loads(strict)
    # One that is optional already stays so.
    assert json.loads(widen_types(loose, [strict])) == json.loads(loose)
