"""Resolve `fields` against the schema of a table: what each field of a document is made of.

Example, a table with the columns `id`, `name`, `price`, `n` and `notes`:

    entry                                        field            made of
    "*"                                          id, price, n     the columns that no entry names
    {name: customer.name, from: name}            customer.name    the column `name`
    {name: total, expression: "price * n"}       total            an expression that reads two
    {exclude: notes}                             none

The name of a field is whole, dots included: they become objects where the document is built. What
type an expression has is asked of a function, so that this module need not know Spark.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from icdc_api.base import shorten
from icdc_api.errors import FieldInvalid
from icdc_api.spec.indices.fields import EVERY, FieldEntry, find_conflict
from icdc_spark.documents.forms import find_bad_name, find_undocumentable
from icdc_spark.documents.schema import (
    Field,
    ListOf,
    MapOf,
    Schema,
    Struct,
    Type,
    describe_columns,
    have_one_name,
    list_children,
    walk_fields,
    walk_struct_paths,
)

MOST_SHOWN = 300
"""Characters of an expression in a message."""


@dataclass(frozen=True)
class Expression:
    """Spark SQL over the columns of a row."""

    text: str
    """As the user wrote it."""
    reads: tuple[Field, ...]
    """The top-level columns that it names, in the order of their ids."""


@dataclass(frozen=True)
class DocumentField:
    """One field of the documents, and what it is made of."""

    entry: Field
    """Its name, in which dots build objects, and its type; the id is the column's, or 0."""
    source: tuple[Field, ...] | Expression
    """The column, or the path to a field in a struct; or an expression."""


class Analysis(NamedTuple):
    """What is known of an expression before it is evaluated."""

    type: Type
    """The type of its values."""
    columns: frozenset[str]
    """The names of the top-level columns that it reads."""


Analyse = Callable[[Schema, str, str], Analysis]
"""Analyses an expression over the columns of a schema, for the field of a name. FieldInvalid where
it cannot be evaluated, or needs more than the row."""


def take_columns(columns: Sequence[Field]) -> tuple[DocumentField, ...]:
    """Return a field for each column, under its own name."""
    return tuple(DocumentField(column, (column,)) for column in columns)


def resolve_fields(
    table: str, schema: Schema, entries: Sequence[FieldEntry], analyse: Analyse
) -> tuple[DocumentField, ...]:
    """Return the fields that the entries make, in their order; FieldInvalid where one cannot be."""
    named = {
        entry.name: _resolve_entry(table, schema, entry, analyse)
        for entry in entries
        if entry.name is not None and entry.name != EVERY
    }
    excluded = {column.id for column in _list_excluded(table, schema, entries)}
    rest = [
        column
        for column in list_left_out(schema, tuple(named.values()))
        if column.id not in excluded and column.name not in named
    ]
    fields = [
        field
        for entry in entries
        if entry.name is not None
        for field in (take_columns(rest) if entry.name == EVERY else (named[entry.name],))
    ]
    _refuse_conflicts(table, fields)
    for field in fields:
        _refuse_form(table, field)
    if not any(list_columns_read(field) for field in fields):
        raise FieldInvalid(f"{table}: fields: no field reads a column, so all documents are equal")
    return tuple(fields)


def _list_excluded(table: str, schema: Schema, entries: Sequence[FieldEntry]) -> Iterator[Field]:
    """Yield the columns that entries exclude; FieldInvalid for a name that is none."""
    names = {column.name: column for column in schema.fields}
    for entry in entries:
        if entry.exclude is None:
            continue
        if entry.exclude not in names:
            raise FieldInvalid(
                f"{table}: fields: exclude names `{entry.exclude}`, which is not a top-level "
                f"column; {_suggest(schema, names, entry.exclude)}"
            )
        yield names[entry.exclude]


def list_left_out(schema: Schema, fields: Sequence[DocumentField]) -> tuple[Field, ...]:
    """Return the columns that are not, as a whole, the source of a field."""
    whole = {field.source for field in fields}
    return tuple(column for column in schema.fields if (column,) not in whole)


def list_columns_read(field: DocumentField) -> tuple[Field, ...]:
    """Return the top-level columns that a field is made of."""
    return field.source[:1] if isinstance(field.source, tuple) else field.source.reads


