"""The schema of the values of charts/iceberg-cdc-pipelines, made from the models of a spec.

`helm` checks values against a `values.schema.json` of the chart before it renders anything, and
then names a misspelt field before the API server is asked. What fields mean together is the
API server's to say: values are parts of specs. Without arguments the schema is printed, `--write`
writes the committed file, with `--check` a file that differs is an error.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from icdc_api.crd.schema import Schema, build_structural_schema, find_node
from icdc_api.spec.pipeline import PipelineSpec

COMMITTED = Path(__file__).parents[2] / "charts" / "iceberg-cdc-pipelines" / "values.schema.json"
# By a list: what only the API server understands stays out, such as `format: int64` and rules in
# CEL. What is left means the same to JSON Schema.
_COPIED = (
    *("enum", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("minItems", "maxItems", "maxProperties"),
)
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
# In quotes, because Helm keeps 53 bits of a number; the template prints a number.
_SNAPSHOT_ID = {"type": ["integer", "string"], "minimum": 1, "pattern": "^[1-9][0-9]{0,18}$"}


def build_document() -> Schema:
    """Return the JSON schema of all values."""
    # Without defaults: those are the API server's, and here they would count as the user's choice.
    spec = _build_values_schema(
        build_structural_schema(PipelineSpec, defaults=False), is_merged=True
    )
    find_node(spec, "tables[].startFrom")["properties"]["snapshotId"] = _SNAPSHOT_ID
    return {
        # Older releases of Helm 3 read no later draft; `$defs` is called `definitions` in it.
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of iceberg-cdc-pipelines. Made by `make charts`. Do not edit.",
        "type": "object",
        "additionalProperties": False,
        "definitions": {"spec": spec},
        "properties": {
            # What a chart above this one gives to all below it; nothing of it is used.
            "global": {"type": "object", "additionalProperties": True},
            # Of a chart above this one as well: whether it includes this one.
            "enabled": {"type": "boolean"},
            "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "namespace": {"type": "string", "maxLength": 63},
            "labels": _TEXTS,
            "annotations": _TEXTS,
            "defaults": {"$ref": "#/definitions/spec"},
            # Null: the key is left empty.
            "pipelines": {
                "type": ["object", "null"],
                "additionalProperties": {"$ref": "#/definitions/spec"},
            },
        },
    }


def _build_values_schema(node: Schema, *, is_merged: bool) -> Schema:
    """Return the schema of one node of values, made from one of the CRD's structural schema.

    `is_merged`: it is laid over a default, so it may be a part, or null.

        spec                     merged: nothing is required, null is allowed
        spec.sink                merged
        spec.tables              merged: null, or a whole list
        spec.tables[]            not merged: `required` holds as in the CRD
    """
    kind = node.get("type")
    result: Schema = {} if kind is None else {"type": [kind, "null"] if is_merged else kind}
    result.update({key: node[key] for key in _COPIED if key in node})
    # null takes a default back, and an enum allows nothing that it does not list.
    if is_merged and "enum" in result:
        result["enum"] = [*result["enum"], None]
    if "items" in node:
        # Lists are replaced whole, never laid over each other: their items must be complete.
        result["items"] = _build_values_schema(node["items"], is_merged=False)
    if kind == "object":
        result["additionalProperties"] = _build_others_schema(node, is_merged=is_merged)
    if "properties" in node:
        below = node["properties"].items()
        result["properties"] = {
            name: _build_values_schema(field, is_merged=is_merged) for name, field in below
        }
    # What is missing here may be in the defaults; what is missing in both, the template refuses
    # (tables, sink) or else the API server.
    if "required" in node and not is_merged:
        result["required"] = node["required"]
    return result


def _build_others_schema(node: Schema, *, is_merged: bool) -> Any:
    """Return the schema of fields besides the properties: false where none may be there."""
    if "additionalProperties" in node:
        # A map from names of the user's choice, such as spark.conf.
        return _build_values_schema(node["additionalProperties"], is_merged=is_merged)
    # Where the CRD keeps unknown fields (pod templates, mappings, settings of an index) Helm must
    # let them pass; elsewhere the API server drops them, and a misspelt field would have no effect.
    return bool(node.get("x-kubernetes-preserve-unknown-fields"))


def render() -> str:
    """Return the schema as JSON: the same text for the same models."""
    return json.dumps(build_document(), indent=1) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Print, write or check; 1 when the committed file differs."""
    parser = argparse.ArgumentParser(description="prints the schema of the pipelines chart")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write the committed file")
    action.add_argument("--check", action="store_true", help="fail when the file differs")
    options = parser.parse_args(arguments)
    if options.write:
        COMMITTED.write_text(render(), encoding="utf-8")
    elif options.check:
        committed = COMMITTED.read_text(encoding="utf-8") if COMMITTED.exists() else ""
        if committed != render():
            sys.stderr.write(f"{COMMITTED} differs from the models: run `make charts`\n")
            return 1
    else:
        sys.stdout.write(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
