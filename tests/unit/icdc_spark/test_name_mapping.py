"""Which fields a table finds by name in files without field ids."""

import pytest

from icdc_spark.iceberg.table.name_mapping import NAME_MAPPING, list_mapped_fields

pytestmark = pytest.mark.unit

NESTED = """
[{"field-id": 1, "names": ["id", "number"]},
 {"field-id": 2, "names": ["who"], "fields": [{"field-id": 3, "names": ["name"]}]},
 {"field-id": 4, "names": [], "fields": null},
 {"field-id": null, "names": ["gone"]},
 {"names": ["left_over"]}]
"""


@pytest.mark.parametrize(
    ("text", "ids"),
    [(None, set()), ("", set()), ("[]", set()), (NESTED, {1, 2, 3})],
)
def test_fields_are_mapped_at_every_depth(text: str | None, ids: set[int]) -> None:
    properties = {} if text is None else {NAME_MAPPING: text}
    assert list_mapped_fields(properties) == ids


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "null",
        "5",
        '"text"',
        '{"a": 1}',
        "[1, 2]",
        '["field-id"]',
        '[{"field-id": "id", "names": ["id"]}]',
        '[{"field-id": 1, "names": ["id"]}, {"fields": 2}]',
    ],
)
def test_what_is_no_mapping_counts_as_none(text: str) -> None:
    assert list_mapped_fields({NAME_MAPPING: text}) == set()
