"""Reads the fenced blocks and the commands of pages, and types commands as a reader does.

Knows nothing of what the commands do.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from icdc_testing import ROOT

HISTORY = ROOT / "CHANGELOG.md"
"""Names commands of the past, and mistakes that were made with them."""
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_KEYWORDS = frozenset({"while", "do", "done", "for", "if", "then", "fi"})
_SEPARATOR = re.compile(r"[;|&]+")
_REDIRECTION = re.compile(r"[<>]+")
_ASSIGNMENT = re.compile(r"\w+=.*")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    """The page's path from the root."""
    info: str
    """What stands behind the fence, such as `sh` or `sh uninstall`."""
    text: str


def list_pages() -> list[Path]:
    """Return every page of the repository that is stored, or will be with the next commit."""
    listing = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run([*listing, "*.md"], capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in sorted(listed.splitlines()) if (ROOT / name).exists()]


def read_blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, also those in lists, in their order."""
    found: list[Block] = []
    info: str | None = None
    lines: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.strip()
        if info is None and fence.startswith("```"):
            info, lines = fence.removeprefix("```").strip(), []
        elif info is not None and fence == "```":
            text = "".join(f"{line}\n" for line in lines)
            found.append(Block(page.relative_to(ROOT).as_posix(), info, text))
            info = None
        elif info is not None:
            lines.append(line)
    assert info is None, f"{page}: a block has no end"
    return found


def list_blocks(page: Path, info: str) -> list[str]:
    """Return the text of each block with that info string."""
    return [block.text for block in read_blocks(page) if block.info == info]


def list_typed() -> list[tuple[str, list[str]]]:
    """Return the page and the words of each command in a block of a shell, of all pages."""
    return [
        (block.page, words)
        for page in list_pages()
        for block in read_blocks(page)
        if block.info.partition(" ")[0] == "sh"
        for words in split_commands(block.text)
    ]


def list_mentioned(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command that the sentences of a page mention.

    Brackets of what may be left out are dropped, and so is `…`; words in turn become one word:
    `icdc dead-letters list|replay [NAME]` gives icdc, dead-letters, list,replay and NAME.
    """
    text = page.read_text(encoding="utf-8")
    for block in read_blocks(page):
        text = text.replace(block.text, "")
    for code in _INLINE.findall(text):
        plain = re.sub(r"(?<=\w)\|(?=[\w-])", ",", code.replace(r"\|", "|"))
        if re.match(r"(icdc|kubectl|helm|make) ", plain):
            yield from split_commands(re.sub(r"[\[\]]|\.\.\.|…", " ", plain))


def split_commands(script: str) -> list[list[str]]:
    """Return the words of each command of a shell script of the kind that pages have.

    a=1 b 'c d' | e > f  # g      [[b, c d], [e]]
    """
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        commands: list[list[str]] = [[]]
        tokens = iter(lexer)
        for token in tokens:
            if _SEPARATOR.fullmatch(token):
                commands.append([])
            elif _REDIRECTION.fullmatch(token):
                next(tokens)
            elif commands[-1] or not (token in _KEYWORDS or _ASSIGNMENT.fullmatch(token)):
                commands[-1].append(token)
        found += [words for words in commands if words]
    return found


def type_commands(
    commands: str, environment: Mapping[str, str], *, folder: Path | None = None, seconds: float
) -> str:
    """Run the lines in a shell and return what they print; AssertionError where one fails."""
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
    return done.stdout
