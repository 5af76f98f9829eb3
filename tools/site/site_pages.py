"""Turns the pages of the repository into those of the site. Pure: it knows no MkDocs.

The pages are written for a git host, and stay so. Its Markdown and its links differ in these ways
from what the site's renderer takes, and each is changed while the site is built:

| on a git host | on the site |
|---|---|
| `[code](../crds/icdc_api)` | `SOURCE/crds/icdc_api`; without a SOURCE, `code` and no link |
| `[README](../README.md)` | the first page; `PAGES` has all that lie outside of docs/ |
| `<img src="docs/a.png">` in the README | `<img src="a.png">` |
| a list or table right below a paragraph | with an empty line between them |
| a line in a list is indented by two blanks | by four |
| a bar in code in a table is escaped | it stands alone |
| the word after the language of a block of code, for a test | left out |
"""

import posixpath
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = "docs/"
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    ".github/SECURITY.md": "vulnerabilities.md",
    "charts/iceberg-cdc-operator/README.md": "charts/operator.md",
    "charts/iceberg-cdc-pipelines/README.md": "charts/pipelines.md",
    "charts/iceberg-cdc-demo/README.md": "charts/demo.md",
}
"""Pages outside of docs/, with where they are on the site."""

_CODE = r"(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
_LINK = r"(?P<image>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`|\[\])*)\]\((?P<target>[^)\s]+)\)"
# Code comes first, so that a link that it shows stays as it is.
_CODE_OR_LINK = re.compile(f"{_CODE}|{_LINK}", re.DOTALL)
# In a picture of two schemes, for which Markdown has no form.
_ASSET = re.compile(r"\b(?P<name>src|srcset)=\"(?P<target>[^\"]+)\"")
_FENCE = re.compile(r"^ *(```+)", re.MULTILINE)
_ITEM = re.compile(r" *(?:[-*]|\d+\.) ")


def convert_page(text: str, *, path: str, source: str = "") -> str:
    """Return a page as the site takes it; `path` is where it is in the repository.

    `source` is the address below which the repository's files are, empty for none.
    """
    # Its first line says what it is made from, to whom would edit it.
    text = re.sub(r"\A<!--.*?-->\n", "", text, flags=re.DOTALL)
    parts = []
    for part, is_code in _split_fences(text):
        if is_code:
            parts.append(re.sub(r"\A( *```+\w+) .*", r"\1", _indent_block(part)))
        else:
            linked = _CODE_OR_LINK.sub(lambda match: _convert_link(match, path, source), part)
            linked = _ASSET.sub(lambda match: _convert_asset(match, path), linked)
            parts.append(_separate(_indent(linked)))
    return "".join(parts)


def locate_page(path: str) -> str | None:
    """Return where a file of the repository is on the site; None if it is not there."""
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix(DOCS) if path.startswith(DOCS) else None


def _split_fences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in parts, each with whether it is a block of code."""
    start = 0
    fences = iter(_FENCE.finditer(text))
    for opening in fences:
        yield text[start : opening.start()], False
        # A block between longer fences may show shorter ones: only its own length closes it.
        closing = next((one for one in fences if one[1] == opening[1]), None)
        end = text.find("\n", closing.end()) if closing else -1
        start = len(text) if end < 0 else end + 1
        yield text[opening.start() : start], True
    yield text[start:], False


def _convert_link(match: re.Match[str], path: str, source: str) -> str:
    target = match["target"]
    if match["code"] or target.startswith("#") or re.match(r"[a-z]+:", target):
        return match[0]
    name, _, anchor = target.partition("#")
    file, on_site = _find_file(name, path)
    if on_site is None:
        return f"[{match['text']}]({source}/{file})" if source else match["text"]
    return f"{match['image']}[{match['text']}]({on_site}{f'#{anchor}' if anchor else ''})"


def _convert_asset(match: re.Match[str], path: str) -> str:
    _, on_site = _find_file(match["target"], path)
    return f'{match["name"]}="{on_site or match["target"]}"'


def _find_file(name: str, path: str) -> tuple[str, str | None]:
    """Return the file that `name` is on the page at `path`, and where it is from that page on."""
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    on_site = locate_page(file)
    if on_site is None or not (ROOT / file).is_file():
        return file, None
    here = posixpath.dirname(locate_page(path) or "")
    return file, posixpath.relpath(on_site, here or ".")


def _indent(text: str) -> str:
    return re.sub(r"^ {2,3}(?=\S)", "    ", text, flags=re.MULTILINE)


def _indent_block(text: str) -> str:
    """Return a block of code with all its lines moved, where it is in a list."""
    width = len(text) - len(text.lstrip(" "))
    return textwrap.indent(text, " " * (4 - width)) if 0 < width < 4 else text


def _separate(text: str) -> str:
    """Return the text with an empty line before each list and table that has none."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        is_paragraph = bool(before.strip()) and before[0] not in " |#<" and not _ITEM.match(before)
        if is_paragraph and not line.startswith(" ") and (_ITEM.match(line) or line[:1] == "|"):
            lines.append("")
        lines.append(_convert_row(line) if line.lstrip()[:1] == "|" else line)
    return "\n".join(lines)


def _convert_row(line: str) -> str:
    return re.sub(r"`[^`]*`", lambda match: match[0].replace("\\|", "|"), line)
