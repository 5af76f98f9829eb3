"""Every field of the spec, as the CRD has it, with another good value and with bad ones.

Made from the schema, so that a new field is tried without a change of a test. Where the schema does
not tell what a good value is, `VALUES` does; `choose_another` fails for a field that needs an entry
there.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from icdc_api.crd import generator
from icdc_testing.kube.stored_pipelines import load_sample

Node = dict[str, Any]

VALUES: Mapping[str, Any] = {
    "tables[].name": "shop.returns",
    "tables[].fields": ["*"],
    "tables[].mapping": {"status": {"type": "keyword"}},
    "tables[].startFrom.timestamp": "2026-03-01T12:00:00Z",
    "resync.tables": ["shop.orders"],
    "changelog.rebuildAbove": 0.5,
    "verify.every": "12h",
    "verify.maxCpu": 1.5,
    "spark.conf": {"spark.sql.shuffle.partitions": "7"},
    "spark.driver.template": {"metadata": {"labels": {"team": "data"}}},
    "spark.executor.template": {"spec": {"priorityClassName": "other"}},
    "sink.opensearch.indexSettings": {"number_of_shards": 2},
    "sink.opensearch.pipeline.name": "embed",
    "sink.opensearch.pipeline.adds": {"vector": {"type": "float"}},
    "sink.opensearch.limits.exportWindow": "08:00-20:00",
}
"""Good values that the schema does not tell."""

_TEXTS = ("other", "/other", "3g", "3Gi", "https://other:9200")
"""The first that a pattern allows is a good value."""

_EXCLUDED_BY: Mapping[str, Mapping[str, Any]] = {
    "tables[].startFrom": {"mode": "StreamOnly"},
    "tables[].fields": {"tables[].columns": None},
    "tables[].identifierColumns": {"tables[].routing": None},
    "tables[].routing": {"tables[].identifierColumns": None},
    "tables[].appendOnly": {"tables[].identifierColumns": None, "tables[].routing": None},
    "sink.opensearch.pipeline.adds": {"sink.opensearch.pipeline.name": "embed"},
}
"""What a field requires of others: they are so before it is changed, too. None: absent."""


@dataclass(frozen=True)
class SpecField:
    """One field, by its path below `spec`; `[]` is the first item of a list."""

    path: str
    node: Mapping[str, Any]

    def __str__(self) -> str:
        return self.path

    @property
    def only_grows(self) -> bool:
        """Return whether the API server refuses to change it back."""
        rules = self.node.get("x-kubernetes-validations", ())
        return any(rule["rule"] == "self >= oldSelf" for rule in rules)

    @property
    def error_pattern(self) -> str:
        """Return what matches the path in an error, which may be about an item of a list."""
        path = re.escape(f"spec.{self.path}").replace(re.escape("[]"), r"\[\d+\]")
        return path + (r"(\[\d+\])?" if self.node["type"] == "array" else "")

    def choose_another(self, before: Any) -> Any:
        """Return a good value that is not `before`."""
        if self.path in VALUES:
            return copy.deepcopy(VALUES[self.path])
        value = _choose_another(self.node, before)
        assert value is not None, f"{self.path}: the schema does not tell a value: see VALUES"
        return value

    def list_wrong(self) -> Iterator[Any]:
        """Yield values that the schema forbids: one for each of its rules, and another kind."""
        node = self.node
        yield {"string": 7, "boolean": "yes", "integer": "7"}.get(node["type"], "text")
        if "enum" in node:
            yield "Everything"
        if "pattern" in node:
            yield "!"
        if "minimum" in node:
            yield node["minimum"] - 1
        if "maximum" in node:
            yield node["maximum"] + 1
        if node.get("minLength"):
            yield ""
        if "maxLength" in node:
            yield "x" * (node["maxLength"] + 1)
        if node.get("minItems"):
            yield []
        if node["type"] == "array" and "maxItems" in node:
            yield [f"other{number}" for number in range(node["maxItems"] + 1)]


def _choose_another(node: Mapping[str, Any], before: Any) -> Any:
    match node["type"]:
        case "boolean":
            return not before
        case "integer":
            least = node.get("minimum", 0)
            more = least if before is None else before + 1
            return more if more <= node.get("maximum", more) else before - 1
        case "string":
            texts = node.get("enum", _TEXTS)
            pattern = re.compile(node.get("pattern", ""))
            good = (text for text in texts if text != before and pattern.search(text))
            return None if node.get("format") else next(good, None)
        case "array":
            item = _choose_another(node["items"], None)
            return None if item is None else [*(before or ()), item]
        case "object" if "additionalProperties" in node:
            value = _choose_another(node["additionalProperties"], None)
            return None if value is None else {**(before or {}), "other": value}
    return None


@cache
def list_fields() -> tuple[SpecField, ...]:
    """Return every field of the spec that has no fields of its own."""
    return tuple(_list_leaves(generator.build_root_schema()["properties"]["spec"], ""))


def _list_leaves(node: Node, path: str) -> Iterator[SpecField]:
    inner = node.get("items", {})
    if "properties" in inner:
        yield from _list_leaves(inner, f"{path}[]")
    elif "properties" in node:
        for name, child in node["properties"].items():
            yield from _list_leaves(child, f"{path}.{name}" if path else name)
    else:
        yield SpecField(path, node)


def make_base(*changed: SpecField) -> Node:
    """Return a spec with every field, in which each of these may be changed alone."""
    spec: Node = load_sample("full")["spec"]
    spec["tables"].append({"name": "shop.customers", "identifierColumns": ["id"]})
    for field in changed:
        for prefix, others in _EXCLUDED_BY.items():
            if field.path.startswith(prefix):
                for path, value in others.items():
                    put(spec, path, value)
    return spec


def change_fields(spec: Mapping[str, Any], *changed: SpecField) -> Node:
    """Return a copy of the spec with other values in these fields."""
    result: Node = copy.deepcopy(dict(spec))
    for field in changed:
        put(result, field.path, field.choose_another(_find(result, field.path)))
    return result


def put(spec: Node, path: str, value: Any) -> None:
    """Set a field, in the first item of each list; None removes it."""
    *parents, last = path.split(".")
    for part in parents:
        name = part.removesuffix("[]")
        spec = spec.setdefault(name, [{}] if part.endswith("[]") else {})
        if part.endswith("[]"):
            spec = _find_item(spec, parents, last)
    if value is None:
        spec.pop(last, None)
    else:
        spec[last] = value


def _find_item(items: Any, parents: list[str], last: str) -> Node:
    """Return the item of a list that has the next part of the path already, or the first one."""
    following = [part.removesuffix("[]") for part in (*parents, last)]
    result: Node = next((item for item in items if set(item) & set(following)), items[0])
    return result


def _find(spec: Mapping[str, Any], path: str) -> Any:
    value: Any = spec
    *parents, last = path.split(".")
    for part in parents:
        value = value.get(part.removesuffix("[]"))
        if value is None:
            return None
        if part.endswith("[]"):
            value = _find_item(value, parents, last)
    return value.get(last)
