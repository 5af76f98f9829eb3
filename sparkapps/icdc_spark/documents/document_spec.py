"""Check the document settings of a pipeline against the schema of its table.

The one place where a column is accepted or refused, and where two versions of a table's documents
are compared. For an index whose documents were written with `id` and `name`:

| the table now | documents | what follows |
|---|---|---|
| `id int` became `id bigint` | the same | the index is written on |
| a column `age` was added | the same, with a new field | `age` goes into the mapping |
| `age` was added with a default | differ: old rows show it as well | a new export |
| `name` was renamed or dropped | differ | a new export |

Pure: it knows Iceberg types by name and neither Spark nor a running OpenSearch.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from icdc_api.errors import ColumnNotFound, NoIdentifier, UnsupportedType
from icdc_api.spec.sink import Strings
from icdc_spark.documents.forms import name_form, refuse_bad_name, refuse_undocumentable
from icdc_spark.documents.schema import Field, Primitive, Schema, walk_fields

CONTRACT_VERSION = 1
"""Incremented when the same row would give another document than before."""

_MERGED = (None, "keyword", "text", "object", "nested")
"""Types in a mapping of the user's beside which something of the derived one may stay."""

_NOT_IN_IDS = frozenset({"float", "double", "variant"})
"""Types whose equal values have no single text: 0.0 and -0.0, NaN, objects in any order."""


@dataclass(frozen=True, kw_only=True)
class DocumentWishes:
    """The part of a pipeline's table entry that shapes documents, as the user wrote it."""

    identifier_columns: tuple[str, ...] = ()
    """Paths of the key's columns, in the order of the id; empty for the table's own identifier."""
    columns: tuple[str, ...] = ()
    """Top-level columns of the document; empty for all."""
    row_filter: str | None = None
    """Spark SQL; rows for which it is not true have no document."""
    append_only: bool = False
    """The table declares that its rows never change, so they need no key."""
    strings: Strings = Strings.KEYWORD_AND_TEXT
    """How string fields without a mapping of their own can be searched."""
    mapping: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Mapping parameters by the path of a field, laid over the derived ones."""


@dataclass(frozen=True, kw_only=True)
class DocumentSpec:
    """How a row becomes a document; built by `resolve_spec`, valid for one schema of the table."""

    table: str
    """Name of the table, for messages."""
    schema_id: int
    """Id of the schema that the settings were checked against."""
    identifiers: tuple[tuple[Field, ...], ...]
    """One path of fields, top-level column first, per identifier column; empty if append-only."""
    columns: tuple[Field, ...]
    """The top-level columns of the document, in the order of the schema."""
    all_columns: bool
    """True if the user named no columns, so that new ones are added to the documents."""
    row_filter: str | None
    """See `DocumentWishes.row_filter`."""
    append_only: bool
    """See `DocumentWishes.append_only`."""
    strings: Strings
    """See `DocumentWishes.strings`."""
    mapping: Mapping[str, Mapping[str, Any]]
    """See `DocumentWishes.mapping`."""

    @property
    def stored(self) -> dict[str, Any]:
        """Everything that shapes a document, by field ids, as JSON, for the mapping's `_meta`.

        Types that look the same to a reader of the index are the same here: int and long, decimals
        of one scale within the same mapping, a required and an optional column.
        """
        # The default is left out: indices of earlier versions, which had no other, are still right.
        is_default = self.strings is Strings.KEYWORD_AND_TEXT
        return {
            **({} if is_default else {"strings": self.strings.value}),
            "contractVersion": CONTRACT_VERSION,
            "appendOnly": self.append_only,
            "rowFilter": self.row_filter,
            # Sorted: the order in which a user wrote overrides shapes no document.
            "mapping": {name: dict(value) for name, value in sorted(self.mapping.items())},
            "identifiers": [[path[-1].id, name_form(path[-1].type)] for path in self.identifiers],
            "columns": [
                [entry.id, ".".join(path), name_form(entry.type)]
                for column in self.columns
                for path, entry in walk_fields(column)
            ],
        }

    @property
    def hash(self) -> str:
        """Lower-case hex SHA-256 of `stored`."""
        return hashlib.sha256(_dump_canonical(self.stored).encode()).hexdigest()

    @property
    def identifying_fields(self) -> frozenset[int]:
        """The ids of the fields whose values alone identify a deleted document.

        Empty where the rows have to be read, because a filter decides which of them have a document
        or because the id is made of their position.
        """
        if self.row_filter is not None:
            return frozenset()
        return frozenset(path[-1].id for path in self.identifiers)

    def compare_with_stored(self, stored: Mapping[str, Any]) -> "Compatibility":
        """Compare documents written under an earlier `stored` with those of this spec."""
        now = self.stored
        for key, description in _PARTS.items():
            if stored.get(key) != now[key]:
                return Compatibility(reason=f"{description} changed")
        if stored.get("strings") != now.get("strings") and self._has_plain_string(stored):
            return Compatibility(reason="the mapping of strings changed")
        # By field id: a renamed column is not one dropped and another added.
        before = {entry[0]: (entry[1], entry[2]) for entry in stored["columns"]}
        after = {entry[0]: (entry[1], entry[2]) for entry in now["columns"]}
        return _compare(before, after, self._with_default())

    def _has_plain_string(self, stored: Mapping[str, Any]) -> bool:
        """Return whether a string of the index is mapped as the spec says of all strings.

        One whose own mapping has another type than strings can have is not, nor is one in a map.
        """
        own = {name for name, wish in self.mapping.items() if wish.get("type") not in _MERGED}
        forms = {path: form for _, path, form in stored["columns"]}
        own |= {path for path, form in forms.items() if form == "map"}
        return any(
            form == "string" and own.isdisjoint(_list_ancestors(path))
            for path, form in forms.items()
        )

    def _with_default(self) -> frozenset[int]:
        # A required field that is missing in older rows needs a default, or is unreadable.
        return frozenset(
            entry.id
            for column in self.columns
            for _, entry in walk_fields(column)
            if entry.has_default
        )


@dataclass(frozen=True, kw_only=True)
class Compatibility:
    """The result of comparing two versions of a table's documents."""

    reason: str | None = None
    """Why documents would differ; None if they would not."""
    added: tuple[str, ...] = ()
    """Paths of the new fields, which the mapping of the index does not have yet."""


