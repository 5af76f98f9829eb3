"""From the document spec to the OpenSearch mapping of a physical index.

Pure. It knows what OpenSearch calls its field types, and nothing about indices or connections.
"""

from typing import Any

from icdc_spark.documents.document_spec import CONTRACT_VERSION, DocumentSpec
from icdc_spark.documents.forms import EXACT_SCALED_FLOAT_DIGITS
from icdc_spark.documents.schema import Field, ListOf, MapOf, Primitive, Struct, Type, walk_fields

KEYWORD_IGNORE_ABOVE = 8191
"""Characters; Lucene refuses terms above 32766 bytes, and a character takes up to four."""

_SIMPLE: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "int": {"type": "long"},
    "long": {"type": "long"},
    "float": {"type": "float"},
    "double": {"type": "double"},
    "date": {"type": "date"},
    "timestamp": {"type": "date"},
    "timestamptz": {"type": "date"},
    "time": {"type": "keyword"},
    "timestamp_ns": {"type": "date_nanos"},
    "timestamptz_ns": {"type": "date_nanos"},
    "string": {
        "type": "keyword",
        "ignore_above": KEYWORD_IGNORE_ABOVE,
        "fields": {"text": {"type": "text"}},
    },
    "uuid": {"type": "keyword"},
    "binary": {"type": "binary"},
    "fixed": {"type": "binary"},
    "variant": {"type": "flat_object"},
}


def build_index_mapping(spec: DocumentSpec, *, table_uuid: str) -> dict[str, Any]:
    """The body of `mappings` for a new physical index: strict, with its origin in `_meta`."""
    return {
        "dynamic": "strict",
        "_meta": build_mapping_meta(spec, table_uuid=table_uuid),
        "properties": _properties(spec.columns, "", spec),
    }


def build_mapping_meta(spec: DocumentSpec, *, table_uuid: str) -> dict[str, Any]:
    """What `_meta` holds: enough to tell later whether the documents are still right."""
    return {
        "contractVersion": CONTRACT_VERSION,
        "tableUuid": table_uuid,
        "schemaId": spec.schema_id,
        "fieldIds": {
            ".".join(path): entry.id
            for column in spec.columns
            for path, entry in walk_fields(column)
        },
        "documentSpec": spec.stored,
    }


def _properties(fields: tuple[Field, ...], above: str, spec: DocumentSpec) -> dict[str, Any]:
    return {entry.name: _field(entry, f"{above}{entry.name}", spec) for entry in fields}


def _field(entry: Field, path: str, spec: DocumentSpec) -> dict[str, Any]:
    made = _type(entry.type, path, spec)
    wish = spec.mapping.get(path)
    if wish is None:
        return made
    if wish.get("type", made.get("type", "object")) == made.get("type", "object"):
        return {**made, **wish}
    # Parameters of one field type are refused by another; only the sub-fields of objects carry on.
    carries = "properties" in made and wish["type"] in {"object", "nested"}
    kept = {"properties": made["properties"]} if carries else {}
    return {**kept, **wish}


def _type(kind: Type, path: str, spec: DocumentSpec) -> dict[str, Any]:
    match kind:
        case Primitive("decimal", precision, scale):
            if precision > EXACT_SCALED_FLOAT_DIGITS:
                return {"type": "keyword"}
            return {"type": "scaled_float", "scaling_factor": 10**scale}
        case Primitive(name):
            return dict(_SIMPLE[name])
        case Struct(()):
            return {"type": "object"}
        case Struct(fields):
            return {"properties": _properties(fields, f"{path}.", spec)}
        case ListOf(element):
            # OpenSearch has no arrays in mappings: every field may hold several values.
            return _type(element.type, path, spec)
        case MapOf():
            return {"type": "flat_object"}
