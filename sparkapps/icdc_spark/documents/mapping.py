"""Build the OpenSearch mapping of a physical index from the document spec.

| column | mapping |
|---|---|
| `name string` | `{"type":"keyword","ignore_above":8191,"fields":{"text":{"type":"text"}}}` |
| `price decimal(9,2)` | `{"type":"scaled_float","scaling_factor":100}` |
| `tags array<int>` | `{"type":"long"}`: every field of OpenSearch may have many values |
| `address struct<zip:string>` | `{"properties":{"zip":{"type":"keyword",..}}}` |
| `extra map<string,int>` | `{"type":"flat_object"}`: keys are data, and would flood the mapping |

Above is the default of the spec's `strings`; without words, or without whole values, a string costs
less. What the user wrote in `mapping` is laid over it: parameters are merged where the type is the
same, and replace the derived ones where it is another. `properties` of an object are merged field
by field, unless it also says `dynamic`. Pure: it must not know indices or connections.
"""

from collections.abc import Mapping
from typing import Any

from icdc_api.spec.sink import Strings
from icdc_spark.documents.document_spec import CONTRACT_VERSION, DocumentSpec
from icdc_spark.documents.forms import EXACT_SCALED_FLOAT_DIGITS
from icdc_spark.documents.schema import Field, ListOf, MapOf, Primitive, Struct, Type, walk_fields

KEYWORD_IGNORE_ABOVE = 8191
"""Characters of a keyword; Lucene refuses terms above 32766 bytes, and a character has up to 4."""

_SIMPLE: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "int": {"type": "long"},
    "long": {"type": "long"},
    "float": {"type": "float"},
    "double": {"type": "double"},
    # Without a format: the texts of documents are ISO 8601, which OpenSearch takes by default.
    "date": {"type": "date"},
    "timestamp": {"type": "date"},
    "timestamptz": {"type": "date"},
    # OpenSearch has no type for a time of day. As text of equal length it sorts right.
    "time": {"type": "keyword"},
    "timestamp_ns": {"type": "date_nanos"},
    "timestamptz_ns": {"type": "date_nanos"},
    "uuid": {"type": "keyword"},
    "binary": {"type": "binary"},
    "fixed": {"type": "binary"},
    "variant": {"type": "flat_object"},
}

_OBJECTS = ("object", "nested")
"""Mapping types with fields inside. No set: what a user writes there need not have a hash."""

_KEYWORD = {"type": "keyword", "ignore_above": KEYWORD_IGNORE_ABOVE}
_STRINGS: dict[Strings, dict[str, Any]] = {
    Strings.KEYWORD_AND_TEXT: {**_KEYWORD, "fields": {"text": {"type": "text"}}},
    Strings.KEYWORD: _KEYWORD,
    Strings.TEXT: {"type": "text"},
}


def build_index_mapping(spec: DocumentSpec, *, table_uuid: str) -> dict[str, Any]:
    """Return `mappings` for a new physical index: strict, with its origin in `_meta`."""
    return {
        # A field that is not in the mapping is a mistake of ours: refused, not guessed.
        "dynamic": "strict",
        # A request without a routing, which would reach another shard, is refused.
        **({"_routing": {"required": True}} if spec.routing else {}),
        "_meta": build_mapping_meta(spec, table_uuid=table_uuid),
        "properties": {
            **_build_properties(spec.document, "", spec),
            **(spec.ingest_pipeline.adds if spec.ingest_pipeline else {}),
        },
    }


def build_mapping_meta(spec: DocumentSpec, *, table_uuid: str) -> dict[str, Any]:
    """Return `_meta`: enough to decide later whether the documents are still right."""
    return {
        "contractVersion": CONTRACT_VERSION,
        "tableUuid": table_uuid,
        "schemaId": spec.schema_id,
        "fieldIds": {
            ".".join(path): entry.id
            for made in spec.fields
            for path, entry in walk_fields(made.entry)
            # What an expression makes has no id in the table.
            if entry.id
        },
        "documentSpec": spec.stored,
    }


def _build_properties(fields: tuple[Field, ...], above: str, spec: DocumentSpec) -> dict[str, Any]:
    return {entry.name: _build_field(entry, f"{above}{entry.name}", spec) for entry in fields}


def _build_field(entry: Field, path: str, spec: DocumentSpec) -> dict[str, Any]:
    derived = _build_type(entry.type, path, spec)
    wish = spec.mapping.get(path)
    return derived if wish is None else _lay_over(derived, wish)


def _lay_over(derived: dict[str, Any], wish: Mapping[str, Any]) -> dict[str, Any]:
    """Return the derived mapping of a field with what the user wrote on top."""
    kind = derived.get("type", "object")
    if wish.get("type", kind) != kind:
        # Parameters of one field type are refused by another; only the sub-fields of objects carry
        # on.
        carries = "properties" in derived and wish["type"] in _OBJECTS
        derived = {"properties": derived["properties"]} if carries else {}
    made, inside, own = {**derived, **wish}, derived.get("properties"), wish.get("properties")
    # Of some sub-fields: the others keep theirs, or the strict mapping would refuse each document
    # that has them. With `dynamic` the user says what is to become of others.
    if inside and isinstance(own, Mapping) and "dynamic" not in wish:
        made["properties"] = inside | {
            name: _lay_over(inside.get(name, {}), sub) if isinstance(sub, Mapping) else sub
            for name, sub in own.items()
        }
    return made


def _build_type(kind: Type, path: str, spec: DocumentSpec) -> dict[str, Any]:
    match kind:
        case Primitive("decimal", precision, scale):
            if precision > EXACT_SCALED_FLOAT_DIGITS:
                return {"type": "keyword"}
            # Exact: it is stored as a whole number of the smallest unit of the decimal.
            return {"type": "scaled_float", "scaling_factor": 10**scale}
        case Primitive("string"):
            return dict(_STRINGS[spec.strings])
        case Primitive(name):
            return dict(_SIMPLE[name])
        case Struct(()):
            return {"type": "object"}
        case Struct(fields):
            return {"properties": _build_properties(fields, f"{path}.", spec)}
        case ListOf(element):
            # OpenSearch has no arrays in mappings: every field may hold several values.
            return _build_type(element.type, path, spec)
        case MapOf():
            return {"type": "flat_object"}
