"""Writes docs/reference/spec.md and status.md, the pages of all fields, from the models of the API.

They are made from the schema of the CRD, so a field is described once, by its model. What the CRD
says of a field in one text stands in columns here:

    maxSeconds: {type: integer, minimum: 1, maximum: 86400, default: 600,
                 description: "Seconds between two attempts, at most. Default 600."}
    | `maxSeconds` | whole number, 1 to 86400 | 600 | Seconds between two attempts, at most. |

The default is read from the description, as fields that are newer than the first version have none
in the CRD. Objects that are the same in several places are shown once.

`--check` fails where a page differs, `--write` writes both (`pages`).
"""

import functools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from icdc_api.base import MAX_COUNT
from icdc_api.crd.generator import build_root_schema
from icdc_api.crd.schema import Schema, build_structural_schema, find_node
from icdc_api.spec.indices.fields import FieldEntry
from icdc_api.spec.spark_conf import DOCUMENT
from pages import REFERENCE, escape_cell, write_or_check

_TOP = "<!-- Made from the models in crds/icdc_api by `make reference`. Do not edit. -->\n"
_SPEC = """\
# Fields of the spec

What an `IcebergCDCPipeline` (`icebergcdc.dev/v1alpha1`) may ask for. Unknown fields are refused,
by the API server and by `icdc` alike. The API server refuses what breaks a rule of this page when
the pipeline is written. A few rules it cannot check, such as that two tables have different
indices: the operator reports these in the condition `SpecValid`, and `icdc plan -f` before that.
[Samples](../../crds/samples) of valid pipelines.

## metadata
Only the name means something here.
"""
_STATUS = """\
# Fields of the status

What the operator knows about a pipeline, as `kubectl get icdc NAME -o yaml` and
`icdc status NAME -o json` print it. A field without a value is left out. What the values of
`reason`, `class` and `type` mean: [all words](../words.md).
"""
# Up to a full stop that ends the sentence: a default such as 0.5 has a point in it.
_DEFAULT = re.compile(r"(?:^|(?<=\. ))Default:? (.+?)\.(?= |$) ?")
_REQUIRED = re.compile(r"(?:^|(?<=\. ))Required\. ?")
_KINDS = {"string": "text", "integer": "whole number", "boolean": "true or false"}
_ENTRY = "spec.tables[].fields[]"
"""Has no fields in the CRD, since an entry may be a text or an object."""


class FieldsPage(NamedTuple):
    """The page of the spec, or that of the status."""

    field: str
    """The field of the resource, and the name of the page."""
    top: str
    """What stands above the table."""
    has_defaults: bool
    """Whether its fields have defaults: those of the spec do."""

    @property
    def path(self) -> Path:
        return REFERENCE / f"{self.field}.md"


PAGES = (FieldsPage("spec", _SPEC, True), FieldsPage("status", _STATUS, False))


def render_page(page: FieldsPage) -> str:
    """Return the whole page: a part for each object, in the order of the models."""
    root = build_root_schema()
    if page.has_defaults:
        find_node(root, _ENTRY.removesuffix("[]"))["items"] |= build_structural_schema(
            FieldEntry, defaults=True
        )
    top = root["properties"][page.field]
    shown_at: dict[str, str] = {}
    for path, node in _list_objects(top, page.field):
        # The first path shows the fields, and rows of later ones lead there.
        shown_at.setdefault(_describe_form(node), path)
    parts = (
        part
        for path, node in _list_objects(top, page.field)
        if shown_at[_describe_form(node)] == path
        for part in _render_object(node, path, page.has_defaults, shown_at)
    )
    # Rules at the root are about the name; the page of the status has no part for it.
    name = _render_rules(rule["message"] for rule in root["x-kubernetes-validations"])
    return "".join((_TOP, page.top, name if page.has_defaults else "", *parts))


