"""Common parts of the tools that make pages of documentation: the command line, and escapes."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def write_or_check(
    pages: Mapping[Path, Callable[[], str]], target: str, arguments: Sequence[str] | None = None
) -> int:
    """Write or check whole pages as the command line says; 1 when a page differs.

    `target` is the target of the Makefile that writes them.
    """
    parser = argparse.ArgumentParser(description="writes pages of the documentation from code")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the pages")
    action.add_argument("--check", action="store_true", help="fail when a page differs")
    options = parser.parse_args(arguments)
    code = 0
    for path, render in pages.items():
        wanted = render()
        if options.write:
            path.write_text(wanted, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != wanted:
            where = path.relative_to(ROOT)
            sys.stderr.write(f"{where} differs from what it is made of: run `make {target}`\n")
            code = 1
    return code


def escape_bars(text: str) -> str:
    """Return the text of a cell, in which a bar would end the cell, also inside of backticks."""
    return text.replace("|", "\\|")


def escape_cell(text: str) -> str:
    """Return plain text, perhaps with parts in backticks, as a cell: no emphasis, no HTML."""
    parts = text.split("`")
    # Each second part is code, in which only bars mean something.
    parts[::2] = [part.replace("*", "\\*").replace("<", "&lt;") for part in parts[::2]]
    return escape_bars("`".join(parts))
