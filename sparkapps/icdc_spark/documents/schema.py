"""Hold an Iceberg schema as plain data, read from Iceberg's JSON form (`SchemaParser.toJson`).

Documents, ids and mappings are decided by Iceberg types and field ids, never by the types that
Spark shows (which turn a uuid into a string and a fixed into binary). An example:

    {"id": 3, "name": "tags", "type": {"type": "list", "element-id": 4, "element": "string"}}
    -> Field(id=3, name="tags", type=ListOf(Field(id=4, name="element", type=Primitive("string"))))

It must know neither Spark nor OpenSearch, so that those decisions can be tested without a JVM.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

# Iceberg writes `decimal(9, 2)`, other writers leave out the blank.
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


@dataclass(frozen=True)
class Primitive:
    """A type without children."""

    name: str
    """Iceberg's name without parameters, such as `fixed`."""
    precision: int = 0
    """Of a decimal, the number of its digits; else 0."""
    scale: int = 0
    """Of a decimal, the number of its digits after the point; else 0."""

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return self.name


@dataclass(frozen=True)
class Struct:
    """A group of named fields."""

    fields: tuple["Field", ...]
    """In the order of the schema."""

    def __str__(self) -> str:
        return "struct"


@dataclass(frozen=True)
class ListOf:
    """A list; the element is a field called `element`."""

    element: "Field"
    """Its type, its id, and whether it may be null."""

    def __str__(self) -> str:
        return "list"


@dataclass(frozen=True)
class MapOf:
    """A map; key and value are fields called `key` and `value`."""

    key: "Field"
    """Never null."""
    value: "Field"
    """Its type, its id, and whether it may be null."""

    def __str__(self) -> str:
        return "map"


Type = Primitive | Struct | ListOf | MapOf


@dataclass(frozen=True)
class Field:
    """One column or nested field."""

    id: int
    """Iceberg's field id, which survives a rename."""
    name: str
    """The name without those of the fields above it."""
    type: Type
    """The type; fields below it are in the type."""
    required: bool = False
    """True if no row has a null."""
    has_default: bool = False
    """True if rows written before the field existed show a value in it."""


@dataclass(frozen=True)
class Schema:
    """One schema of a table."""

    id: int
    """The schema id; a table has one schema for each change of its columns."""
    fields: tuple[Field, ...]
    """The top-level columns, in the table's order."""
    identifier_ids: tuple[int, ...] = ()
    """Ids of the fields that the table declares as its key (`identifier-field-ids`)."""

    def find(self, path: str) -> tuple[Field, ...] | None:
        """Return the fields from the top-level column down to `a.b`, through structs only.

        A column whose own name holds dots is found by its whole name.
        """
        return _find(self.fields, path)

    def find_path(self, field_id: int) -> tuple[Field, ...] | None:
        """Return the fields from the top-level column down to this id, through structs only."""
        for path in walk_struct_paths(self.fields):
            if path[-1].id == field_id:
                return path
        return None


def have_one_name(siblings: Sequence[Field]) -> bool:
    """Return whether two of these fields have names equal but for case."""
    # Spark looks names up without case by default, and finds two columns for one.
    return len({field.name.lower() for field in siblings}) < len(siblings)


def has_names_differing_by_case(fields: Iterable[Field]) -> bool:
    """Return whether two fields of one struct, at any depth, have names equal but for case."""
    siblings = list(fields)
    if have_one_name(siblings):
        return True
    return any(has_names_differing_by_case(list_children(field.type)) for field in siblings)


def has_document_field(fields: Iterable[Field], path: str) -> bool:
    """Return whether documents of these fields have one at `a.b`, in objects of lists as well."""
    for field in fields:
        inner = field.type
        while isinstance(inner, ListOf):
            inner = inner.element.type
        rest = path.removeprefix(f"{field.name}.")
        if field.name == path or (
            rest != path and isinstance(inner, Struct) and has_document_field(inner.fields, rest)
        ):
            return True
    return False


def describe_columns(schema: Schema) -> str:
    """Return the names of the top-level columns, as a part of a message."""
    return "the columns are " + ", ".join(f"`{column.name}`" for column in schema.fields)


def parse_schema(text: str) -> Schema:
    """Parse the JSON text that `SchemaParser.toJson` writes."""
    raw: Mapping[str, Any] = json.loads(text)
    return Schema(
        id=int(raw.get("schema-id", 0)),
        fields=tuple(_parse_field(entry) for entry in raw["fields"]),
        identifier_ids=tuple(int(number) for number in raw.get("identifier-field-ids", ())),
    )