# In this order: the first part that differs is the reason that the user reads.
_PARTS = {
    "contractVersion": "the contract version of documents",
    "appendOnly": "appendOnly",
    "rowFilter": "rowFilter",
    "identifiers": "the identifier columns",
    "mapping": "the mapping overrides",
}


def resolve_spec(table: str, schema: Schema, wishes: DocumentWishes) -> DocumentSpec:
    """Return the document spec of a table; ColumnNotFound, UnsupportedType or NoIdentifier."""
    columns = _resolve_columns(table, schema, wishes.columns)
    for column in columns:
        refuse_bad_name(table, column)
        refuse_undocumentable(table, column)
    _check_overrides(table, columns, wishes.mapping)
    return DocumentSpec(
        table=table,
        schema_id=schema.id,
        identifiers=() if wishes.append_only else _resolve_identifiers(table, schema, wishes),
        columns=columns,
        all_columns=not wishes.columns,
        # An empty filter is no filter.
        row_filter=wishes.row_filter or None,
        append_only=wishes.append_only,
        strings=wishes.strings,
        mapping=wishes.mapping,
    )


def _resolve_columns(table: str, schema: Schema, wanted: Iterable[str]) -> tuple[Field, ...]:
    wanted = tuple(wanted)
    names = {column.name: column for column in schema.fields}
    for name in wanted:
        if name not in names:
            hint = (
                f"name the whole column `{name.split('.')[0]}`"
                if schema.find(name)
                else _describe_columns(schema)
            )
            raise ColumnNotFound(
                f"{table}: columns names `{name}`, which is not a top-level column; {hint}"
            )
    # In the schema's order, not the user's: documents stay the same when names are reordered.
    return tuple(column for column in schema.fields if not wanted or column.name in wanted)


def _resolve_identifiers(
    table: str, schema: Schema, wishes: DocumentWishes
) -> tuple[tuple[Field, ...], ...]:
    paths = [_resolve_identifier(table, schema, name) for name in wishes.identifier_columns]
    if not wishes.identifier_columns:
        # Iceberg has them as a set: by field id their order is the same in every run.
        own_paths = (schema.find_path(number) for number in sorted(schema.identifier_ids))
        paths = [path for path in own_paths if path is not None]
    if not paths:
        raise NoIdentifier(
            f"{table} has no identifier fields of its own: name its key in identifierColumns, "
            "or declare the table appendOnly"
        )
    for path in paths:
        _refuse_as_identifier(table, path)
    return tuple(paths)


def _resolve_identifier(table: str, schema: Schema, name: str) -> tuple[Field, ...]:
    path = schema.find(name)
    if path is None:
        raise ColumnNotFound(
            f"{table}: identifierColumns names `{name}`, which is not a column; "
            f"{_describe_columns(schema)}"
        )
    return path


def _refuse_as_identifier(table: str, path: tuple[Field, ...]) -> None:
    name, kind = ".".join(entry.name for entry in path), path[-1].type
    if not isinstance(kind, Primitive) or kind.name in _NOT_IN_IDS:
        raise UnsupportedType(
            f"{table}: column `{name}` of type {kind} cannot be part of an id; "
            "name other identifierColumns"
        )
    # The key need not be among the columns of the document, which were checked before.
    refuse_undocumentable(table, path[-1], name=name)


def _check_overrides(
    table: str, columns: tuple[Field, ...], overrides: Mapping[str, Mapping[str, Any]]
) -> None:
    document = Schema(id=0, fields=columns)
    for name in overrides:
        if document.find(name) is None:
            raise ColumnNotFound(
                f"{table}: mapping names `{name}`, which is not a field of the documents; "
                f"{_describe_columns(document)}"
            )


def _compare(
    before: Mapping[int, tuple[str, str]],
    after: Mapping[int, tuple[str, str]],
    with_default: frozenset[int],
) -> Compatibility:
    for number, (path, kind) in before.items():
        if number not in after:
            return Compatibility(reason=f"column `{path}` no longer exists")
        new_path, new_kind = after[number]
        if new_path != path:
            return Compatibility(reason=f"column `{path}` is now called `{new_path}`")
        if new_kind != kind:
            return Compatibility(reason=f"column `{path}` changed from {kind} to {new_kind}")
    added = [number for number in after if number not in before]
    for number in added:
        if number in with_default:
            return Compatibility(
                reason=f"column `{after[number][0]}` was added with a default value, which earlier "
                "rows have too"
            )
    return Compatibility(added=tuple(after[number][0] for number in added))


def _list_ancestors(path: str) -> Iterator[str]:
    """Yield `a`, `a.b` and `a.b.c` for `a.b.c`."""
    names = path.split(".")
    for end in range(1, len(names) + 1):
        yield ".".join(names[:end])


def _describe_columns(schema: Schema) -> str:
    return "the columns are " + ", ".join(f"`{column.name}`" for column in schema.fields)


def _dump_canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
