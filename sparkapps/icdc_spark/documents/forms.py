"""Decide which Iceberg types have a document form, and which names may not be field names.

Two types of one *form* give the same text and the same mapping for every value that both can hold,
so a column may change from one to the other without a new export:

| type | form | text of a value |
|---|---|---|
| int, long | `long` | `42` |
| decimal(9,2), decimal(12,2) | `decimal:2` | `"1.50"` |
| decimal(20,2) | `long decimal:2` | `"1.50"`, mapped as keyword: a double has 15 exact digits |
| binary, fixed | `binary` | base64 |

Pure; it must not know Spark.
"""

from collections.abc import Mapping, Set

from icdc_api.errors import UnsupportedType
from icdc_api.spec.indices.fields import RESERVED_FIELDS
from icdc_spark.documents.schema import Field, ListOf, MapOf, Primitive, Struct, Type, walk_fields

EXACT_SCALED_FLOAT_DIGITS = 15
"""Decimal digits that survive the double by which OpenSearch stores a scaled_float."""

_FORMS: Mapping[str, str] = {
    "boolean": "boolean",
    "int": "long",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "time": "time",
    "timestamp_ns": "timestamp_ns",
    "timestamptz_ns": "timestamptz_ns",
    "string": "string",
    "uuid": "uuid",
    "binary": "binary",
    "fixed": "binary",
    "variant": "variant",
}

READ_AS_TEXT = frozenset({"time", "timestamp_ns", "timestamptz_ns"})
"""Types that Spark does not have; readers give the text that documents hold."""

WITHOUT_FORM = frozenset({"geometry", "geography", "unknown"})
"""Types without a document form: no text of their values is agreed upon."""


def name_form(kind: Type) -> str:
    """Return the form's name; equal names mean equal documents and an equal mapping."""
    match kind:
        case Primitive("decimal", precision, scale):
            exact = precision <= EXACT_SCALED_FLOAT_DIGITS
            return f"decimal:{scale}" if exact else f"long decimal:{scale}"
        case Primitive(name):
            return _FORMS.get(name, name)
        case Struct():
            return "struct"
        case ListOf():
            return "list"
        case MapOf():
            return "map"


def name_exact(kind: Type) -> str:
    """Return the form's name, or the type itself where equal values of one form have other hashes.

    Spark hashes an int with 32 bits and a long with 64, a decimal of up to 18 digits as a long and
    others as bytes. So `hash(id) % 10 = 0` lets other rows pass once `id` was widened.
    """
    form = name_form(kind)
    return str(kind) if form.startswith("long") else form


def has_type(column: Field, names: Set[str]) -> bool:
    """Return whether the column, or a field inside it, has a primitive type of these names."""
    return any(
        isinstance(entry.type, Primitive) and entry.type.name in names
        for _, entry in walk_fields(column)
    )


def refuse_undocumentable(table: str, column: Field, *, name: str | None = None) -> None:
    """Raise UnsupportedType if the column or a field inside it has no document form."""
    culprit = find_undocumentable(column)
    if culprit:
        raise UnsupportedType(
            f"{table}: column `{culprit[0] if name is None else name}` has the type {culprit[1]}, "
            "which is not supported; leave it out by naming the other columns in `columns`"
        )


def find_undocumentable(column: Field) -> tuple[str, Type] | None:
    """Return path and type of the first field, from the column down, without a document form."""
    for path, entry in walk_fields(column):
        kind = entry.type
        if isinstance(kind, Primitive) and kind.name not in _FORMS and kind.name != "decimal":
            return ".".join(path), kind
    return None


def refuse_bad_name(table: str, column: Field) -> None:
    """Raise UnsupportedType if OpenSearch would refuse the name of a field."""
    culprit = find_bad_name(column)
    if culprit:
        raise UnsupportedType(
            f"{table}: column `{culprit[0]}` cannot become a field: {culprit[1]}; rename it in the "
            "table, or leave it out by naming the other columns in `columns`"
        )


def find_bad_name(column: Field) -> tuple[str, str] | None:
    """Return the path of the first name that OpenSearch would refuse, and why it would.

    Keys of maps and variants are data, not names: they are not checked.
    """
    if column.name in RESERVED_FIELDS:
        return column.name, "OpenSearch reserves the name"
    for path, entry in _list_named_fields(column, ()):
        if not entry.name.strip():
            return ".".join(path), "its name is empty"
        # OpenSearch would make an object of it: `a.b` becomes `{"a": {"b": ..}}`.
        if "." in entry.name:
            return ".".join(path), "its name holds a dot"
    return None


def _list_named_fields(
    column: Field, above: tuple[str, ...]
) -> list[tuple[tuple[str, ...], Field]]:
    """Return the fields of structs with their paths; list elements and map values have no name."""
    named = [((*above, column.name), column)]
    waiting: list[tuple[tuple[str, ...], Type]] = [((*above, column.name), column.type)]
    while waiting:
        path, kind = waiting.pop()
        match kind:
            case Struct(fields):
                for entry in fields:
                    named.append(((*path, entry.name), entry))
                    waiting.append(((*path, entry.name), entry.type))
            case ListOf(element):
                waiting.append((path, element.type))
            case MapOf() | Primitive():
                # Both become one field, whatever is inside.
                pass
    return named