def _list_objects(node: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield an object and those in it, with their paths, in the order of the page."""
    yield path, node
    for name, child in node["properties"].items():
        below, ending = _find_object(child)
        if below is not None:
            yield from _list_objects(below, f"{path}.{name}{ending}")


def _render_object(
    node: Schema, path: str, has_defaults: bool, shown_at: Mapping[str, str]
) -> Iterator[str]:
    """Yield the part of an object; `shown_at` has the path at which each form is shown."""
    yield f"\n## {path}\n"
    # That of a field is in its row above.
    if path.endswith("]") or "." not in path:
        yield f"{_escape(node['description'])}\n\n"
    yield "| field | type |" + (" default |" if has_defaults else "") + " what it is |\n"
    yield "|---" * (4 if has_defaults else 3) + "|\n"
    for name, child in node["properties"].items():
        required = name in node.get("required", ())
        yield _render_row(f"{path}.{name}", child, required, has_defaults, shown_at)
    yield _render_rules(_list_rules(node))


def _render_rules(messages: Iterable[str]) -> str:
    lines = [f"- {_escape(message)}\n" for message in messages]
    return "".join(("\nRules:\n\n", *lines)) if lines else ""


def _render_row(
    path: str, node: Schema, required: bool, has_defaults: bool, shown_at: Mapping[str, str]
) -> str:
    default, text = _split(node)
    below, _ = _find_object(node)
    name = f"`{path.rpartition('.')[2]}`"
    if below is not None:
        name = f"[{name}](#{_build_anchor(shown_at[_describe_form(below)])})"
    cells = [f'<a id="{path}"></a>{name}', _describe_type(node)]
    if has_defaults:
        cells.append("required" if required else _escape(default))
    return f"| {' | '.join((*cells, _escape(text)))} |\n"


def _split(node: Schema) -> tuple[str, str]:
    """Return the default and the rest of a description."""
    text = node.get("description", "")
    match = _DEFAULT.search(text)
    rest = _DEFAULT.sub("", text, count=1)
    rest = _REQUIRED.sub("", rest).strip()
    return (match[1] if match else ""), rest[:1].upper() + rest[1:]


def _find_object(node: Schema) -> tuple[Schema | None, str]:
    """Return the object with fields that a value is or has, and what its path ends in."""
    ending = ""
    while "items" in node or "additionalProperties" in node:
        ending += "[]" if "items" in node else "{}"
        node = node["items"] if "items" in node else node["additionalProperties"]
    return (node, ending) if "properties" in node else (None, ending)


def _describe_form(node: Schema) -> str:
    """Return what two objects have in common that have the same fields."""
    return json.dumps(node["properties"], sort_keys=True)


def _describe_type(node: Schema) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    match node.get("type"):
        case "array":
            size = _describe_bounds(node, "minItems", "maxItems")
            return f"list{size and f' of {size}'}: {_describe_type(node['items'])}"
        case "object" if "additionalProperties" in node:
            inner = _describe_type(node["additionalProperties"])
            size = _describe_bounds(node, "minProperties", "maxProperties")
            return f"map{size and f' of {size}'}: {inner}"
        case "object" if "properties" not in node:
            return "object with any fields"
        case "string":
            size = _describe_bounds(node, "minLength", "maxLength")
            # Of a text that a pattern describes as a whole, the length is no news.
            if "pattern" in node:
                return f"text: {_escape('`' + node['pattern'] + '`')}"
            return f"text{size and f', {size} characters'}"
        case "integer" | "number" as kind:
            size = _describe_bounds(node, "minimum", "maximum")
            return f"{_KINDS.get(kind, kind)}{size and f', {size}'}"
        case str(kind):
            return _KINDS.get(kind, kind)
        case _:
            return "`*` or object"


def _describe_bounds(node: Schema, least: str, most: str) -> str:
    """Return the bounds as text; empty where they say nothing."""
    low, high = node.get(least), node.get(most)
    # MAX_COUNT bounds every count for the sake of JSON readers: no news about this one.
    if high is not None and high < MAX_COUNT:
        return f"{low} to {high}" if low else f"at most {high}"
    return f"at least {low}" if low is not None and low > 0 else ""


def _list_rules(node: Schema) -> Iterator[str]:
    """Yield the rules of an object and of values in it that are no objects themselves."""
    for rule in node.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for child in node["properties"].values():
        part: dict[str, Any] | None = child
        while part is not None and "properties" not in part:
            yield from (rule["message"] for rule in part.get("x-kubernetes-validations", ()))
            part = part.get("items") or part.get("additionalProperties")


def _build_anchor(path: str) -> str:
    """Return the anchor that renderers make of a heading that is a path."""
    return re.sub(r"[^\w-]", "", path.lower())


def _escape(text: str) -> str:
    """Return a text of a model as a cell of a table, with a link to the page that some name."""
    link = f"[{DOCUMENT}](../{DOCUMENT.removeprefix('docs/')})"
    return escape_cell(text).replace(DOCUMENT, link)


if __name__ == "__main__":
    made = {page.path: functools.partial(render_page, page) for page in PAGES}
    sys.exit(write_or_check(made, "reference"))
