"""Index templates that match our names too: what they would break is named, or cannot be broken."""

import re
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


REFUSED: dict[str, dict[str, Any]] = {
    "sorted by a field that is in no document of ours": {
        "template": {"settings": {"index.sort.field": "v"}}
    },
    "for data streams": {"data_stream": {}},
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_template_for_which_there_can_be_no_index_of_dead_letters_is_named(
    admin: Client, clean_indices: str, templates: Templates, what: str
) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    body = {"index_patterns": [DEAD_LETTERS], **REFUSED[what]}
    assert call(clean_indices, "PUT", "/_index_template/all", body).status == 200
    result = sink.write(clean_indices, [sink.upsert("bad", {"v": "x"})])
    kind, message = result.error or ("", "")
    assert kind == "TargetInvalid"
    assert f"refused to create index '{DEAD_LETTERS}': " in message
    assert message.endswith(
        "Change the index template that matches this name, or give it another pattern."
    )
    templates.delete()
    assert sink.write(clean_indices, [sink.upsert("bad", {"v": "x"})]).dead_letters == 1


def test_a_template_that_gives_each_index_a_write_alias_is_named(
    admin: Client, templates: Templates
) -> None:
    writing = {"aliases": {"orders-write": {"is_write_index": True}}}
    assert templates.put(writing) == 200
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    with pytest.raises(TargetInvalid, match="alias 'orders-write' would have two write indices"):
        indices.create(admin, sink.OWNER, sink.MAPPING, {})


def test_a_template_makes_no_index_refuse_a_decimal(
    admin: Client, clean_indices: str, templates: Templates
) -> None:
    assert templates.put({"settings": {"mapping.coerce": False}}) == 200
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    assert sink.write(clean_indices, [sink.upsert("a", {"v": "7"})]).upserted == 1


@pytest.mark.parametrize(
    ("kind", "added"),
    [
        ("long", {"coerce": False}),
        ("date", {"format": "epoch_millis"}),
        ("date", {"format": "yyyy-dd-MM||strict_date_optional_time"}),
        ("date", {"format": "strict_date_optional_time||epoch_second"}),
    ],
)
def test_a_legacy_template_that_makes_a_field_refuse_our_values_is_named(
    admin: Client, clean_indices: str, kind: str, added: dict[str, object]
) -> None:
    field = {"v": {"type": kind, **added}}
    body = {"index_patterns": ["orders*"], "mappings": {"properties": field}}
    assert call(clean_indices, "PUT", "/_template/legacy", body).status == 200
    ((key, value),) = added.items()
    mapping: dict[str, object] = {"dynamic": "strict", "properties": {"v": {"type": kind}}}
    try:
        with pytest.raises(TargetInvalid, match=re.escape(f"field v has {key} {value!r}")):
            indices.create(admin, sink.OWNER, mapping, {})
        asked: dict[str, object] = {"dynamic": "strict", "properties": field}
        assert indices.create(admin, sink.OWNER, asked, {}).name == "orders-000001"
    finally:
        call(clean_indices, "DELETE", "/_template/legacy")


@pytest.mark.parametrize(
    ("kind", "added"),
    [
        ("long", {"coerce": True}),
        ("date", {"format": "date_optional_time"}),
        ("date", {"format": "yyyy-MM-dd HH:mm:ss||strict_date_optional_time||epoch_millis"}),
    ],
)
def test_a_legacy_template_that_makes_a_field_take_our_values_is_no_obstacle(
    admin: Client, clean_indices: str, kind: str, added: dict[str, object]
) -> None:
    field = {"v": {"type": kind, **added}}
    body = {"index_patterns": ["orders*"], "mappings": {"properties": field}}
    assert call(clean_indices, "PUT", "/_template/legacy", body).status == 200
    mapping: dict[str, object] = {"dynamic": "strict", "properties": {"v": {"type": kind}}}
    values = ["7"] if kind == "long" else ["2026-03-01", "2026-03-01T10:00:00.123456Z"]
    try:
        made = indices.create(admin, sink.OWNER, mapping, {})
        assert indices.read_mapping(admin, made.name)["properties"] == field
        lines = [sink.upsert(f"k{n}", {"v": value}) for n, value in enumerate(values)]
        result = sink.write(clean_indices, lines)
        assert (result.upserted, result.dead_letters) == (len(values), 0)
    finally:
        call(clean_indices, "DELETE", "/_template/legacy")


def test_a_template_makes_no_page_of_dead_letters_too_large(
    admin: Client, clean_indices: str, templates: Templates
) -> None:
    assert templates.put({"settings": {"max_result_window": 2}}) == 200
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    bad = [sink.upsert(key, {"v": "x"}) for key in "abc"]
    assert sink.write(clean_indices, bad).dead_letters == 3
    assert dead_letters.list_ids(admin, sink.OWNER) == {"a", "b", "c"}


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
