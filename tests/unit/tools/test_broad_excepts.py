"""Errors that nobody foresaw are caught at the root of a process or a thread, and nowhere else.

Anywhere else it would hide a bug. A handler that cleans up and raises again catches nothing.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
PRODUCT = ("crds", "operator", "sparkapps", "tools")
BROAD = {"Exception", "BaseException"}

ROOTS = {
    "operator/icdc_cli/commands/ui/server.py::_build_safely": "a page: the others go on",
    "operator/icdc_cli/cluster/session.py::ask": "a thread: raised where its answer is waited for",
    "operator/icdc_cli/commands/version.py::_ask_with_limit": "a question: it never fails",
    "operator/icdc_cli/main.py::complete": "the process of a key of Tab",
    "operator/icdc_cli/main.py::_run": "the process `icdc`",
    "operator/icdc_operator/cluster/heads/reader/child.py::serve": "the process of one catalog",
    "operator/icdc_operator/cluster/loop/workers.py::_reconcile_one": "a worker: the others go on",
    "operator/icdc_operator/cluster/main.py::main": "the process `icdc-operator`",
    "sparkapps/icdc_spark/process/failures.py::outlive_errors": "a watch: the next poll follows",
    "sparkapps/icdc_spark/process/failures.py::translate_errors": "a table: others go on",
    "sparkapps/icdc_spark/process/main.py::_end": "the end of a driver whose report is written",
    "sparkapps/icdc_spark/process/main.py::main": "the process of a driver",
    "sparkapps/icdc_spark/reporting/pod_report.py::_work": "a thread: the next report is sent",
    "tools/images/inside/inspect_spark.py::_try_all": "a trial of an image: others follow",
}


def find_broad_excepts(file: Path) -> Iterator[str]:
    """Yield the functions of `file` that catch everything and do not raise it again."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    left: list[tuple[str, ast.AST]] = [("", ast.parse(file.read_text(encoding="utf-8")))]
    while left:
        function, node = left.pop()
        if isinstance(node, ast.ExceptHandler) and is_broad(node):
            yield f"{file.relative_to(ROOT)}::{function}"
        # Of a function within a function, the inner one is named.
        name = node.name if isinstance(node, functions) else function
        left += ((name, child) for child in ast.iter_child_nodes(node))


def is_broad(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in caught)


def test_everything_is_caught_at_the_root_of_a_process_or_a_thread_alone() -> None:
    files = (file for folder in PRODUCT for file in sorted((ROOT / folder).rglob("*.py")))
    assert {name for file in files for name in find_broad_excepts(file)} == set(ROOTS)
