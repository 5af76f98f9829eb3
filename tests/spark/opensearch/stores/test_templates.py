"""Index templates that match our names too: what they would break is named, or cannot be broken."""

from collections.abc import Iterator
from typing import Any

import pytest

from icdc_api.errors import TargetInvalid
from icdc_api.naming import STATE_INDEX
from icdc_spark.opensearch.client.connection import Client, Connection
from icdc_spark.opensearch.stores import aliases, dead_letters, indices
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_spark.protocol.state_document import Owner, SourceTable, StateDocument
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call, read_documents

pytestmark = pytest.mark.spark

DEAD_LETTERS = "orders-dead-letters"


class Templates:
    """One template that matches our names."""

    def __init__(self, url: str) -> None:
        self._url = url

    def put(self, template: dict[str, Any]) -> int:
        """Return the status of the answer."""
        # A template for `*` alone does not match hidden indices.
        patterns = ["orders*", f"{STATE_INDEX}*"]
        template = {"settings": {}, **template}
        body = {"index_patterns": patterns, "priority": 500, "template": template}
        return call(self._url, "PUT", "/_index_template/all", body).status

    def delete(self) -> None:
        call(self._url, "DELETE", "/_index_template/all")


@pytest.fixture
def templates(clean_indices: str) -> Iterator[Templates]:
    made = Templates(clean_indices)
    yield made
    made.delete()


BREAKING = [
    pytest.param({"settings": {"blocks.write": True}}, "index.blocks.write is true", id="block"),
    pytest.param(
        {"mappings": {"_source": {"excludes": ["s"]}}}, "its mapping has _source", id="source"
    ),
    pytest.param(
        {"mappings": {"_routing": {"required": True}}}, "its mapping has _routing", id="routing"
    ),
]


@pytest.mark.parametrize(
    ("template", "named"),
    [
        *BREAKING,
        pytest.param(
            {"settings": {"derived_source.enabled": True}},
            "index.derived_source.enabled is true",
            id="derived source",
        ),
        pytest.param(
            {"settings": {"append_only.enabled": True}},
            "index.append_only.enabled is true",
            id="append only",
        ),
        pytest.param({"aliases": {"orders": {}}}, "alias 'orders' points to it", id="our alias"),
    ],
)
def test_an_index_that_a_template_breaks_is_not_made(
    admin: Client,
    clean_indices: str,
    templates: Templates,
    template: dict[str, Any],
    named: str,
) -> None:
    if templates.put(template) == 400:
        assert "settings" in template, "only settings differ between versions"
        return  # this version of OpenSearch has no such setting
    with pytest.raises(TargetInvalid, match=named) as caught:
        indices.create(admin, sink.OWNER, sink.MAPPING, {})
    assert "'orders-000001' was not created as requested" in caught.value.message
    assert call(clean_indices, "GET", "/_mapping?expand_wildcards=all").json == {}
    templates.delete()
    assert indices.create(admin, sink.OWNER, sink.MAPPING, {}).name == "orders-000001"


@pytest.mark.parametrize(("template", "named"), BREAKING)
def test_the_state_and_the_dead_letters_are_not_kept_in_an_index_that_a_template_breaks(
    admin: Client,
    connection: Connection,
    clean_indices: str,
    templates: Templates,
    template: dict[str, Any],
    named: str,
) -> None:
    assert templates.put(template) == 200
    store = StateStore(connection)
    for _ in range(2):  # the second time as by the next run
        with pytest.raises(TargetInvalid, match=f"Index '{STATE_INDEX}' .*{named}"):
            store.ensure_index()
        with pytest.raises(TargetInvalid, match=f"Index '{DEAD_LETTERS}' .*{named}"):
            dead_letters.ensure_index(admin, sink.OWNER)
    assert call(clean_indices, "GET", "/_mapping?expand_wildcards=all").json == {}
    store.close()


HARMLESS: dict[str, Any] = {
    "settings": {
        "default_pipeline": "gone",
        "final_pipeline": "gone",
        "translog.durability": "async",
        "gc_deletes": "1s",
        "refresh_interval": "30s",
        "number_of_shards": 2,
    },
    "mappings": {
        "dynamic": True,
        "date_detection": False,
        "properties": {"added_by_template": {"type": "keyword"}},
    },
    "aliases": {"everything": {}},
}


def test_what_a_template_says_otherwise_is_without_effect_on_documents(
    admin: Client, connection: Connection, clean_indices: str, templates: Templates
) -> None:
    assert templates.put(HARMLESS) == 200
    store = StateStore(connection)
    store.ensure_index()
    state = StateDocument(
        alias="orders",
        owner=Owner(pipeline="default/shop", epoch=1, run_id="run-1"),
        source=SourceTable(table="shop.orders", uuid="t-1", branch="main"),
        document_spec="abc",
        updated_at="2026-03-01T10:00:00Z",
    )
    assert store.load("orders") is None
    assert store.load("orders") != store.create(state)
    stored = store.load("orders")
    assert stored is not None
    assert stored.document == state
    store.close()
    made = indices.create(admin, sink.OWNER, sink.MAPPING, {})
    lines = [sink.upsert("a", {"v": 1}), sink.upsert("bad", {"v": "x"})]
    result = sink.write(clean_indices, lines)
    assert (result.error, result.upserted, result.dead_letters) == (None, 1, 1)
    assert [source for _, source in read_documents(clean_indices, made.name).values()] == [{"v": 1}]
    assert set(read_documents(clean_indices, DEAD_LETTERS)) == {"bad"}
    index_settings = call(clean_indices, "GET", f"/{made.name}/_settings?flat_settings=true").json
    settings = index_settings[made.name]["settings"]  # type: ignore[index]
    assert settings["index.translog.durability"] == "request"
    assert settings["index.gc_deletes"] == "1h"
    assert aliases.list_current_indices(admin, "orders") == []
