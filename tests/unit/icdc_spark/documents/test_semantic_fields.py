"""Fields of mapping type `semantic`, for which OpenSearch adds others without any pipeline."""

import json
from typing import Any

import pytest

from icdc_api.spec.indices.ingest_pipeline import IngestPipeline
from icdc_spark.documents.document_spec import resolve_spec
from icdc_spark.documents.schema import parse_schema
from icdc_spark.documents.wishes import DocumentWishes

pytestmark = pytest.mark.unit

EMBED = IngestPipeline(name="embed", adds={"vector": {"type": "float"}})
SEMANTIC = {"type": "semantic", "model_id": "m"}
CITY = {"id": 4, "name": "city", "required": False, "type": "string"}
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "schema-id": 4,
            "identifier-field-ids": [1],
            "fields": [
                {"id": 1, "name": "id", "required": True, "type": "long"},
                {"id": 2, "name": "note", "required": False, "type": "string"},
                {
                    "id": 3,
                    "name": "address",
                    "required": False,
                    "type": {"type": "struct", "fields": [CITY]},
                },
            ],
        }
    )
)


@pytest.mark.parametrize(
    ("mapping", "added"),
    [
        ({"note": {"type": "text"}}, None),
        ({"note": SEMANTIC}, {"note_semantic_info"}),
        ({"note": {**SEMANTIC, "semantic_info_field_name": "vectors"}}, {"vectors"}),
        ({"address.city": SEMANTIC}, {"address.city_semantic_info"}),
        ({"address": {"properties": {"city": SEMANTIC}}}, {"address.city_semantic_info"}),
    ],
)
def test_what_opensearch_adds_for_a_semantic_field_is_no_field_of_the_table(
    mapping: dict[str, Any], added: set[str] | None
) -> None:
    wishes = DocumentWishes(mapping=mapping)
    spec = resolve_spec("db.t", SCHEMA, wishes)
    assert spec.added == added
    # Indices that exist are still right.
    assert "pipeline" not in spec.stored
    both = resolve_spec("db.t", SCHEMA, DocumentWishes(mapping=mapping, ingest_pipeline=EMBED))
    assert both.added == frozenset({"vector", *(added or ())})
