"""Keep files under 300 lines, functions under 50, and folders small, to be read at one go.

    crds/icdc_api/spec        11 modules beside __init__.py          at most 14
    sparkapps/icdc_spark      11 modules and folders                 at most 12, and so below it
    the root                  14 entries beside those with a dot     at most 14
    crds/samples/bad          a file for each rule                   not limited
    tests/unit/tools          a file for each tool                   not limited

Comments and docstrings count: they are read too. No file, function or folder of code is an
exception, since each would be the model for the next one.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from sources import ROOT, list_files, list_python_files

FILE_LINES = 300
FUNCTION_LINES = 50
"""From `def` to the last line; decorators, which stand above `def`, are not in it."""
ENTRIES = {"sparkapps/icdc_spark": 12, "": 14}
"""Files and folders that a folder may hold, by the path at or above it; the first that fits counts.
`__init__.py` is not counted, nor is a name with a dot in front, whose path a tool prescribes."""
LIMITED = ("charts", "crds", "operator", "sparkapps", "tests/support", "tools")
"""The folders below which entries are limited, as they are in the root itself."""
CASES = "crds/samples"
"""Holds one file for each case, as folders of tests do: nobody reads it from end to end."""


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


def find_crowded(files: Iterable[PurePath]) -> Iterator[str]:
    """Yield a sentence for each folder with too many entries; `files` are relative to the root."""
    entries: defaultdict[PurePath, set[str]] = defaultdict(set)
    for file in files:
        for entry in (file, *file.parents[:-1]):
            entries[entry.parent].add(entry.name)
    for folder, names in sorted(entries.items()):
        if folder != PurePath() and not _is_below(folder, *LIMITED):
            continue
        count = sum(name != "__init__.py" and not name.startswith(".") for name in names)
        limit = next(limit for path, limit in ENTRIES.items() if _is_below(folder, path))
        if count > limit and not _is_below(folder, CASES):
            yield f"{folder}: {count} entries, at most {limit}"


def _is_below(folder: PurePath, *paths: str) -> bool:
    return any(folder.is_relative_to(path) for path in paths)


def main() -> int:
    """Print what is too long or too crowded; 1 if anything is."""
    problems = [line for path in list_python_files(ROOT) for line in find_oversized(path)]
    problems += find_crowded(path.relative_to(ROOT) for path in list_files(ROOT))
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
