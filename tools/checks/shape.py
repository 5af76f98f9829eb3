"""Prints the shape of the code: sizes, types, errors and tests, now and at an earlier commit.

A mirror and no limit, as `prose.py` is for words. Reads files as text and as syntax trees, imports
none of them.

    figure                           counts                            not counted
    length of a function             from `def` to its last line       decorators
    return annotations               every function                    lambdas
    broad excepts                    except Exception, or of nothing   except ValueError
    imports within functions         import in a function's body       under TYPE_CHECKING
    more than 3 positional           def f(a, b, c, d), self too       those after `*`
    documented fields                size: int with text of its own    a variable of a function
    class names that stand twice     Step in two modules: 1            in tests
"""

import argparse
import ast
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sources import ROOT, list_python_files, unpack_commit

FOLDERS = ("crds", "operator", "sparkapps", "tools")
TESTS = "tests"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Shape:
    """Counts over some files."""

    files: list[int] = field(default_factory=list)
    """Lines of each file, blank ones too."""
    functions: list[int] = field(default_factory=list)
    """Lines of each function, methods and inner ones too."""
    module_docstrings: int = 0
    """Files that open with one."""
    fields: int = 0
    """Annotated names in the bodies of classes, and members of enums."""
    documented_fields: int = 0
    """Those with a docstring, or a comment above or beside them."""
    annotated: int = 0
    """Functions that say what they return."""
    excepts: int = 0
    """All `except` clauses."""
    broad_excepts: int = 0
    """Those that catch `Exception`, `BaseException` or everything."""
    inner_imports: int = 0
    """Imports in the bodies of functions."""
    many_positional: int = 0
    """Functions with more than three parameters that may be given by position."""
    small_files: int = 0
    """Files of at most 40 lines, without `__init__.py`."""
    test_functions: int = 0
    """Functions whose names begin with `test_`."""
    parametrized: int = 0
    """Uses of `pytest.mark.parametrize`."""
    patches: int = 0
    """Uses of monkeypatch, as parameters of functions, and of `mock`, as imports."""
    classes: Counter[str] = field(default_factory=Counter)
    """How often each name of a class stands."""

    def measure(self, path: Path) -> None:
        """Add one file."""
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines = len(text.splitlines())
        self.files.append(lines)
        self.small_files += lines <= 40 and path.name != "__init__.py"
        self.module_docstrings += ast.get_docstring(tree) is not None
        for node in ast.walk(tree):
            self._measure_node(node)
            if isinstance(node, ast.ClassDef):
                self._measure_fields(node, text.splitlines())

    def _measure_node(self, node: ast.AST) -> None:
        if isinstance(node, Function):
            self._measure_function(node)
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] += 1
        elif isinstance(node, ast.ExceptHandler):
            self.excepts += 1
            self.broad_excepts += node.type is None or any(
                getattr(part, "id", "") in {"Exception", "BaseException"}
                for part in ast.walk(node.type)
            )
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {getattr(node, "module", None), *(alias.name for alias in node.names)}
            self.patches += bool(names & {"unittest.mock", "mock"})

    def _measure_fields(self, node: ast.ClassDef, lines: Sequence[str]) -> None:
        is_enum = any(ast.unparse(base).endswith(("Enum", "Flag")) for base in node.bases)
        for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) or (
                is_enum and isinstance(statement, ast.Assign)
            ):
                self.fields += 1
                # Numbers of lines begin with 1, so the first index is that of the line above.
                above, *own = lines[statement.lineno - 2 : statement.end_lineno]
                self.documented_fields += (
                    _is_text(following)
                    or above.strip().startswith("#")
                    or any("  # " in line for line in own)
                )

    def _measure_function(self, node: Function) -> None:
        self.functions.append((node.end_lineno or node.lineno) - node.lineno + 1)
        self.annotated += node.returns is not None
        arguments = node.args
        self.many_positional += len(arguments.posonlyargs) + len(arguments.args) > 3
        self.inner_imports += sum(
            isinstance(inner, ast.Import | ast.ImportFrom) for inner in _walk_body(node)
        )
        self.test_functions += node.name.startswith("test_")
        self.patches += any(argument.arg == "monkeypatch" for argument in arguments.args)
        self.parametrized += sum(
            getattr(getattr(decorator, "func", None), "attr", "") == "parametrize"
            for decorator in node.decorator_list
        )

    def list_rows(self) -> Iterator[tuple[str, str]]:
        """Yield a label and a figure, line by line of the table."""
        yield "files, lines", f"{len(self.files)}, {sum(self.files):,}"
        yield "file: median/p90/max lines", _summarise(self.files)
        yield "function: median/p90/max lines", _summarise(self.functions)
        yield "modules with a docstring", f"{self.module_docstrings}/{len(self.files)}"
        yield "documented fields", f"{self.documented_fields}/{self.fields}"
        yield "return annotations", f"{self.annotated}/{len(self.functions)}"
        yield "broad excepts", f"{self.broad_excepts}/{self.excepts}"
        yield "imports within functions", str(self.inner_imports)
        yield "more than 3 positional parameters", str(self.many_positional)
        yield "files of at most 40 lines", str(self.small_files)
        twice = sum(1 for count in self.classes.values() if count > 1)
        yield "class names that stand twice", str(twice)
        yield "tests, parametrized", f"{self.test_functions}, {self.parametrized}"
        yield "tests that patch", str(self.patches)


def _is_text(node: ast.stmt | None) -> bool:
    """Return whether the statement is a string alone: the docstring of what stands before it."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _walk_body(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions within it, which count as theirs."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))


def _summarise(lengths: Sequence[int]) -> str:
    """Return the median, the 90th percentile and the maximum, each a length that there is."""
    if not lengths:
        return "-"
    ordered = sorted(lengths)
    p90 = ordered[math.ceil(0.9 * len(ordered)) - 1]
    return f"{ordered[(len(ordered) - 1) // 2]}/{p90}/{ordered[-1]}"


def measure_columns(root: Path, files: Sequence[Path]) -> dict[str, Shape]:
    """Return the shape of each folder of the product, of all of it, and of the tests."""
    columns = {name: Shape() for name in (*FOLDERS, "all", TESTS)}
    for path in files:
        folder = path.relative_to(root).parts[0]
        for name in (folder, "all") if folder in FOLDERS else (folder,):
            if name in columns:
                columns[name].measure(path)
    return columns


def format_table(columns: dict[str, Shape]) -> str:
    """Return the figures as text: a line for each, a column for each shape."""
    table = [("", *columns)]
    cells = [dict(shape.list_rows()) for shape in columns.values()]
    table += [(label, *(column[label] for column in cells)) for label in cells[0]]
    widths = [max(len(line[number]) for line in table) for number in range(len(table[0]))]
    return "".join(
        "  ".join((line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:]))).rstrip() + "\n"
        for line in table
    )


def main() -> int:
    """Print the figures; with `--at COMMIT` those of the product and of the tests then, too."""
    parser = argparse.ArgumentParser(description="The shape of the code, now and then.")
    parser.add_argument("--at", metavar="COMMIT", help="show the figures of this commit beside")
    arguments = parser.parse_args()
    columns = measure_columns(ROOT, list_python_files(ROOT))
    if arguments.at:
        with unpack_commit(arguments.at) as (root, files):
            before = measure_columns(root, files)
        columns |= {f"{name} at {arguments.at}": before[name] for name in ("all", TESTS)}
    sys.stdout.write(format_table(columns))
    return 0


if __name__ == "__main__":
    sys.exit(main())
