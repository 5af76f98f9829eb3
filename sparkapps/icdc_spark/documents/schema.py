"""An Iceberg schema as plain data, read from Iceberg's own JSON form (`SchemaParser.toJson`).

Documents, ids and mappings are decided by Iceberg types and field ids, never by the types that
Spark shows (which turn a uuid into a string and a fixed into binary). This module knows neither
Spark nor OpenSearch, so that those decisions can be tested without a JVM.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


@dataclass(frozen=True)
class Primitive:
    """A type without children: `name` is Iceberg's word without parameters, such as `fixed`."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return self.name


@dataclass(frozen=True)
class Struct:
    """A group of named fields."""

    fields: tuple["Field", ...]

    def __str__(self) -> str:
        return "struct"


@dataclass(frozen=True)
class ListOf:
    """A list; the element is a field called `element`."""

    element: "Field"

    def __str__(self) -> str:
        return "list"


@dataclass(frozen=True)
class MapOf:
    """A map; key and value are fields called `key` and `value`."""

    key: "Field"
    value: "Field"

    def __str__(self) -> str:
        return "map"


Type = Primitive | Struct | ListOf | MapOf


@dataclass(frozen=True)
class Field:
    """One column or nested field; `id` is what survives renames.

    `has_default` tells whether rows written before the field existed show a value in it.
    """

    id: int
    name: str
    type: Type
    required: bool = False
    has_default: bool = False


@dataclass(frozen=True)
class Schema:
    """One schema of a table; `identifier_ids` are the fields that the table says are its key."""

    id: int
    fields: tuple[Field, ...]
    identifier_ids: tuple[int, ...] = ()

    def find(self, path: str) -> tuple[Field, ...] | None:
        """The fields from the top-level column down to `a.b`, through structs only.

        A column whose own name holds dots is found by its whole name.
        """
        return _find(self.fields, path)

    def path_of(self, field_id: int) -> tuple[Field, ...] | None:
        """The fields from the top-level column down to the one with this id, through structs."""
        for path in _struct_paths(self.fields):
            if path[-1].id == field_id:
                return path
        return None


def has_names_differing_by_case(fields: Iterable[Field]) -> bool:
    """Whether two fields side by side, at any depth, have names that are equal but for case."""
    listed = list(fields)
    if len({each.name.lower() for each in listed}) < len(listed):
        return True
    return any(has_names_differing_by_case(children(each.type)) for each in listed)


def parse_schema(text: str) -> Schema:
    """The schema behind the JSON text that `SchemaParser.toJson` writes."""
    raw: Mapping[str, Any] = json.loads(text)
    return Schema(
        id=int(raw.get("schema-id", 0)),
        fields=tuple(_field(entry) for entry in raw["fields"]),
        identifier_ids=tuple(int(number) for number in raw.get("identifier-field-ids", ())),
    )


def walk_fields(
    field: Field, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Field]]:
    """The field and everything below it, each with its path of names."""
    here = (*path, field.name)
    yield here, field
    for child in children(field.type):
        yield from walk_fields(child, here)


def children(kind: Type) -> tuple[Field, ...]:
    """The fields directly below a type; empty for a primitive."""
    match kind:
        case Struct(fields):
            return fields
        case ListOf(element):
            return (element,)
        case MapOf(key, value):
            return (key, value)
        case Primitive():
            return ()


def _find(fields: tuple[Field, ...], path: str) -> tuple[Field, ...] | None:
    for field in fields:
        if field.name == path:
            return (field,)
        if path.startswith(f"{field.name}.") and isinstance(field.type, Struct):
            below = _find(field.type.fields, path[len(field.name) + 1 :])
            if below is not None:
                return (field, *below)
    return None


def _struct_paths(fields: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    for field in fields:
        yield (field,)
        if isinstance(field.type, Struct):
            for below in _struct_paths(field.type.fields):
                yield (field, *below)


def _field(raw: Mapping[str, Any]) -> Field:
    return Field(
        id=int(raw["id"]),
        name=str(raw["name"]),
        type=_type(raw["type"]),
        required=bool(raw.get("required", False)),
        has_default=raw.get("initial-default") is not None,
    )


def _type(raw: str | Mapping[str, Any]) -> Type:
    if isinstance(raw, str):
        return _primitive(raw)
    if raw["type"] == "struct":
        return Struct(tuple(_field(entry) for entry in raw["fields"]))
    if raw["type"] == "list":
        return ListOf(_child(raw, "element"))
    return MapOf(_child(raw, "key"), _child(raw, "value"))


def _child(raw: Mapping[str, Any], role: str) -> Field:
    return Field(
        id=int(raw[f"{role}-id"]),
        name=role,
        type=_type(raw[role]),
        required=bool(raw.get(f"{role}-required", role == "key")),
    )


def _primitive(text: str) -> Primitive:
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return Primitive("decimal", int(decimal[1]), int(decimal[2]))
    return Primitive(re.split(r"[\[(]", text, maxsplit=1)[0])
