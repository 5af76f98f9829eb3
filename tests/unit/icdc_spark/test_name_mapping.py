"""Which fields a table finds by name in files without field ids."""

import pytest

from icdc_spark.iceberg.table.name_mapping import NAME_MAPPING, list_mapped_fields

pytestmark = pytest.mark.unit

NESTED = """
[{"field-id": 1, "names": ["id", "number"]},
 {"field-id": 2, "names": ["who"], "fields": [{"field-id": 3, "names": ["name"]}]},
 {"field-id": 4, "names": []},
 {"names": ["left_over"]}]
"""


@pytest.mark.parametrize(
    ("text", "ids"),
    [(None, set()), ("", set()), ("no JSON", set()), ("[]", set()), (NESTED, {1, 2, 3})],
)
def test_fields_are_mapped_at_every_depth(text: str | None, ids: set[int]) -> None:
    properties = {} if text is None else {NAME_MAPPING: text}
    assert list_mapped_fields(properties) == ids
