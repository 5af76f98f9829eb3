"""Read the texts that modules of the product already have, without importing these modules.

Docstrings below members of enums are not kept at run time, and the module of the metrics needs a
library that `icdc` does without. So both are read from the source, which every wheel contains.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources

Text = tuple[str, str]
"""A word and what the source says about it."""

_METRIC = re.compile(r"icdc_[a-z_]+")
_COUNTERS = ("_create_counter", "Counter")
_CALLS = (*_COUNTERS, "_create_gauge", "Gauge", "Histogram", "follow")


def read_members(package: str, path: str, name: str) -> dict[str, str]:
    """Return the docstring of each member of the enum `name`, by the member's value."""
    body = _find_class(package, path, name).body
    return dict(_pair_docstrings(body))


def read_class(package: str, path: str, name: str) -> str:
    """Return the docstring of a class on one line."""
    return _join_lines(ast.get_docstring(_find_class(package, path, name)) or "")


def read_metrics(package: str, path: str) -> dict[str, str]:
    """Return the help of each metric that a module creates, by the name in queries.

    Counter("icdc_reconciles", "Reconciles of …")    icdc_reconciles_total: Reconciles of …
    """
    found: dict[str, str] = {}
    for node in ast.walk(_parse(package, path)):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        name, text = (_read_string(argument) for argument in node.args[:2])
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if name and text and called in _CALLS and _METRIC.fullmatch(name):
            found[f"{name}_total" if called in _COUNTERS else name] = text
    return found


def _pair_docstrings(body: Iterable[ast.stmt]) -> Iterator[Text]:
    """Yield the value of each assignment of text that a docstring follows."""
    value = ""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            value = _read_string(node.value)
        elif isinstance(node, ast.Expr) and value and (text := _read_string(node.value)):
            yield value, _join_lines(text)
            value = ""
        else:
            value = ""


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
