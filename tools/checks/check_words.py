"""Refuses what is wrong with names by itself, whoever reads them.

One name for one thing is a rule that nobody keeps by attention: a word that was given up comes back
with the next branch, and prose goes on naming modules that were moved.

- A class name that stands twice in the repository, `_Rows` beside `Rows` as well: a reader of one
  meets the other.
- A module or file in backticks that does not exist, in docstrings, comments and pages.
- A name in code, or of a module or folder, that is, or holds, a word of the glossary's list of old
  words (docs/glossary.md), such as `told` and `rows_told`; `dead_letters` holds `letters` and is
  allowed, because the list says so.
- A text that code prints or raises and that holds a phrase of that list, such as `at work`.
  Not a single word: sentences need some of them.

Reads files as text and as syntax trees, imports none of them. How we write otherwise is shown by
`prose.py`, which fails nothing.
"""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from check_links import PAGES
from sources import ROOT, list_python_files

PRODUCT = ("crds", "operator", "sparkapps", "tools")
"""The folders whose names are checked; what is in backticks is checked everywhere."""
SUPPORT = "tests/support/"
"""What tests share: what it prints is checked as in the product."""
SOURCES = ("crds", "operator", "sparkapps", "tests/support")
"""The folders from which modules are imported."""
GLOSSARY = "docs/glossary.md"
"""Its table below "## Old words" is the list: people edit it where they read it."""
FOREIGN = frozenset(
    {"catalog", "jvm", "metadata", "process", "result", "retry", "shop", "spark", "spec", "status"}
)
"""Modules whose names also begin fields of resources, properties of Spark and paths in Java."""

_BACKTICKED = re.compile(r"`([^`\s]+)`")
_OLD_WORD = re.compile(r"^\| (`[a-z ]+`) \|[^|]*\|([^|]*)\|$", re.MULTILINE)
_PATH = re.compile(r"(crds|operator|sparkapps|tests|tools|docs|charts)/[\w./*-]*\w")
_DOTTED = re.compile(r"[a-z_]\w*(\.\w+)+")
# Parts of a name of any style: rows_told, ToldRows and HTTPRows give the words told, rows, http.
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True)
class Name:
    """A name that a file gives to something."""

    text: str
    """As it stands in the file."""
    line: int
    """From 1, where it is given."""


def list_names(tree: ast.AST) -> Iterator[Name]:
    """Yield the names of all classes, functions, parameters, variables and attributes set here."""
    # Where a name is only read it was given elsewhere, here or by a library that has its own words.
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield Name(node.name, node.lineno)
            case ast.arg():
                yield Name(node.arg, node.lineno)
            case ast.Name(ctx=ast.Store()):
                yield Name(node.id, node.lineno)
            case ast.Attribute(ctx=ast.Store()):
                yield Name(node.attr, node.lineno)


# -- class names ---------------------------------------------------------------------------------


def find_repeated_classes(trees: Mapping[str, ast.AST]) -> Iterator[str]:
    """Yield a sentence for each class name that stands more than once in the files, by path.

    `_Rows` counts as `Rows`: a reader takes them for one thing.
    """
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].append(f"{path}:{node.lineno}")
    for name, where in sorted(classes.items()):
        if len(where) > 1:
            yield f"{where[0]}: class {name} stands also at {', '.join(where[1:])}"


# -- old words -----------------------------------------------------------------------------------


def parse_old_words(glossary: str) -> dict[str, frozenset[str]]:
    """Return the words of the glossary's list, each with the terms in which it is allowed.

    | `letters` | `dead_letters` | `dead_letters` |     {"letters": {"dead_letters"}}
    | `told` | `known`, with its noun | |              {"told": nothing}
    """
    _, _, section = glossary.partition("## Old words")
    return {
        word.strip("`"): frozenset(_BACKTICKED.findall(allowed))
        for word, allowed in _OLD_WORD.findall(section)
    }


def find_old_word(name: str, words: Mapping[str, frozenset[str]]) -> str | None:
    """Return the old word that the name is or holds as a part, None if it holds none.

    ToldRows        _told_rows_        holds _told_
    retold          _retold_           told is no part of it
    dead_letters    _dead_letters_     _ once the allowed term is taken out
    """
    parts = [part.lower() for part in _PART.findall(name)]
    joined = f"_{'_'.join(parts)}_"
    for word, allowed in words.items():
        # Allowed terms are taken out first: `dead_letters_and_letters` still holds an old word.
        rest = joined
        for term in allowed:
            rest = rest.replace(f"_{term}_", "_")
        if f"_{word.replace(' ', '_')}_" in rest:
            return word
    return None


