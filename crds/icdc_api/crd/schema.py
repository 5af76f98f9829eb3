"""Convert a model's JSON schema to the structural OpenAPI schema of a CRD.

    JSON schema of pydantic                       structural schema
    {$ref: #/$defs/Retry}                         the properties of Retry, in place
    {anyOf: [{type: integer}, {type: null}]}      {type: integer, format: int64}, optional
    {title: X, type: string}                      {type: string}

Null means absent in Kubernetes, so `X | None` is an optional X.
"""

from typing import Any

from icdc_api.base import MAX_COUNT, ApiModel

Schema = dict[str, Any]

_COPIED = (
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
)


def build_structural_schema(model: type[ApiModel], *, defaults: bool) -> Schema:
    """Return the schema of `model`. `defaults`: whether the API server fills them in."""
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(document.get("$defs", {}), defaults).convert(document)


class _Converter:
    def __init__(self, definitions: Schema, defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults

    def convert(self, source: Schema) -> Schema:
        """Return `source`, a node of the JSON schema, in structural form."""
        node = self._resolve(source)
        result: Schema = {}
        if "description" in node:
            result["description"] = " ".join(node["description"].split())
        # By a list: a keyword that a later pydantic adds must not reach the CRD unnoticed.
        result.update({key: node[key] for key in _COPIED if key in node})
        result.update({key: node[key] for key in node if key.startswith("x-kubernetes-")})
        if node.get("type") == "integer":
            result["format"] = "int64"
        if result.get("maximum", 0) > MAX_COUNT:
            # The API server reads bounds as doubles and would overflow; the format is the bound.
            del result["maximum"]
        if "items" in node:
            result["items"] = self.convert(node["items"])
        if "properties" in node:
            properties = node["properties"].items()
            result["properties"] = {name: self.convert(item) for name, item in properties}
        if isinstance(node.get("additionalProperties"), dict):
            result["additionalProperties"] = self.convert(node["additionalProperties"])
        default = _without_empty(node.get("default"))
        if self._defaults and default not in (None, [], {}):
            # Complete, not {}: the API server validates it before it fills in nested defaults.
            result["default"] = default
        return result

    def _resolve(self, source: Schema) -> Schema:
        """Return `source` with `$ref` and `X | None` replaced by the schema that they stand for."""
        node = dict(source)
        while "$ref" in node or "anyOf" in node:
            if "$ref" in node:
                name = node.pop("$ref").rsplit("/", 1)[-1]
                # What stands beside the reference wins: a field is described by its own docstring,
                # and only without one by that of its model.
                node = {**self._definitions[name], **node}
            else:
                # Unpacked as one: a structural schema has no form for a value of two kinds, so
                # such a field fails here and not in the cluster.
                (only,) = [item for item in node.pop("anyOf") if item.get("type") != "null"]
                node = {**only, **node}
        return node


def _without_empty(default: Any) -> Any:
    """Return `default` without empty lists and maps, which mean the same as absent ones."""
    if not isinstance(default, dict):
        return default
    fields = {name: _without_empty(value) for name, value in default.items()}
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def find_node(root: Schema, path: str) -> Schema:
    """Return the node at `path`, such as `spec.tables[].name`; `[]` for the items of a list."""
    node = root
    for part in path.split(".") if path else ():
        name = part.removesuffix("[]")
        node = node["properties"][name]
        if part.endswith("[]"):
            node = node["items"]
    return node
