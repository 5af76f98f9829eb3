"""What a pipeline may hold as a whole, and what is said of one that holds more."""

from typing import Any

import pytest

from icdc_api.base import MAX_NAME, MAX_TABLES
from icdc_api.crd import generator
from icdc_api.crd.loading import parse_pipeline
from icdc_api.crd.schema import find_node
from icdc_api.errors import BadSpec
from icdc_api.json_size import measure_sent, measure_stored
from icdc_api.naming import MAX_TABLE_NAME
from icdc_api.spec.limits import MAX_SECRETS, MAX_SPEC_BYTES
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import TableStatus
from icdc_testing.operator.deciding.worst_cases import make_longest_names, make_many_tables

pytestmark = pytest.mark.unit


def get_refusal(resource: dict[str, Any]) -> str:
    with pytest.raises(BadSpec) as caught:
        parse_pipeline(resource, source="shop.yaml")
    return caught.value.message


def make_catalog(*secrets: str) -> dict[str, Any]:
    return {"propertiesFrom": [{"secretRef": {"name": name}} for name in secrets]}


def test_a_pipeline_has_500_tables_with_the_longest_names() -> None:
    assert MAX_TABLES == 500
    pipeline = parse_pipeline(make_longest_names(), source="shop.yaml")
    assert len(pipeline.spec.tables) == MAX_TABLES
    assert len(pipeline.spec.tables[0].name) == MAX_TABLE_NAME


def test_one_table_more_is_refused() -> None:
    assert get_refusal(make_many_tables(MAX_TABLES + 1)) == (
        "shop.yaml: spec.tables: a list of 501 is not allowed: it must have a length of at most 500"
    )


def test_a_table_has_no_longer_name_than_its_status_can_hold() -> None:
    assert MAX_TABLE_NAME == MAX_NAME
    name = "s." + "t" * (MAX_TABLE_NAME - 2)
    resource = make_many_tables(1, index="t")
    resource["spec"]["tables"][0]["name"] = name
    assert TableStatus(name=parse_pipeline(resource, source="x").spec.tables[0].name, index="t")
    resource["spec"]["tables"][0]["name"] = name + "t"
    assert "is not allowed: it must have a length of at most 253" in get_refusal(resource)


def test_a_spec_that_is_too_large_is_refused_by_the_field_that_has_most_of_it() -> None:
    fields = {f"field_{number}": {"type": "keyword"} for number in range(40)}
    resource = make_many_tables(rowFilter="amount > 0", mapping=fields)
    spec = PipelineSpec.model_validate(resource["spec"]).to_resource()
    assert spec["tables"][0]["branch"] == "main"
    size, mappings = measure_stored(spec), MAX_TABLES * measure_stored(fields)
    assert get_refusal(resource) == (
        f"shop.yaml: spec: it has {size} bytes as JSON; at most {MAX_SPEC_BYTES} are allowed. "
        f"spec.tables[].mapping has {mappings} of them: shorten that, or use fewer tables in one "
        "pipeline"
    )


@pytest.mark.parametrize("character", ["x", "\u00e4", "\U0001f40b", '"', "\x01", "<"])
def test_the_size_is_that_in_the_api_server_whatever_a_character_costs(character: str) -> None:
    costs = {"x": 1, "\u00e4": 2, "\U0001f40b": 4, '"': 2, "\x01": 6, "<": 6}
    assert measure_stored(character * 10) == 2 + 10 * costs[character]
    sent = {**costs, "\u00e4": 6, "\U0001f40b": 12}
    assert measure_sent(character * 10) == 2 + 10 * sent[character]
    resource, value = make_many_tables(1), character * (4000 // costs[character])
    properties = resource["spec"]["catalog"]["properties"]
    properties |= {f"p{number}": value for number in range(110)}
    assert parse_pipeline(resource, source="x")
    properties |= {f"p{number}": value for number in range(116)}
    assert "spec.catalog has" in get_refusal(resource)


def test_more_secrets_than_a_pod_can_mount_are_refused() -> None:
    resource = make_many_tables()
    for number, table in enumerate(resource["spec"]["tables"]):
        table["catalog"] = make_catalog(f"s{number % MAX_SECRETS}", "shared")
    assert get_refusal(resource) == (
        f"shop.yaml: spec.tables[].catalog: {MAX_SECRETS + 1} Secrets are named; at most "
        f"{MAX_SECRETS} are allowed: use fewer catalogs in one pipeline"
    )
    for table in resource["spec"]["tables"]:
        table["catalog"]["propertiesFrom"].pop()
    assert parse_pipeline(resource, source="x")
    table["catalog"]["tls"] = {"caFrom": {"secretRef": {"name": "authority"}}}
    assert f"{MAX_SECRETS + 1} Secrets are named" in get_refusal(resource)
    del table["catalog"]["tls"]
    assert parse_pipeline(resource, source="x")


@pytest.mark.parametrize("index", ["t0-000001", "t0-dead-letters", "t499-1234567"])
def test_the_name_of_an_index_that_belongs_to_another_of_many_is_refused(index: str) -> None:
    resource = make_many_tables()
    for number, table in enumerate(resource["spec"]["tables"]):
        table["index"] = f"t{number}"
    resource["spec"]["tables"][250]["index"] = index
    alias = index.split("-")[0]
    assert get_refusal(resource) == (
        f"shop.yaml: spec.tables[250].index: {index!r} is not allowed: the name belongs to the "
        f"index {alias!r} of another table"
    )


def test_the_limits_are_those_that_the_definition_explains() -> None:
    text = " ".join(find_node(generator.build_root_schema(), "spec.tables")["description"].split())
    assert f"1 to {MAX_TABLES};" in text
    assert f"at most {MAX_SPEC_BYTES // 1024} KiB" in text
