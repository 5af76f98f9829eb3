"""Find the types under which files of any snapshot of a table can be read.

A column may be promoted from int to long, or to more decimal digits. After a rollback the later
snapshot has the narrow type, and files of the earlier one hold the wide type. No reader reads these
as narrow. Both types give the same documents, so the wide type serves for both. Likewise a column
that may be null in any snapshot may be null here: Spark takes a null in a required one for a value,
or fails. Pure functions; schemas are Iceberg's JSON.

Example: the schema of the snapshot, all schemas of the table, and the result.

    field   this schema     other schemas      result
    1       int             long               long
    2       decimal(9, 2)   decimal(18, 2)     decimal(18, 2)
    3       float           double             float: the promotion changes the document
    4       string          -                  string
    5       required        optional           optional
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

_TYPE_KEYS = (("id", "type"), ("element-id", "element"), ("key-id", "key"), ("value-id", "value"))
"""Keys of the field id and of the type in the JSON of a field, a list or a map."""

_FLAG_KEYS = (
    ("id", "required"),
    ("element-id", "element-required"),
    ("value-id", "value-required"),
)
"""Keys of the field id, and of whether no row has a null, likewise; keys of maps are never null."""

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def widen_types(schema: str, schemas: Iterable[str]) -> str:
    """Return `schema` with the widest type that each of its fields has in `schemas`.

    Only promotions after which values give the same documents count. Fields that may be null in one
    of `schemas` may be null; then none is an identifier any more, as Iceberg wants those required.
    """
    other_types: dict[int, list[str]] = {}
    optional: set[int] = set()
    for other_schema in map(json.loads, schemas):
        for holder, id_key, type_key in _find_primitives(other_schema):
            other_types.setdefault(holder[id_key], []).append(holder[type_key])
        for holder, id_key, flag_key in _find_flags(other_schema):
            if not holder[flag_key]:
                optional.add(holder[id_key])
    widened = json.loads(schema)
    relaxed = [
        (holder, flag_key)
        for holder, id_key, flag_key in _find_flags(widened)
        if holder[flag_key] and holder[id_key] in optional
    ]
    for holder, flag_key in relaxed:
        holder[flag_key] = False
        widened.pop("identifier-field-ids", None)
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
    for holder in _walk(json_value):
        for id_key, type_key in _TYPE_KEYS:
            if id_key in holder and isinstance(holder[type_key], str):
                yield holder, id_key, type_key


def _find_flags(json_value: Any) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield each JSON object that says whether a field is required, with its keys likewise."""
    for holder in _walk(json_value):
        for id_key, flag_key in _FLAG_KEYS:
            if id_key in holder and flag_key in holder:
                yield holder, id_key, flag_key


def _walk(json_value: Any) -> Iterator[dict[str, Any]]:
    """Yield each JSON object at any depth."""
    if isinstance(json_value, dict):
        yield json_value
    if isinstance(json_value, dict | list):
        for item in json_value.values() if isinstance(json_value, dict) else json_value:
            yield from _walk(item)


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
