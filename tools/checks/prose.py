"""Prints how we write, beside the figures of projects whose code is pleasant to read.

A mirror and no limit: nothing fails by these figures, and a comment that repeats its line is worse
than none. What is wrong by itself is refused by `check_words.py`. Reads files as text and as syntax
trees, imports none of them.

    figure                            counts                             not counted
    docstrings that open a question   "Which files differ ..."           "Return the files that ..."
    functions named by a participle   def joined(...)                    def join(...), properties
    each, found, known, told          for each in files                  for file in files
    comments                          lines with a # comment             noqa, type: ignore
    all prose                         comments and lines of docstrings   messages in strings
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sources import ROOT, list_python_files, unpack_commit

FOLDERS = ("crds", "operator", "sparkapps", "tools")
TESTS = "tests"
"""Has a column of its own and is no part of `all`: the figures of others are of products alone."""

# Words after which a reader waits for the noun that the sentence is about.
_QUESTION = re.compile(r"(What|Which|Whether|How|Of|Where|Who|Whose|That|Those)\b")
VAGUE = frozenset({"each", "found", "known", "told"})
_IRREGULAR = re.compile(
    "built|done|drawn|found|given|gone|grown|held|kept|known|laid|led|left|lost|made|met|paid|put"
    "|said|seen|sent|shown|taken|thrown|told|undone|worn|written"
)
# They end as participles do, and are verbs or nouns.
_NO_PARTICIPLE = re.compile(
    "bleed|children|embed|even|exceed|feed|golden|happen|listen|maven|need|often|open|proceed|reopen|seed"
    "|seven|shed|speed|succeed|then|token|when"
)
# For tools, not for people.
_PRAGMA = re.compile(r"#\s*(noqa|type:|pragma)")


class Anchor(NamedTuple):
    """The figures of another project, measured in November 2026 with the same definitions."""

    name: str
    """The project."""
    # From here on in the order of `LABELS`, as `Figures.list_rows` has them.
    questions: float
    """Docstrings that open a question, in percent of those of functions."""
    participles: float | None
    """Functions named by a participle, in percent; None: not measured."""
    vague: float
    """Variables and parameters of the names in `VAGUE`, per 10,000 lines."""
    comments: float
    """Lines with a comment, per 100 lines of code."""
    prose: float
    """Lines with a comment or of a docstring, per 100 lines of code."""


ANCHORS = (
    Anchor("kopf", 1, 2, 1, 10.2, 37.0),
    Anchor("pyiceberg", 0, 1, 0, 3.3, 25.0),
    Anchor("psycopg", 0, 0, 0.4, 8.0, 26.9),
    Anchor("trio", 0, 2, 0, 22.8, 57.4),
    Anchor("pydantic", 2, None, 0, 8.1, 44.8),
)


@dataclass
class Figures:
    """Counts over some files."""

    lines: int = 0
    """All, blank ones too: what names are counted against."""
    code_lines: int = 0
    """Lines that are neither blank nor a comment alone; docstrings are among them."""
    comment_lines: int = 0
    """Lines with a comment for people, beside code too."""
    docstring_lines: int = 0
    """Lines of docstrings of modules, classes, functions and attributes."""
    functions: int = 0
    """All, methods and inner ones too."""
    documented: int = 0
    """Functions with a docstring."""
    # As text, "path:line: what", for `--list`: figures count them.
    questions: list[str] = field(default_factory=list)
    participles: list[str] = field(default_factory=list)
    """Functions named by what was done, without properties."""
    vague: list[str] = field(default_factory=list)
    """Variables and parameters of the names in `VAGUE`."""

    def list_rows(self) -> tuple[float, ...]:
        """Return the five figures in the order of `LABELS`."""
        # max: a folder without functions or files has figures of 0, not an error.
        return (
            100 * len(self.questions) / max(self.documented, 1),
            100 * len(self.participles) / max(self.functions, 1),
            10_000 * len(self.vague) / max(self.lines, 1),
            100 * self.comment_lines / max(self.code_lines, 1),
            100 * (self.comment_lines + self.docstring_lines) / max(self.code_lines, 1),
        )


LABELS = (
    "docstrings that open a question, %",
    "functions named by a participle, %",
    "each, found, known, told, per 10,000 lines",
    "comments per 100 code lines",
    "all prose per 100 code lines",
)


def is_participle(name: str) -> bool:
    """True if a function of this name is called after what was done, as `joined_rows` is.

    joined_rows    joined    ends in -ed: True
    _kept          kept      in the list: True
    embed_node     embed     ends so and is a verb: False
    rows_joined    rows      the first word counts: False
    """
    word = name.strip("_").split("_")[0]
    if _NO_PARTICIPLE.fullmatch(word):
        return False
    return bool(_IRREGULAR.fullmatch(word) or re.fullmatch(r"[a-z]+(ed|en)", word))


def count_comments(text: str) -> tuple[int, int]:
    """Return how many lines hold a comment for people, and how many hold nothing else.

    By tokens: `#` within a string is no comment.
    """
    comments = alone = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not _PRAGMA.match(token.string):
            comments += 1
            alone += token.line.strip().startswith("#")
    return comments, alone


def count_docstring_lines(tree: ast.AST) -> int:
    """Count the lines of all strings that stand as statements: docstrings, attributes' included."""
    return sum(
        (node.value.end_lineno or node.value.lineno) - node.value.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def measure(figures: Figures, path: str, text: str) -> None:
    """Add the text of one file to `figures`; `path` is how its worst lines are named."""
    tree = ast.parse(text)
    lines = text.splitlines()
    comments, alone = count_comments(text)
    figures.lines += len(lines)
    figures.code_lines += sum(1 for line in lines if line.strip()) - alone
    figures.comment_lines += comments
    figures.docstring_lines += count_docstring_lines(tree)
    # Every variable that is set, at each place: one that is set often is met often.
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _measure_function(figures, path, node)
        for name in _list_variables(node):
            if name in VAGUE:
                line = getattr(node, "lineno", 0)
                figures.vague.append(f"{path}:{line}: variable {name}")


def _measure_function(
    figures: Figures, path: str, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> None:
    figures.functions += 1
    # @property, @functools.cached_property: the last part of the name, with a module or without.
    where = f"{path}:{node.lineno}"
    decorators = {
        getattr(decorator, "id", getattr(decorator, "attr", ""))
        for decorator in node.decorator_list
    }
    # A property is a value, and a value may be called by what was done to it.
    if is_participle(node.name) and not decorators & {"property", "cached_property"}:
        figures.participles.append(f"{where}: function {node.name}")
    docstring = ast.get_docstring(node)
    if docstring:
        figures.documented += 1
        if _QUESTION.match(docstring):
            figures.questions.append(f"{where}: {docstring.splitlines()[0]}")


def _list_variables(node: ast.AST) -> Iterator[str]:
    """Yield the name that the node gives to a variable or parameter, if it is one that does."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg


def measure_folder(folder: str, root: Path, files: Iterable[Path], figures: Figures) -> None:
    """Add those of the files to `figures` that lie below the folder, a path from `root`.

    `folder` may be a file as well, so that a writer can look at one.
    """
    for path in files:
        name = path.relative_to(root).as_posix()
        if name == folder or name.startswith(f"{folder.rstrip('/')}/"):
            measure(figures, name, path.read_text(encoding="utf-8"))


def measure_columns(
    folders: Sequence[str], root: Path, files: Sequence[Path]
) -> dict[str, Figures]:
    """Return the figures of each folder, then those of all of them together.

    Without folders those of the product, and after `all` those of the tests.
    """
    columns: dict[str, Figures] = {}
    total = Figures()
    for folder in folders or FOLDERS:
        columns[folder] = Figures()
        measure_folder(folder, root, files, columns[folder])
        measure_folder(folder, root, files, total)
    columns["all"] = total
    if not folders:
        columns[TESTS] = Figures()
        measure_folder(TESTS, root, files, columns[TESTS])
    return columns


def format_table(columns: dict[str, Figures]) -> str:
    """Return the figures as text: a column for each of ours, then one for each anchor."""
    heads = [*columns, *(anchor.name for anchor in ANCHORS)]
    ours = [figures.list_rows() for figures in columns.values()]
    theirs = [anchor[1:] for anchor in ANCHORS]
    # Wide enough for a head and for `100.0`.
    widths = [max(len(head), 6) for head in heads]
    lines = [
        " " * 44 + "  ".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    ]
    for number, label in enumerate(LABELS):
        values = [row[number] for row in (*ours, *theirs)]
        cells = ("-" if value is None else f"{value:.1f}" for value in values)
        lines.append(
            f"{label:44}" + "  ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True))
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the figures of the folders, and with `--list` the lines that make them."""
    parser = argparse.ArgumentParser(description="How we write, beside the figures of others.")
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="print the lines that are counted")
    parser.add_argument("--at", metavar="COMMIT", help="measure this commit, not the working tree")
    arguments = parser.parse_args()
    if arguments.at:
        with unpack_commit(arguments.at) as (root, files):
            columns = measure_columns(arguments.folders, root, files)
    else:
        columns = measure_columns(arguments.folders, ROOT, list_python_files(ROOT))
    sys.stdout.write(format_table(columns))
    if arguments.list:
        total = columns["all"]
        for line in (*total.questions, *total.participles, *total.vague):
            sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