def walk_fields(
    field: Field, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Yield the field and everything below it, with their paths of names."""
    here = (*path, field.name)
    yield here, field
    for child in list_children(field.type):
        yield from walk_fields(child, here)


def walk_struct_paths(fields: Iterable[Field]) -> Iterator[tuple[Field, ...]]:
    """Yield each field that has a name of its own, with those above it: what is in structs only."""
    for field in fields:
        yield (field,)
        if isinstance(field.type, Struct):
            for below in walk_struct_paths(field.type.fields):
                yield (field, *below)


def list_mentioned(schema: Schema, condition: str) -> tuple[Field, ...]:
    """Return the top-level columns that a condition in SQL may use, by their names as whole words.

    A name inside a string literal counts as well.
    """
    return tuple(column for column in schema.fields if _is_mentioned(column, condition))


def list_used(schema: Schema, condition: str) -> tuple[Field, ...]:
    """Return the same columns, without the fields inside structs that the condition cannot use.

    Of `address` the condition `address.city = 'Delft'` uses `city`; `address is null` may use all.
    """
    return tuple(_take_used(column, condition) for column in list_mentioned(schema, condition))


def list_topmost(fields: Iterable[Field], ids: Set[int]) -> Iterator[Field]:
    """Yield the fields of these ids, at every depth, that are not inside another one of them."""
    for field in fields:
        if field.id in ids:
            yield field
        else:
            yield from list_topmost(list_children(field.type), ids)


def list_children(kind: Type) -> tuple[Field, ...]:
    """Return the fields directly below a type; empty for a primitive."""
    match kind:
        case Struct(fields):
            return fields
        case ListOf(element):
            return (element,)
        case MapOf(key, value):
            return (key, value)
        case Primitive():
            return ()


def _is_mentioned(field: Field, condition: str, behind: str = "") -> bool:
    word = rf"(?<!\w){re.escape(field.name)}(?!\w){behind}"
    # Without case, as Spark finds columns by default.
    return re.search(word, condition, re.IGNORECASE) is not None


def _take_used(field: Field, condition: str) -> Field:
    # Somewhere no name of a field inside it follows: it may be used whole.
    if _is_mentioned(field, condition, r"(?!`?\s*\.\s*`?\w)") or not isinstance(field.type, Struct):
        return field
    named = (inner for inner in field.type.fields if _is_mentioned(inner, condition))
    return replace(field, type=Struct(tuple(_take_used(inner, condition) for inner in named)))


def _find(fields: tuple[Field, ...], path: str) -> tuple[Field, ...] | None:
    for field in fields:
        # The whole name first: a column may be called `a.b`, beside a struct `a` with a field `b`.
        if field.name == path:
            return (field,)
        if path.startswith(f"{field.name}.") and isinstance(field.type, Struct):
            below = _find(field.type.fields, path[len(field.name) + 1 :])
            if below is not None:
                return (field, *below)
    return None


def _parse_field(raw: Mapping[str, Any]) -> Field:
    return Field(
        id=int(raw["id"]),
        name=str(raw["name"]),
        type=_parse_type(raw["type"]),
        required=bool(raw.get("required", False)),
        # Not `write-default`: that is the value of rows written from now on.
        has_default=raw.get("initial-default") is not None,
    )


def _parse_type(raw: str | Mapping[str, Any]) -> Type:
    if isinstance(raw, str):
        return _parse_primitive(raw)
    if raw["type"] == "struct":
        return Struct(tuple(_parse_field(entry) for entry in raw["fields"]))
    if raw["type"] == "list":
        return ListOf(_parse_child(raw, "element"))
    return MapOf(_parse_child(raw, "key"), _parse_child(raw, "value"))


def _parse_child(raw: Mapping[str, Any], role: str) -> Field:
    return Field(
        id=int(raw[f"{role}-id"]),
        name=role,
        type=_parse_type(raw[role]),
        # Keys of maps are always required, so Iceberg does not write it.
        required=bool(raw.get(f"{role}-required", role == "key")),
    )


def _parse_primitive(text: str) -> Primitive:
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return Primitive("decimal", int(decimal[1]), int(decimal[2]))
    # What follows is the length of a `fixed` or the system of a geometry: no document shows it.
    return Primitive(re.split(r"[\[(]", text, maxsplit=1)[0])
