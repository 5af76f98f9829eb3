"""The mapping that each type gets."""

import json
from typing import Any

import pytest

from icdc_api.spec.indices.ingest_pipeline import IngestPipeline
from icdc_api.spec.sink import Strings
from icdc_spark.documents.document_spec import resolve_spec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.documents.schema import parse_schema
from icdc_spark.documents.wishes import DocumentWishes

pytestmark = pytest.mark.unit

KEYWORD = {"type": "keyword", "ignore_above": 8191, "fields": {"text": {"type": "text"}}}
LONG, SHORT = {"type": "long"}, {"type": "short"}
INNER: dict[str, Any] = {
    "type": "struct",
    "fields": [{"id": 9, "name": "x", "required": False, "type": "int"}],
}
STRINGS: dict[Strings, dict[str, Any]] = {
    Strings.KEYWORD_AND_TEXT: KEYWORD,
    Strings.KEYWORD: {"type": "keyword", "ignore_above": 8191},
    Strings.TEXT: {"type": "text"},
}
TEXTS = {
    "type": "struct",
    "fields": [
        {"id": 9, "name": "x", "required": False, "type": "string"},
        {
            "id": 10,
            "name": "y",
            "required": False,
            "type": {"type": "list", "element-id": 11, "element": "string"},
        },
    ],
}

MAPPINGS: list[tuple[object, dict[str, Any]]] = [
    ("boolean", {"type": "boolean"}),
    ("int", {"type": "long"}),
    ("long", {"type": "long"}),
    ("float", {"type": "float"}),
    ("double", {"type": "double"}),
    ("decimal(15, 2)", {"type": "scaled_float", "scaling_factor": 100}),
    ("decimal(9, 0)", {"type": "scaled_float", "scaling_factor": 1}),
    ("decimal(16, 2)", {"type": "keyword"}),
    ("date", {"type": "date"}),
    ("timestamp", {"type": "date"}),
    ("timestamptz", {"type": "date"}),
    ("time", {"type": "keyword"}),
    ("timestamp_ns", {"type": "date_nanos"}),
    ("timestamptz_ns", {"type": "date_nanos"}),
    ("string", KEYWORD),
    ("uuid", {"type": "keyword"}),
    ("binary", {"type": "binary"}),
    ("fixed[8]", {"type": "binary"}),
    ("variant", {"type": "flat_object"}),
    (INNER, {"properties": {"x": {"type": "long"}}}),
    ({"type": "struct", "fields": []}, {"type": "object"}),
    ({"type": "list", "element-id": 8, "element": "string"}, KEYWORD),
    ({"type": "list", "element-id": 8, "element": INNER}, {"properties": {"x": {"type": "long"}}}),
    (
        {"type": "map", "key-id": 7, "key": "int", "value-id": 8, "value": "int"},
        {"type": "flat_object"},
    ),
]


def build_mapping(
    kind: object, *, strings: Strings = Strings.KEYWORD_AND_TEXT, **overrides: Any
) -> dict[str, Any]:
    """Return the whole mapping of a table with a key and a column `c`."""
    fields = [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "c", "required": False, "type": kind},
    ]
    schema = parse_schema(
        json.dumps(
            {"type": "struct", "schema-id": 4, "identifier-field-ids": [1], "fields": fields}
        )
    )
    spec = resolve_spec("db.t", schema, DocumentWishes(strings=strings, mapping=overrides))
    return build_index_mapping(spec, table_uuid="u-1")


@pytest.mark.parametrize(("kind", "expected"), MAPPINGS)
def test_each_type_has_its_mapping(kind: object, expected: dict[str, Any]) -> None:
    assert build_mapping(kind)["properties"] == {"id": {"type": "long"}, "c": expected}


@pytest.mark.parametrize("kind", [*(kind for kind, _ in MAPPINGS), TEXTS])
@pytest.mark.parametrize("strings", Strings)
def test_strings_alone_are_mapped_as_it_is_asked_for(kind: object, strings: Strings) -> None:
    """Wherever they stand, and nothing else is mapped in another way."""
    text = json.dumps(build_mapping(kind)["properties"])
    expected = text.replace(json.dumps(KEYWORD), json.dumps(STRINGS[strings]))
    assert build_mapping(kind, strings=strings)["properties"] == json.loads(expected)


def test_a_mapping_of_ones_own_comes_before_that_of_all_strings() -> None:
    own = {"type": "keyword", "doc_values": False}
    assert build_mapping("string", strings=Strings.TEXT, c=own)["properties"]["c"] == own
    words = build_mapping("string", strings=Strings.TEXT, c={"type": "text", "analyzer": "dutch"})
    assert words["properties"]["c"] == {"type": "text", "analyzer": "dutch"}