def build_tree(fields: Sequence[DocumentField]) -> tuple[Field, ...]:
    """Return the top-level fields of the documents; dots in names have become structs."""
    return _nest([field.entry for field in fields])


def _nest(entries: Sequence[Field]) -> tuple[Field, ...]:
    below: dict[str, list[Field]] = {}
    for entry in entries:
        head, _, rest = entry.name.partition(".")
        below.setdefault(head, []).append(replace(entry, name=rest))
    return tuple(
        replace(parts[0], name=name)
        if not parts[0].name
        else Field(id=0, name=name, type=Struct(_nest(parts)))
        for name, parts in below.items()
    )


def _resolve_entry(
    table: str, schema: Schema, entry: FieldEntry, analyse: Analyse
) -> DocumentField:
    name = entry.name or ""
    if entry.expression is not None:
        kind, names = analyse(schema, name, entry.expression)
        # The names are a set, and columns may be moved: by id they are stored alike by every run.
        named = (column for column in schema.fields if column.name in names)
        reads = tuple(sorted(named, key=lambda column: column.id))
        return DocumentField(Field(id=0, name=name, type=kind), Expression(entry.expression, reads))
    wanted = entry.from_ or ""
    path = schema.find(wanted)
    if path is None:
        known = (".".join(one.name for one in found) for found in walk_struct_paths(schema.fields))
        raise FieldInvalid(
            f"{table}: fields: `{name}` is from `{wanted}`, which is not a column; "
            f"{_find_list(schema, wanted) or _suggest(schema, known, wanted)}"
        )
    return DocumentField(replace(path[-1], name=name), path)


def _refuse_conflicts(table: str, fields: Sequence[DocumentField]) -> None:
    """Refuse what only the columns of "*" show: entries were compared with each other before."""
    names = [field.entry.name for field in fields]
    conflict = find_conflict(names)
    if conflict:
        raise FieldInvalid(
            f"{table}: fields: `{names[conflict[0]]}` cannot be a field, with the columns that "
            f'"{EVERY}" takes: {conflict[1]}; exclude one of them, or give it another name'
        )


def _refuse_form(table: str, field: DocumentField) -> None:
    name, is_own = field.entry.name, field.source == (field.entry,)
    # The name of an entry was checked with the spec, and its dots are meant.
    bad = find_bad_name(field.entry if is_own else replace(field.entry, name="x"))
    if bad:
        shown = bad[0] if is_own else name + bad[0][1:]
        cure = "exclude it, or give it another name by from" if is_own else "rename it"
        raise FieldInvalid(f"{table}: fields: `{shown}` cannot be a field: {bad[1]}; {cure}")
    # What is read needs a form too, since rows are compared by whole columns.
    for entry in (*list_columns_read(field), field.entry):
        without = find_undocumentable(entry)
        if without and isinstance(field.source, Expression) and entry is field.entry:
            raise FieldInvalid(
                f"{table}: fields: the expression `{shorten(field.source.text, MOST_SHOWN)}` of "
                f"field `{name}` gives `{without[0]}` the type {without[1]}, which has no form in "
                "documents: cast it to another type"
            )
        if without:
            raise FieldInvalid(
                f"{table}: fields: `{name}` cannot be made of `{without[0]}`, which has the type "
                f"{without[1]}: it has no form in documents; cast it to another type, or leave it "
                "out"
            )
    for path, entry in walk_fields(field.entry):
        if have_one_name(list_children(entry.type)):
            shown = ".".join(path)
            raise FieldInvalid(f"{table}: fields: `{shown}` has two fields of the same name inside")


def _suggest(schema: Schema, names: Iterable[str], name: str) -> str:
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    if near:
        return "did you mean " + ", ".join(f"`{one}`" for one in near) + "?"
    return describe_columns(schema)


def _find_list(schema: Schema, name: str) -> str:
    """Return what to do where a name leads into a list or map; empty where it does not."""
    for path in walk_struct_paths(schema.fields):
        above = ".".join(entry.name for entry in path)
        if name.startswith(f"{above}.") and isinstance(path[-1].type, ListOf | MapOf):
            return f"`{above}` is a {path[-1].type}: parts of it are taken by an expression"
    return ""
