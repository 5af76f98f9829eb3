"""`tables[].fields`: what can be refused without the table, with the place and what is allowed."""

from typing import Any

import pytest

from icdc_api.crd.loading import parse_pipeline
from icdc_api.errors import BadSpec
from icdc_api.spec.tables import Table
from icdc_testing.operator.deciding.worst_cases import make_many_tables

pytestmark = pytest.mark.unit

WHERE = "shop.yaml: spec.tables[0]."
WHOLE = "is not allowed: whole columns, without a dot; a field of another name is made by fields"

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"fields": ["name"]}, "fields[0]: 'name' is not allowed: it must be \"*\", {name, from}, "),
    ({"columns": ["a", "b.c"]}, f"columns[1]: 'b.c' {WHOLE}"),
    ({"columns": ["_source"]}, "columns[0]: '_source' is not allowed: OpenSearch reserves the"),
    ({"fields": [7]}, "fields[0]: 7 is not allowed: it must be a mapping"),
    ({"fields": [{"from": "a"}]}, "fields[0].name: missing; an entry needs a name, or exclude"),
    ({"fields": [{"name": "a"}]}, "fields[0].from: set exactly one of from and expression"),
    (
        {"fields": [{"name": "a", "from": "a", "expression": "b"}]},
        "fields[0].from: set exactly one of from and expression",
    ),
    ({"fields": [{"name": "a", "form": "b"}]}, "fields[0].form: unknown field; did you mean from?"),
    ({"fields": ["*", {"exclude": "a", "name": "b"}]}, "fields[1]: exclude stands alone in its"),
    ({"fields": [{"name": "*", "from": "b"}]}, 'fields[0]: "*" stands alone in its entry'),
    ({"fields": [{"exclude": "a"}]}, 'fields[0].exclude: exclude is only of use beside "*"'),
    ({"fields": ["*", "*"]}, "fields[1].name: '*' is not allowed: another entry makes the same"),
    (
        {"fields": [{"name": "a", "from": "x"}, {"name": "a", "expression": "y"}]},
        "fields[1].name: 'a' is not allowed: another entry makes the same field",
    ),
    (
        {"fields": [{"name": "a.b.c", "from": "x"}, {"name": "a.b", "from": "y"}]},
        "fields[0].name: 'a.b.c' is not allowed: it lies inside the field `a.b` of another entry",
    ),
    *(
        (
            {"fields": [{"name": name, "from": "x"}]},
            f"fields[0].name: {name!r} is not allowed: {why}",
        )
        for name, why in (
            ("a..b", "a name, and each part of it between dots, must not be empty"),
            (".a", "a name, and each part"),
            ("a. ", "a name, and each part"),
            ("_source", "OpenSearch reserves the name"),
            ("_id.x", "OpenSearch reserves the name"),
        )
    ),
    ({"fields": ["*"], "columns": ["a"]}, "columns: columns is excluded by fields"),
    (
        {
            "fields": [{"name": "a", "from": "x", "mapping": {"type": "ip"}}],
            "mapping": {"a": {"type": "text"}},
        },
        "fields[0].mapping: tables[].mapping has the field `a` too: write it once",
    ),
]


@pytest.mark.parametrize(("entry", "line"), REFUSED)
def test_what_is_wrong_is_said_in_one_line_with_its_place(entry: dict[str, Any], line: str) -> None:
    resource = make_many_tables(1)
    resource["spec"]["tables"][0] |= entry
    with pytest.raises(BadSpec) as caught:
        parse_pipeline(resource, source="shop.yaml")
    assert caught.value.message.startswith(WHERE + line)
    assert "\n" not in caught.value.message


def test_entries_are_written_as_they_were_read() -> None:
    entries = [
        "*",
        {"name": "meta._id", "from": "key"},
        {"name": "totals", "from": "keys"},
        {"name": "total", "expression": "price * n", "mapping": {"type": "long"}},
        {"exclude": "notes"},
    ]
    table = Table.model_validate({"name": "shop.orders", "fields": entries})
    assert table.to_resource()["fields"] == entries
    assert Table.model_validate(table.to_resource()) == table


@pytest.mark.parametrize("field", ["fields", "routing"])
def test_an_empty_list_is_the_default(field: str) -> None:
    table = Table.model_validate({"name": "shop.orders", "appendOnly": True, field: []})
    assert table == Table.model_validate({"name": "shop.orders", "appendOnly": True})
