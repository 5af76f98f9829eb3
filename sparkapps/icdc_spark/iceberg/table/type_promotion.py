"""Find the types under which files of any snapshot of a table can be read.

A column may be promoted from int to long, or to more decimal digits. After a rollback the later
snapshot has the narrow type, and files of the earlier one hold the wide type. No reader reads these
as narrow. Both types give the same documents, so the wide type serves for both. Pure functions;
schemas are Iceberg's JSON.

Example: the schema of the snapshot, all schemas of the table, and the result.

    field   this schema     other schemas      result
    1       int             long               long
    2       decimal(9, 2)   decimal(18, 2)     decimal(18, 2)
    3       float           double             float: the promotion changes the document
    4       string          -                  string
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

_TYPE_KEYS = (("id", "type"), ("element-id", "element"), ("key-id", "key"), ("value-id", "value"))
"""Keys of the field id and of the type in the JSON of a field, a list or a map."""

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def widen_types(schema: str, schemas: Iterable[str]) -> str:
    """Return `schema` with the widest type that each of its fields has in `schemas`.

    Only promotions after which values give the same documents count.
    """
    other_types: dict[int, list[str]] = {}
    for text in schemas:
        for holder, id_key, type_key in _find_primitives(json.loads(text)):
            other_types.setdefault(holder[id_key], []).append(holder[type_key])
    widened = json.loads(schema)
    for holder, id_key, type_key in _find_primitives(widened):
        # By field id: a column that was renamed is the same, one of the same name may be another.
        for other in other_types.get(holder[id_key], ()):
            if _is_wider(other, holder[type_key]):
                holder[type_key] = other
    return json.dumps(widened)


def _find_primitives(json_value: Any) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield each JSON object with a primitive type, at any depth.

    With it come its keys of the field id and of the type.
    """
    if isinstance(json_value, list):
        for item in json_value:
            yield from _find_primitives(item)
    if isinstance(json_value, dict):
        for id_key, type_key in _TYPE_KEYS:
            if id_key in json_value and isinstance(json_value[type_key], str):
                yield json_value, id_key, type_key
        for item in json_value.values():
            yield from _find_primitives(item)


def _is_wider(other: str, than: str) -> bool:
    """Return whether `other` is a promotion of the type `than`."""
    if (than, other) == ("int", "long"):
        return True
    narrow, wide = _DECIMAL.fullmatch(than), _DECIMAL.fullmatch(other)
    return (
        narrow is not None
        and wide is not None
        # Iceberg never changes the scale; another one would be another text of the same value.
        and narrow[2] == wide[2]
        and int(wide[1]) > int(narrow[1])
    )
