"""What the status says of a spec that is valid and still unwise."""

from typing import Any

import pytest

from icdc_api.spec.cautions import find_cautions
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_operator.core import events
from icdc_operator.core.conditions import summary
from icdc_testing.operator.deciding.pipelines import NOW, make_observed, make_spec

pytestmark = pytest.mark.unit

SECRET = {"secretRef": {"name": "search"}}


@pytest.mark.parametrize(
    ("hosts", "credentials", "reported_of"),
    [
        (["http://search:9200"], SECRET, "http://search:9200"),
        (["https://search:9200", "http://search-2:9200"], SECRET, "http://search-2:9200"),
        (["https://search:9200"], SECRET, None),
        (["http://search:9200"], None, None),
        (["http://localhost:9200", "http://127.0.0.1:9200"], SECRET, None),
        ("embedded", SECRET, None),
    ],
)
def test_credentials_that_go_unencrypted_are_told_of_and_not_refused(
    hosts: Any, credentials: Any, reported_of: str | None
) -> None:
    sink = {"opensearch": {"hosts": hosts, "credentialsFrom": credentials}}
    world = make_observed(make_spec(sink=sink))
    conditions = summary.build_conditions(world.status, world, now=NOW)
    fields = {"observed_generation": world.generation, "conditions": conditions}
    value = summary.summarise(world.status.model_copy(update=fields))
    valid = value.find_condition(ConditionType.SPEC_VALID)
    assert valid is not None
    assert value.holds(ConditionType.SPEC_VALID)
    assert valid.message == (
        f"spec.sink.opensearch.hosts: the credentials of {reported_of} are sent unencrypted, and "
        "anyone on the network path can read them; use https"
        if reported_of
        else ""
    )
    (event,) = (
        item
        for item in events.derive_events(PipelineStatus(), value)
        if item.reason == "SpecAccepted"
    )
    assert event.warning == (reported_of is not None)


CLEAR = "http://ann:pw@rest.lake:8181"


def make_catalog(uri: str, *, secret: bool = True) -> dict[str, Any]:
    named = {"propertiesFrom": [SECRET]} if secret else {}
    return {"properties": {"type": "rest", "uri": uri}, **named}


@pytest.mark.parametrize(
    ("shared", "own", "field"),
    [
        (make_catalog(CLEAR), None, "spec.catalog"),
        (make_catalog("https://rest.lake"), make_catalog(CLEAR), "spec.tables[0].catalog"),
        (make_catalog(CLEAR, secret=False), None, None),
        (make_catalog("https://rest.lake"), None, None),
        (make_catalog("http://localhost:8181"), None, None),
        (make_catalog("thrift://hive:9083"), None, None),
    ],
)
def test_a_catalog_over_http_that_is_given_a_secret_is_reported(
    shared: dict[str, Any], own: dict[str, Any] | None, field: str | None
) -> None:
    tables = [{"name": "shop.orders", "index": "orders", **({"catalog": own} if own else {})}]
    expected = (
        f"{field}.properties.uri: the credentials of http://rest.lake:8181 are sent unencrypted, "
        "and anyone on the network path can read them; use https"
    )
    spec = make_spec(catalog=shared, tables=tables)
    assert list(find_cautions(spec)) == ([expected] if field else [])
