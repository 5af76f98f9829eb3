"""Index settings under which an index would not equal its table."""

from typing import Any

import pytest
from pydantic import ValidationError

from icdc_api.spec.indices.index_settings import flatten_settings, keep_vectors
from icdc_api.spec.sink import OpenSearch

pytestmark = pytest.mark.unit


def parse_sink(settings: dict[str, Any]) -> OpenSearch:
    return OpenSearch.model_validate(
        {"hosts": ["https://search:9200"], "indexSettings": settings}, by_alias=True
    )


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"default_pipeline": "enrich"}, "index.default_pipeline"),
        ({"index.final_pipeline": "enrich"}, "index.final_pipeline"),
        ({"index": {"derived_source": {"enabled": True}}}, "index.derived_source.enabled"),
        ({"blocks.write": True}, "index.blocks.write"),
        ({"index": {"blocks": {"read_only_allow_delete": "true"}}}, "index.blocks.read_only"),
        ({"translog": {"durability": "ASYNC"}}, "index.translog.durability"),
        ({"gc_deletes": "0s"}, "index.gc_deletes"),
        ({"soft_deletes.enabled": False}, "index.soft_deletes.enabled"),
        ({"append_only": {"enabled": True}}, "index.append_only.enabled"),
    ],
)
def test_a_setting_that_breaks_the_promise_is_refused_by_name(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_sink(settings)
    (error,) = caught.value.errors()
    assert "the setting is refused: " in error["msg"]
    assert named in error["ctx"]["field"][1]


@pytest.mark.parametrize(
    "settings",
    [
        {"number_of_shards": 3, "refresh_interval": "30s", "codec": "best_compression"},
        {"index": {"sort": {"field": "day", "order": "desc"}}},
        {"analysis": {"analyzer": {"blocks": {"type": "custom", "tokenizer": "standard"}}}},
        {"default_pipeline": "_none", "translog.durability": "request", "blocks.write": False},
        {"translog.flush_threshold_size": "1gb", "mapping.total_fields.limit": 5000},
    ],
)
def test_other_settings_are_the_users(settings: dict[str, Any]) -> None:
    assert parse_sink(settings).index_settings == settings


def test_settings_have_one_name_however_they_are_written() -> None:
    assert flatten_settings(
        {"a": 1, "index": {"b.c": 2, "d": {"e": 3}}, "index.f": {"g": None}}
    ) == {
        "index.a": 1,
        "index.b.c": 2,
        "index.d.e": 3,
        "index.f.g": None,
    }


DERIVED = "index.knn.derived_source.enabled"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {}),
        ({"index.knn": "false"}, {"index.knn": "false"}),
        ({"index.knn": True}, {"index.knn": True, DERIVED: False}),
        ({"index.knn": "true", DERIVED: "true"}, {"index.knn": "true", DERIVED: "true"}),
    ],
)
def test_vectors_are_kept_where_there_are_some_unless_the_settings_say_otherwise(
    settings: dict[str, object], wanted: dict[str, object]
) -> None:
    assert keep_vectors(settings) == wanted
