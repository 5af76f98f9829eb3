"""Keep files under 300 lines and functions under 50, so that each can be read at one go.

Comments and docstrings count: they are read too. No list of exceptions, since each would be the
model for the next one.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from sources import ROOT, list_python_files

FILE_LINES = 300
FUNCTION_LINES = 50
"""From `def` to the last line; decorators, which stand above `def`, are not in it."""


def find_oversized(path: Path) -> Iterator[str]:
    """Yield a sentence for the file and each function in it that is too long."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, at most {FILE_LINES}"
    # A function within a function counts by itself, and in the outer one as well.
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                where = f"{path}:{node.lineno}: {node.name}"
                yield f"{where} has {length} lines, at most {FUNCTION_LINES}"


def main() -> int:
    """Print what is too long; 1 if anything is."""
    problems = [line for path in list_python_files(ROOT) for line in find_oversized(path)]
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
