r"""Templates of `-o jsonpath=…`: the part of kubectl's that selects fields, items and conditions.

Own code, because the libraries for JSONPath know neither the text around the braces nor `range`, so
that a template copied from a script with `kubectl get` would not work.

    {.status.phase}                                        Streaming
    .status.phase                                          refused: kubectl would print it as text
    {.status.phase | upper}                                refused: no name unless escaped
    {.status.tables[*].name}                               shop.orders shop.items
    {.status.conditions[?(@.type=="Ready")].status}        True
    {.metadata.annotations.example\.org/team}              lake
    {range .items[*]}{.metadata.name}{"\n"}{end}           a line for each

A field that is missing gives nothing, as with kubectl. Must not know what a document means.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from icdc_api.errors import BadSpec

Step = Callable[[Any], list[Any]]
"""From one value to those that one step of a path finds in it."""

_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_BLOCK = re.compile(rf"\{{((?:[^{{}}\"']|{_QUOTED})*)\}}")
_STEP = re.compile(
    rf"""\.(?P<name>(?:[^.\[\]\\\s,|()@$?]|\\.)+)
    |\[(?P<index>-?\d+)\]
    |\[(?P<every>\*)\]
    |\[(?P<key>{_QUOTED})\]
    |\[\?\(@(?P<path>(?:\.[\w-]+)+)\s*(?P<operator>==|!=)\s*(?P<value>{_QUOTED}|[\w.-]+)\)\]""",
    re.VERBOSE,
)
_PATH_RULE = """a path is of .field, [0], [*], ['key'] and [?(@.field=="value")]"""
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\'": "'", r"\\": "\\"}


@dataclass(frozen=True)
class Template:
    """A template that has been read."""

    parts: tuple["str | tuple[Step, ...] | RangeLoop", ...]
    """Text, paths and loops, in their order."""

    def render(self, document: Any) -> str:
        """Return the text for a document of plain JSON values."""
        return "".join(self._render_parts(document))

    def _render_parts(self, document: Any) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, str):
                yield part
            elif isinstance(part, RangeLoop):
                yield from map(part.body.render, _follow(document, part.path))
            else:
                yield " ".join(map(_format, _follow(document, part)))


@dataclass(frozen=True)
class RangeLoop:
    """`{range PATH} body {end}`: the body for each value of the path."""

    path: tuple[Step, ...]
    """From the value outside of the loop to those that it goes through."""
    body: Template
    """Rendered with each of them as its document."""


def parse(text: str) -> Template:
    """Return the template in `text`; BadSpec, which quotes the part, for one that is not known."""
    if "{" not in text:
        raise _refuse(text, f"a template has braces, such as {{.{text.lstrip('.')}}}")
    # Odd positions hold what was between braces.
    pieces = _BLOCK.split(text)
    for piece in pieces[::2]:
        if "{" in piece or "}" in piece:
            raise _refuse(piece, "a brace has no partner")
    tokens = [(bool(position % 2), piece) for position, piece in enumerate(pieces)]
    parts, _ = _parse_parts(tokens, within_loop=False)
    return Template(parts)


def _parse_parts(
    tokens: Sequence[tuple[bool, str]], *, within_loop: bool
) -> tuple[tuple["str | tuple[Step, ...] | RangeLoop", ...], Sequence[tuple[bool, str]]]:
    """Return the parts up to the end of the loop or of the text, and the tokens behind it."""
    parts: list[str | tuple[Step, ...] | RangeLoop] = []
    while tokens:
        (is_block, piece), tokens = tokens[0], tokens[1:]
        word = piece.strip()
        if not is_block:
            parts.append(piece)
        elif word == "end":
            if not within_loop:
                raise _refuse("{end}", "it has no {range …}")
            return tuple(parts), tokens
        elif word.startswith("range "):
            body, tokens = _parse_parts(tokens, within_loop=True)
            parts.append(
                RangeLoop(_parse_path(word.removeprefix("range ").strip()), Template(body))
            )
        elif re.fullmatch(_QUOTED, word):
            parts.append(_unquote(word))
        else:
            parts.append(_parse_path(word))
    if within_loop:
        raise _refuse("{range …}", "it has no {end}")
    return tuple(parts), tokens


def _parse_path(text: str) -> tuple[Step, ...]:
    # Root and current value are one here: a path begins at the value that it is given.
    rest = text.removeprefix("$").removeprefix("@")
    if rest in ("", "."):
        return ()
    # kubectl also takes a first field without its dot.
    rest = rest if rest.startswith((".", "[")) else f".{rest}"
    steps: list[Step] = []
    while rest:
        match = _STEP.match(rest)
        if match is None:
            raise _refuse(rest, _PATH_RULE)
        steps.append(_build_step(match))
        rest = rest[match.end() :]
    return tuple(steps)


def _build_step(match: re.Match[str]) -> Step:
    if match["every"] or match["name"] == "*":
        return lambda value: list(value.values()) if isinstance(value, dict) else _as_list(value)
    if match["index"]:
        index = int(match["index"])
        return lambda value: _get_item(_as_list(value), index)
    if match["path"]:
        path, wanted = _parse_path(match["path"]), _unquote(match["value"])
        equal = match["operator"] == "=="

        def holds(item: Any) -> bool:
            texts = [_format(value) for value in _follow(item, path)]
            # As with kubectl, what lacks the field is neither equal nor different.
            return bool(texts) and (wanted in texts) is equal

        return lambda value: list(filter(holds, _as_list(value)))
    name = re.sub(r"\\(.)", r"\1", match["name"]) if match["name"] else _unquote(match["key"])
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _follow(value: Any, path: tuple[Step, ...]) -> list[Any]:
    values = [value]
    for step in path:
        values = [child for one in values for child in step(one)]
    return values


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _get_item(items: list[Any], index: int) -> list[Any]:
    return [items[index]] if -len(items) <= index < len(items) else []


def _format(value: Any) -> str:
    if isinstance(value, str):
        return value
    # kubectl writes whole objects as JSON without blanks, too.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _unquote(text: str) -> str:
    if text[:1] not in "\"'":
        return text
    return re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0]), text[1:-1])


def _refuse(part: str, rule: str) -> BadSpec:
    return BadSpec(f"jsonpath: {part!r} is not understood: {rule}")