def test_a_mapping_is_strict_and_tells_where_it_comes_from() -> None:
    made = build_mapping(INNER)
    meta = made["_meta"]
    assert made["dynamic"] == "strict"
    assert (meta["tableUuid"], meta["schemaId"], meta["contractVersion"]) == ("u-1", 4, 1)
    assert meta["fieldIds"] == {"id": 1, "c": 2, "c.x": 9}
    assert json.loads(json.dumps(meta)) == meta


@pytest.mark.parametrize(
    ("kind", "override", "expected"),
    [
        ("string", {"type": "text"}, {"type": "text"}),
        ("string", {"ignore_above": 100}, {**KEYWORD, "ignore_above": 100}),
        ("int", {"type": "integer"}, {"type": "integer"}),
        (INNER, {"type": "nested"}, {"type": "nested", "properties": {"x": {"type": "long"}}}),
        (INNER, {"type": "flat_object"}, {"type": "flat_object"}),
        # Of some of the fields inside: the others keep theirs.
        (
            TEXTS,
            {"type": "nested", "properties": {"x": {"type": "text"}, "all": {"type": "text"}}},
            {
                "type": "nested",
                "properties": {"x": {"type": "text"}, "y": KEYWORD, "all": {"type": "text"}},
            },
        ),
        (
            TEXTS,
            {"properties": {"y": {"ignore_above": 5}}},
            {"properties": {"x": KEYWORD, "y": {**KEYWORD, "ignore_above": 5}}},
        ),
        (
            TEXTS,
            {"dynamic": False, "properties": {"x": {"type": "text"}}},
            {"dynamic": False, "properties": {"x": {"type": "text"}}},
        ),
        (INNER, {"properties": {"x": "text"}}, {"properties": {"x": "text"}}),
        (INNER, {"properties": []}, {"properties": []}),
    ],
)
def test_an_override_replaces_the_type_or_adds_parameters(
    kind: object, override: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert build_mapping(kind, c=override)["properties"]["c"] == expected


@pytest.mark.parametrize("kind", ["string", INNER])
def test_a_type_that_is_no_text_is_left_to_opensearch_which_refuses_it(kind: object) -> None:
    wish: dict[str, Any] = {"type": ["text"]}
    assert build_mapping(kind, c=wish)["properties"]["c"] == wish


LIST: dict[str, Any] = {"type": "list", "element-id": 8, "element": INNER}


@pytest.mark.parametrize("kind", [INNER, LIST, LIST | {"element-id": 7, "element": LIST}])
def test_an_override_reaches_fields_of_objects_and_of_those_in_lists(kind: object) -> None:
    nested: dict[str, Any] = {"c.x": {"type": "short"}}
    assert build_mapping(kind, **nested)["properties"]["c"] == {"properties": {"x": SHORT}}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ({"type": "nested", "properties": {"x": SHORT}}, {"x": SHORT, "y": KEYWORD}),
        (
            {"properties": {"y": {"ignore_above": 9}}},
            {"x": LONG, "y": KEYWORD | {"ignore_above": 9}},
        ),
        ({"type": "object", "properties": {"z": SHORT}}, {"x": LONG, "y": KEYWORD, "z": SHORT}),
        # OpenSearch refuses it, and says why.
        ({"properties": {"x": "short"}}, {"x": "short", "y": KEYWORD}),
    ],
)
def test_fields_of_an_object_that_its_override_does_not_name_stay(
    override: dict[str, Any], expected: dict[str, Any]
) -> None:
    """The index is strict: without their mapping it would refuse every document."""
    second = {"id": 10, "name": "y", "required": False, "type": "string"}
    two = {"type": "struct", "fields": [*INNER["fields"], second]}
    for kind in (two, LIST | {"element": two}):
        made = build_mapping(kind, c=override)["properties"]["c"]
        assert made == override | {"properties": expected}


def test_fields_that_an_ingest_pipeline_adds_are_mapped_beside_those_of_the_table() -> None:
    schema = parse_schema(
        json.dumps(
            {
                "type": "struct",
                "schema-id": 4,
                "identifier-field-ids": [1],
                "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
            }
        )
    )
    vector = {"type": "knn_vector", "dimension": 3}
    pipeline = IngestPipeline(name="embed", adds={"vector": vector})
    spec = resolve_spec("db.t", schema, DocumentWishes(ingest_pipeline=pipeline))
    mapping = build_index_mapping(spec, table_uuid="u-1")
    assert mapping["properties"] == {"id": {"type": "long"}, "vector": vector}
