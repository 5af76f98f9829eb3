"""Writes the types of a PodTemplateSpec that the operator checks templates against.

spark-operator decodes the templates of all applications together, so that one value of a wrong kind
keeps it from starting anything (icdc_operator.manifests.pods.shapes refuses such a template). A CRD
could hold these types too, but a whole PodTemplateSpec makes it too large for `kubectl apply`.

Reads the OpenAPI v3 document of an API server, `kubectl get --raw /openapi/v3/api/v1`, from
standard input. It has what counts for decoders written in Go: which whole numbers have 32 bits,
which texts are quantities or times. `--write` writes the committed file, one line for each type.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = "io.k8s.api.core.v1.PodTemplateSpec"
COMMITTED = (
    Path(__file__).parents[2]
    / "operator"
    / "icdc_operator"
    / "manifests"
    / "pods"
    / "pod_template.json"
)
_SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
}
"""Types with decoders of their own, which take other values than the schema says; the operator has
checks by hand for them (icdc_operator.manifests.pods.scalars)."""

Schema = dict[str, Any]


class UnknownFormError(Exception):
    """The document holds a form of schema that this tool does not know."""


def list_types(document: Schema) -> dict[str, dict[str, str]]:
    """Return the fields of each type below a PodTemplateSpec, with the type of each.

    `[X]` is a list of X, `{X}` a map from text to X. KeyError for another document than core/v1's.

        PodTemplateSpec    {"metadata": "ObjectMeta", "spec": "PodSpec"}
        PodSpec            {"containers": "[Container]", "nodeSelector": "{string}", ...}
        Container          {"ports": "[ContainerPort]", ...}
        ContainerPort      {"containerPort": "int32", "name": "string", ...}
    """
    schemas: dict[str, Schema] = document["components"]["schemas"]
    fields_by_type: dict[str, dict[str, str]] = {}
    waiting = [ROOT]
    while waiting:
        name = waiting.pop()
        # Several types refer to one: all kinds of containers have ports and probes.
        if _shorten_name(name) in fields_by_type:
            continue
        fields = schemas[name]["properties"]
        fields_by_type[_shorten_name(name)] = {
            field: _name_type(schema, waiting) for field, schema in fields.items()
        }
    return {name: dict(sorted(fields_by_type[name].items())) for name in sorted(fields_by_type)}


def _shorten_name(name: str) -> str:
    # Of the types below a pod no two have the same last word, and these are what people know.
    return name.rsplit(".", 1)[-1]


def _name_type(schema: Schema, waiting: list[str]) -> str:
    """Return the type of a field as the file has it; add what it refers to to `waiting`.

    UnknownFormError for a form that is none of these: a check that lets a value of unknown kind
    pass would be worse than no new file.
    """
    if "allOf" in schema:
        # OpenAPI lets nothing stand beside a reference: one with a default is wrapped in a list.
        (schema,) = schema["allOf"]
    reference = schema.get("$ref")
    if reference is not None:
        name = reference.rsplit("/", 1)[-1]
        if name in _SPECIAL:
            return _SPECIAL[name]
        waiting.append(name)
        return _shorten_name(name)
    match schema:
        case {"type": "array", "items": items}:
            return f"[{_name_type(items, waiting)}]"
        case {"type": "object", "additionalProperties": values}:
            return f"{{{_name_type(values, waiting)}}}"
        case {"type": "string" | "boolean" as kind} if "format" not in schema:
            return str(kind)
        case {"type": "integer", "format": "int32" | "int64" as width}:
            return str(width)
    raise UnknownFormError(json.dumps(schema))


def render(document: Schema) -> str:
    """Return the text of the committed file: the same for the same document."""
    # One line for each type: a new version of Kubernetes then reads well as a difference.
    lines = (f" {json.dumps(name)}: {json.dumps(of)}" for name, of in list_types(document).items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or print the file. No `--check`, as that would take an API server."""
    parser = argparse.ArgumentParser(description="writes the types of a PodTemplateSpec")
    parser.add_argument("--write", action="store_true", help="write the committed file")
    options = parser.parse_args(arguments)
    text = render(json.load(sys.stdin))
    if options.write:
        COMMITTED.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
