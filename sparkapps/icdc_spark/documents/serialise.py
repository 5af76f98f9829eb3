"""Serialise documents by Spark expressions, in the JVM, for export and changelog alike.

Two paths that built documents in two ways would sooner or later disagree about a digit. A value is
first made *canonical*, where `to_json` would not write what the type table says:

| type | value | canonical | JSON |
|---|---|---|---|
| long, string, date, timestamp | `2024-01-01` | as it is | `"2024-01-01"` |
| decimal | 1.50 | cast to string | `"1.50"`, no digit lost |
| double | NaN | null | left out |
| variant | 7 | `{"value": 7}` | an object, as the field is a flat_object |
| map<int, ..> | {1: ..} | keys as text | `{"1": ..}` |

Needs the session settings of `session.APPLICATION_CONF`: UTC, ANSI casts (a decimal's text is plain
only under ANSI), and nulls left out also where a column has a default. It must not know where rows
come from or where documents go.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.documents.schema import Field, ListOf, MapOf, Primitive, Struct, Type

# Always six digits of a second, so that one moment has one text, in ids as well.
_FORMATS = {
    "timestamptz": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timestamp": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "date": "yyyy-MM-dd",
}
_JSON_OPTIONS = {
    "timestampFormat": _FORMATS["timestamptz"],
    "timestampNTZFormat": _FORMATS["timestamp"],
    "dateFormat": _FORMATS["date"],
    "timeZone": "UTC",
    # Drops null fields of objects at every depth; null list elements and map values stay.
    "ignoreNullFields": "true",
}
FLOATS = frozenset({"float", "double"})
"""Types with numbers that JSON does not have: NaN and infinities."""

Cells = Sequence[tuple[Field, Column]]
"""The columns of a document, each with the expression that reads it."""

Address = Sequence[Column]
"""What names a document in a request: the columns `_id`, and `routing` where it has one."""


def serialise_document(cells: Cells) -> Column:
    """Return the `_source` of a row as JSON text; dots in names of fields make objects."""
    values = [(entry.name, to_canonical(cell, entry.type)) for entry, cell in cells]
    return serialise_columns([value.alias(name) for name, value in _nest(values)])


def serialise_columns(columns: Sequence[Column]) -> Column:
    """Return the JSON text of an object with these columns, which must be canonical already."""
    return F.to_json(F.struct(*columns), _JSON_OPTIONS)


def build_index_line(address: Address, source: Column, *, version: int) -> Column:
    """Return two NDJSON lines, as bytes, that write `source` at this external version."""
    line = F.concat(_build_action("index", address, version), F.lit("\n"), source, F.lit("\n"))
    return line.cast("binary")


def build_refused_line(rest: Column, *, version: int) -> Column:
    """Return the lines of a row that is not sent, with the name of the field that failed.

    `rest`: what `finish_refused_line` returns for the row.
    """
    return F.concat(_begin_action("index", version), rest).cast("binary")


def finish_refused_line(address: Address, source: Column, failed: Column) -> Column:
    """Return what the lines of a refused row are but for their version, which each batch has."""
    return F.concat(
        _finish_action([*address, failed.alias("failed")]), F.lit("\n"), source, F.lit("\n")
    )


def build_delete_line(address: Address, *, version: int) -> Column:
    """Return one NDJSON line, as bytes, that deletes the document at this external version."""
    return F.concat(_build_action("delete", address, version), F.lit("\n")).cast("binary")


def format_as_text(cell: Column, kind: Type) -> Column:
    """Return a value as the text of ids and of map keys; null stays null."""
    match kind:
        case Primitive("timestamp" | "timestamptz" as name):
            return F.date_format(cell, _FORMATS[name])
        case Primitive("binary" | "fixed"):
            # Spark breaks base64 text into lines of 76 characters, which to_json does not.
            return F.replace(F.base64(cell), F.lit("\r\n"), F.lit(""))
        case Primitive("variant"):
            return F.to_json(cell)
        case Primitive("string" | "uuid"):
            return cell
        case Primitive():
            return cell.cast("string")
        case _:
            return F.to_json(to_canonical(cell, kind), _JSON_OPTIONS)


def to_canonical(cell: Column, kind: Type) -> Column:
    """Return the value in a shape that `to_json` writes as the type table says."""
    if not _differs(kind):
        return cell
    match kind:
        case Primitive("decimal"):
            return cell.cast("string")
        case Primitive("variant"):
            # A flat_object takes objects only, so other values are wrapped.
            wrapped = F.to_variant_object(F.struct(cell.alias("value")))
            is_object = F.to_json(cell).startswith("{")
            return F.when(is_object, cell).when(cell.isNotNull(), wrapped)
        case Primitive():
            return F.when(_is_finite(cell), cell)
        case Struct(fields):
            children = [to_canonical(cell.getField(f.name), f.type).alias(f.name) for f in fields]
            # A struct built of the fields of a null would be an object, not null.
            return F.when(cell.isNotNull(), F.struct(*children))
        case ListOf(element):
            return F.transform(cell, lambda item: to_canonical(item, element.type))
        case MapOf(key, value):
            return _to_canonical_map(cell, key, value)


def count_non_finite(cells: Cells) -> Column:
    """Return how many NaN and infinities of the row are written as null."""
    # Counted from the cells: in the JSON text they are null already.
    counts = [
        _count_in_cell(cell, entry.type) for entry, cell in cells if _holds_floats(entry.type)
    ]
    return reduce(lambda one, other: one + other, counts, F.lit(0))


def _nest(values: Sequence[tuple[str, Column]]) -> list[tuple[str, Column]]:
    """Return the values by their top-level names; an object without any value is null."""
    below: dict[str, list[tuple[str, Column]]] = {}
    for name, value in values:
        head, _, rest = name.partition(".")
        below.setdefault(head, []).append((rest, value))
    return [
        (name, parts[0][1] if not parts[0][0] else _build_object(_nest(parts)))
        for name, parts in below.items()
    ]


def _build_object(parts: Sequence[tuple[str, Column]]) -> Column:
    has_value = reduce(Column.__or__, [value.isNotNull() for _, value in parts])
    return F.when(has_value, F.struct(*(value.alias(name) for name, value in parts)))


def _build_action(kind: str, address: Address, version: int) -> Column:
    return F.concat(_begin_action(kind, version), _finish_action(address))


def _begin_action(kind: str, version: int) -> Column:
    # The version as text: as a number it would be part of the code that Spark generates for a plan,
    # and each batch would compile its own.
    return F.lit(f'{{"{kind}":{{"version":{version},"version_type":"external",')


def _finish_action(named: Sequence[Column]) -> Column:
    # `to_json` escapes the id; its opening brace is cut off, as the action has begun with one.
    return F.concat(F.substr(F.to_json(F.struct(*named)), F.lit(2)), F.lit("}"))


def _to_canonical_map(cell: Column, key: Field, value: Field) -> Column:
    canonical = cell
    if _differs(value.type):
        canonical = F.transform_values(canonical, lambda _, item: to_canonical(item, value.type))
    if key.type != Primitive("string"):
        canonical = F.transform_keys(canonical, lambda item, _: format_as_text(item, key.type))
    return canonical


def _differs(kind: Type) -> bool:
    """Return whether `to_json` of the plain value is not what the type table says."""
    match kind:
        case Primitive(name):
            return name in FLOATS or name in {"decimal", "variant"}
        case Struct(fields):
            return any(_differs(entry.type) for entry in fields)
        case ListOf(element):
            return _differs(element.type)
        case MapOf(key, value):
            return key.type != Primitive("string") or _differs(value.type)


def _is_finite(cell: Column) -> Column:
    # x - x is zero for finite x only; one branch without casting literals to the type.
    return (cell - cell) == 0


def _holds_floats(kind: Type) -> bool:
    match kind:
        case Primitive(name):
            return name in FLOATS
        case Struct(fields):
            return any(_holds_floats(entry.type) for entry in fields)
        case ListOf(element):
            return _holds_floats(element.type)
        case MapOf(_, value):
            return _holds_floats(value.type)


def _count_in_cell(cell: Column, kind: Type) -> Column:
    match kind:
        case Struct(fields):
            parts = [
                _count_in_cell(cell.getField(entry.name), entry.type)
                for entry in fields
                if _holds_floats(entry.type)
            ]
            return reduce(lambda one, other: one + other, parts, F.lit(0))
        case ListOf(element):
            return _sum(cell, element)
        case MapOf(_, value):
            return _sum(F.map_values(cell), value)
        case Primitive():
            return F.when(cell.isNotNull() & ~_is_finite(cell), 1).otherwise(0)


def _sum(cells: Column, element: Field) -> Column:
    counts = F.transform(cells, lambda item: _count_in_cell(item, element.type))
    total = F.aggregate(counts, F.lit(0), lambda done, more: done + more)
    # A null list or map has a null sum.
    return F.coalesce(total, F.lit(0))