def find_old_words(
    trees: Mapping[str, ast.AST], words: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    """Yield a sentence for each name in the files, or of one, that holds an old word."""
    for path, tree in trees.items():
        folders_and_module = (Name(part, 1) for part in path.removesuffix(".py").split("/"))
        for name in (*folders_and_module, *list_names(tree)):
            # A test's name is a sentence, in which English needs some of these words.
            is_sentence = name.text.startswith("test_")
            word = None if is_sentence else find_old_word(name.text, words)
            if word:
                yield f"{path}:{name.line}: {name.text}: `{word}` is an old word, see {GLOSSARY}"


def find_old_phrases(
    trees: Mapping[str, ast.AST], words: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    """Yield a sentence for each string in the files, prose aside, that holds an old phrase."""
    phrases = [word for word in words if " " in word]
    for path, tree in trees.items():
        prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            for phrase in phrases:
                if node not in prose and re.search(rf"\b{phrase}\b", node.value.lower()):
                    yield f"{path}:{node.lineno}: `{phrase}` is an old phrase, see {GLOSSARY}"


# -- what is in backticks ------------------------------------------------------------------------


class Modules:
    """The modules that can be imported, and the names that each of them defines."""

    def __init__(self, trees: Mapping[str, ast.AST]) -> None:
        # Modules of one name in several packages become one entry, with the names of all: which
        # `errors` is meant is clear to a reader but not here.
        names = {_name_module(path): _list_top_names(tree) for path, tree in trees.items()}
        for name in list(names):
            # A folder without a module of its own name, as `icdc_testing.operator.kills`.
            names.setdefault(name.rpartition(".")[0], frozenset())
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        for name, defined in names.items():
            parts = name.split(".")
            # By every end of its dotted name: `queue` and `cluster.queue` are spoken of as well.
            for start in range(len(parts)):
                self._names[".".join(parts[start:])] |= defined

    def refutes(self, text: str) -> bool:
        """True if the text is a dotted name that begins with a module of ours and does not exist.

        cluster.kube.errors      a module: exists
        errors.from_status       a name that one of the modules `errors` defines: exists
        cluster.errors           begins with a package of ours, which has no such module: refuted
        spec.resync.nonce        a field of the resource: not ours to say
        """
        first, _, _ = text.partition(".")
        if first in FOREIGN or first not in self._names or text in self._names:
            return False
        module, _, name = text.rpartition(".")
        if module in self._names:
            return name not in self._names[module]
        # `tables.IcebergTable.snapshot`, a member of a class: only the class is looked for, since
        # members may be inherited, or set where no class statement shows them.
        owner, _, kind = module.rpartition(".")
        return kind not in self._names.get(owner, frozenset())


def _name_module(path: str) -> str:
    """Return the dotted name by which a path from the root is imported."""
    for source in SOURCES:
        if path.startswith(f"{source}/"):
            path = path.removeprefix(f"{source}/")
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _list_top_names(tree: ast.AST) -> frozenset[str]:
    """Return what a module has at its top, and what is named within that, such as methods."""
    body = tree.body if isinstance(tree, ast.Module) else []
    names = {name.text for statement in body for name in list_names(statement)}
    # A name that a module imports is spoken of as its own: `status.Condition`.
    for statement in body:
        if isinstance(statement, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in statement.names}
    return frozenset(names)


def list_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and all strings of a Python file that stand as statements, by line.

    Two readers, since a syntax tree has no comments, and tokens do not say which string is prose.
    """
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value


def find_missing_references(
    texts: Iterable[tuple[int, str]], modules: Modules
) -> Iterator[tuple[int, str]]:
    """Yield each module, name in a module, or file that is in backticks and does not exist."""
    for line, text in texts:
        for match in _BACKTICKED.finditer(text):
            # Of `tests/….py::test_…` the file; check_links.py looks for the test.
            reference = match[1].partition("::")[0]
            if _PATH.fullmatch(reference):
                # A path in prose may hold a star: `docs/*.md`.
                missing = not any(ROOT.glob(reference))
            else:
                missing = bool(_DOTTED.fullmatch(reference)) and modules.refutes(reference)
            if missing:
                yield line + text.count("\n", 0, match.start()), reference


def keep_whole_names(text: str) -> str:
    """Return a page without the dotted names that do not begin with one of our packages.

    Fields of resources and values of charts begin as modules do (heads.allowHosts), and a page
    speaks of them, not of modules.
    """
    ours = re.compile(r"icdc_")
    return _BACKTICKED.sub(
        lambda match: match[0] if "/" in match[1] or ours.match(match[1]) else match[1], text
    )


def list_problems() -> Iterator[str]:
    """Yield a sentence for everything that is refused."""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in list_python_files(ROOT)
    }
    trees = {path: ast.parse(text) for path, text in texts.items()}
    product = {path: tree for path, tree in trees.items() if path.split("/")[0] in PRODUCT}
    yield from find_repeated_classes(trees)
    words = parse_old_words((ROOT / GLOSSARY).read_text(encoding="utf-8"))
    yield from find_old_words(trees, words)
    shared = {path: tree for path, tree in trees.items() if path.startswith(SUPPORT)}
    yield from find_old_phrases(product | shared, words)
    modules = Modules({path: tree for path, tree in trees.items() if path.startswith(SOURCES)})
    written = {path: list(list_prose(text)) for path, text in texts.items()}
    for page in sorted(page for pattern in PAGES for page in ROOT.glob(pattern)):
        text = keep_whole_names(page.read_text(encoding="utf-8"))
        written[page.relative_to(ROOT).as_posix()] = [(1, text)]
    for path, parts in written.items():
        for line, reference in find_missing_references(parts, modules):
            yield f"{path}:{line}: `{reference}` does not exist"


def main() -> int:
    """Print what is refused; 1 if anything is."""
    refused = list(list_problems())
    sys.stdout.write("".join(f"{line}\n" for line in refused))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
