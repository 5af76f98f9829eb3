"""The types under which files of any snapshot of a table can be read.

A column may grow from int to long, or in decimal digits. After a rollback the later snapshot has
the narrow type, and files of the earlier one hold the wide one, which no reader reads as narrow.
Both give the same documents, so the wide type serves for both. Pure; schemas are Iceberg's JSON.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

_ROLES = (("id", "type"), ("element-id", "element"), ("key-id", "key"), ("value-id", "value"))
"""Where a type stands in the JSON of a field, a list or a map, and where its field id."""

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def widest(schema: str, schemas: Iterable[str]) -> str:
    """The schema with the widest type of one document form that each of its fields has had."""
    others: dict[int, list[str]] = {}
    for text in schemas:
        for holder, number, role in _typed(json.loads(text)):
            others.setdefault(holder[number], []).append(holder[role])
    raw = json.loads(schema)
    for holder, number, role in _typed(raw):
        for other in others.get(holder[number], ()):
            if _is_wider(other, holder[role]):
                holder[role] = other
    return json.dumps(raw)


def _typed(raw: Any) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Whatever holds a primitive type with a field id, at any depth, with the names of both."""
    if isinstance(raw, list):
        for each in raw:
            yield from _typed(each)
    if isinstance(raw, dict):
        for number, role in _ROLES:
            if number in raw and isinstance(raw[role], str):
                yield raw, number, role
        for each in raw.values():
            yield from _typed(each)


def _is_wider(other: str, than: str) -> bool:
    if (than, other) == ("int", "long"):
        return True
    narrow, wide = _DECIMAL.fullmatch(than), _DECIMAL.fullmatch(other)
    return (
        narrow is not None
        and wide is not None
        and narrow[2] == wide[2]
        and int(wide[1]) > int(narrow[1])
    )
