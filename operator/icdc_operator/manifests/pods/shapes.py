"""Check that spark-operator can decode a user's pod template, down to the last value.

The template is schemaless in both resources, but spark-operator decodes it into the Go types of
Kubernetes, as part of a list: one `value: 1` in place of `value: "1"`, or one number that does not
fit 32 bits, would keep it from reading any SparkApplication of the cluster, whoever owns it. So a
template is checked against the types of a whole PodTemplateSpec (pod_template.json, made from the
API server's own description by `make pod-template`), and what they do not know is refused:

    spec.affinity.nodeAffinity: x                            NodeAffinity, a mapping
    spec.containers[0].ports[0].containerPort: 99999999999   int32
    spec.volumes[0].emptyDir.sizeLimit: lots                 quantity

Which values make sense (enums, required fields) is the API server's to say, of one pod at a time.
Values are never shown: those of an environment may be secrets.
"""

import difflib
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from icdc_api.crd.explain import describe_kind, format_path
from icdc_api.problems import find_first_duplicate, format_value
from icdc_operator.manifests.pods import scalars
from icdc_operator.manifests.pods.merge import LIST_KEYS

Path = tuple[str | int, ...]

TYPES: Mapping[str, Mapping[str, str]] = json.loads(
    pathlib.Path(__file__).with_name("pod_template.json").read_text(encoding="utf-8")
)
"""Fields of each type with their types: `[X]` is a list of X, `{X}` a map to X."""

ROOT = "PodTemplateSpec"
_FEW = 8
"""Greatest number of fields that are all listed where one is unknown."""


def find_problems(template: Mapping[str, Any], path: Path) -> Iterator[str]:
    """Yield a line for each value of `template`, which is at `path`, that cannot be decoded."""
    return _check_value(template, ROOT, path)


def _check_value(value: object, kind: str, path: Path) -> Iterator[str]:
    if value is None:
        # Go decodes null as an absent field, but an item of a list must have a value.
        if isinstance(path[-1], int):
            yield _format_line(path, value, _describe_kind(kind))
    elif kind in scalars.SCALARS:
        scalar = scalars.SCALARS[kind]
        if not scalar.is_kind(value):
            yield _format_line(path, value, scalar.kind)
        elif not scalar.fits(value):
            yield _format_line(path, value, scalar.rule)
    elif kind.startswith("["):
        yield from _check_items(value, kind, path)
    elif isinstance(value, dict):
        yield from _check_fields(value, kind, path)
    else:
        yield _format_line(path, value, _describe_kind(kind))


def _check_fields(values: Mapping[str, object], kind: str, path: Path) -> Iterator[str]:
    # `{X}`: any key may stand there, and its value is an X.
    fields = dict.fromkeys(values, kind[1:-1]) if kind.startswith("{") else TYPES[kind]
    for name, value in values.items():
        if name in fields:
            yield from _check_value(value, fields[name], (*path, name))
        else:
            yield f"{format_path((*path, name))}: not allowed; {_suggest_fields(name, kind)}"


def _check_items(items: object, kind: str, path: Path) -> Iterator[str]:
    if not isinstance(items, list):
        yield _format_line(path, items, _describe_kind(kind))
        return
    # `merge` joins items by that field, so each item must have it, and no two the same.
    key = LIST_KEYS.get(str(path[-1]))
    for position, item in enumerate(items):
        here = (*path, position)
        yield from _check_value(item, kind[1:-1], here)
        if key is not None and isinstance(item, dict) and item.get(key) is None:
            yield f"{format_path((*here, key))}: missing; the field is required"
    if key is not None:
        named = [item.get(key) for item in items if isinstance(item, dict)]
        twice = find_first_duplicate(tuple(name for name in named if isinstance(name, str)))
        if twice:
            name = format_value(twice[1])
            yield f"{format_path(path)}: {name} is not allowed twice: each {key} is unique"


def _describe_kind(kind: str) -> str:
    """Return what a value of type `kind` must be, for a message."""
    if kind in scalars.SCALARS:
        return scalars.SCALARS[kind].kind
    if kind.startswith("{"):
        return "a mapping whose values are text" if kind == "{string}" else "a mapping"
    if kind.startswith("["):
        return "a list of text" if kind == "[string]" else _LISTS.get(kind, "a list of mappings")
    return "a mapping"


_LISTS = {"[int32]": "a list of whole numbers", "[int64]": "a list of whole numbers"}


def _suggest_fields(name: str, kind: str) -> str:
    fields = TYPES[kind]
    if len(fields) <= _FEW:
        return f"allowed: {', '.join(fields)}"
    near = difflib.get_close_matches(name, fields, n=1)
    return f"Kubernetes has no such field in {kind}" + (f"; meant is {near[0]}?" if near else "")


def _format_line(path: Path, value: object, wanted: str) -> str:
    hint = ""
    # The usual cause: without quotes YAML reads 1 as a number and true as a flag.
    if wanted == "text" and isinstance(value, bool | int | float):
        hint = "; put it in quotes"
    return f"{format_path(path)}: {describe_kind(value)} is not allowed: it must be {wanted}{hint}"
