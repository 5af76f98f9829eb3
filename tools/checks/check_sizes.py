"""Keep files under 300 lines and functions under 50, so that each can be read at one go.

Comments and docstrings count: they are read too. No list of exceptions, since each would be the
model for the next one.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 300
FUNCTION_LINES = 50
"""From `def` to the last line; decorators, which stand above `def`, are not in it."""


def list_python_files(root: Path) -> list[Path]:
    """Return the Python files that git tracks, and new ones that it does not ignore.

    New ones too: a check before a commit must see what the commit is about to add.
    CalledProcessError outside of a repository.
    """
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # git also lists a file that was deleted and not yet committed.
    return [root / name for name in listing.splitlines() if (root / name).exists()]


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
    root = Path(__file__).resolve().parents[2]
    problems = [line for path in list_python_files(root) for line in find_oversized(path)]
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
