"""Read the texts that modules of the product already have, without importing these modules.

Docstrings below members of enums are not kept at run time, and the module of the metrics needs a
library that `icdc` does without. So both are read from the source, which every wheel contains.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import NamedTuple

Text = tuple[str, str]
"""A word and what the source says about it."""


class MetricText(NamedTuple):
    """What the source says of a metric."""

    text: str
    """The help that Prometheus shows."""
    kind: str
    """counter, gauge or histogram."""
    labels: tuple[str, ...]
    """Names of its labels, without those that a scrape adds."""


_METRIC = re.compile(r"icdc_[a-z_]+")
_CALLS = {
    **dict.fromkeys(("_create_counter", "Counter"), "counter"),
    **dict.fromkeys(("_create_gauge", "Gauge", "follow"), "gauge"),
    "Histogram": "histogram",
}


def read_members(package: str, path: str, name: str) -> dict[str, str]:
    """Return the docstring of each member of the enum `name`, by the member's value as text."""
    body = _find_class(package, path, name).body
    return dict(_pair_docstrings(body))


def read_class(package: str, path: str, name: str) -> str:
    """Return the docstring of a class on one line."""
    return _join_lines(ast.get_docstring(_find_class(package, path, name)) or "")


def read_metrics(package: str, path: str) -> dict[str, MetricText]:
    """Return what a module says of each metric that it creates, by the name in queries.

    Counter("icdc_reconciles", "Reconciles of …", "result")
    icdc_reconciles_total: MetricText("Reconciles of …", "counter", ("result",))
    """
    metrics: dict[str, MetricText] = {}
    module = _parse(package, path)
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        name, text = (_read_string(argument) for argument in node.args[:2])
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if name and text and called in _CALLS and _METRIC.fullmatch(name):
            kind, labels = _CALLS[called], tuple(_read_labels(node.args[2:], module))
            # The client library appends the ending.
            metrics[f"{name}_total" if kind == "counter" else name] = MetricText(text, kind, labels)
    return metrics


def _read_labels(arguments: Iterable[ast.expr], module: ast.Module) -> Iterator[str]:
    """Yield labels, also those of a tuple that the module names: `*_OF_PIPELINE, "type"`."""
    for node in arguments:
        if isinstance(node, ast.Constant):
            yield _read_string(node)
        elif isinstance(node, ast.Starred):
            yield from _find_tuple(ast.unparse(node.value), module)


def _find_tuple(name: str, module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            yield from (str(one) for one in ast.literal_eval(node.value))


def _pair_docstrings(body: Iterable[ast.stmt]) -> Iterator[Text]:
    """Yield the value of each assignment of text that a docstring follows."""
    value = ""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            value = _read_value(node.value)
        elif isinstance(node, ast.Expr) and value and (text := _read_string(node.value)):
            yield value, _join_lines(text)
            value = ""
        else:
            value = ""


def _read_value(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _read_string(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _find_class(package: str, path: str, name: str) -> ast.ClassDef:
    for node in _parse(package, path).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    raise LookupError(f"{path} has no class {name}")


@cache
def _parse(package: str, path: str) -> ast.Module:
    source = resources.files(package).joinpath(path).read_text(encoding="utf-8")
    return ast.parse(source)


def _join_lines(text: str) -> str:
    return " ".join(text.split())
