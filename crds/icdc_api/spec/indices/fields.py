"""`spec.tables[].fields`: which fields documents have, where they are not simply the columns.

An entry names fields or takes a column out; their order means nothing:

    fields:
    - "*"                                          every column that no other entry names
    - {name: customer.name, from: customer_name}   a column, or a field in a struct, under this name
    - {name: total, expression: "price * n"}       Spark SQL over the row
    - {exclude: notes}                             a column that "*" leaves out

What can be said without the table is checked here. Whether columns exist, and what an expression
gives, is found where the table is read.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from icdc_api.base import ApiModel
from icdc_api.problems import build_problem, build_refusal, find_first_duplicate

EVERY = "*"
"""The entry that takes every column that no other entry names."""

# Names of metadata fields, of any version: a document may not have them at its top level.
RESERVED_FIELDS = frozenset(
    {
        "_id",
        "_index",
        "_source",
        "_routing",
        "_type",
        "_version",
        "_seq_no",
        "_primary_term",
        "_field_names",
        "_ignored",
        "_nested_path",
        "_data_stream_timestamp",
        "_doc_count",
        "_meta",
        "_size",
        "_tier",
        "_all",
        "_parent",
        "_timestamp",
        "_ttl",
        "_uid",
    }
)
FIELDS_RULE = "columns is excluded by fields: name its columns there"

ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
# Open, because OpenSearch has too many mapping parameters to list; it refuses wrong ones itself.
FieldMapping = Annotated[
    dict[str, Any],
    Field(max_length=64, json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}),
]


class FieldEntry(ApiModel):
    """One entry: `"*"`, a field by `name`, or a column to `exclude`."""

    name: ColumnName | None = None
    """The field; dots build objects."""
    from_: Annotated[ColumnName | None, Field(alias="from")] = None
    """The column whose values it has, by its name or one that it had before; nested fields as a.b.
    Excludes expression."""
    expression: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    """Spark SQL over the columns of the row alone. Excludes from."""
    mapping: FieldMapping | None = None
    """OpenSearch mapping of the field, as in tables[].mapping."""
    exclude: ColumnName | None = None
    """A column that "*" leaves out. Excludes all else."""

    @model_validator(mode="before")
    @classmethod
    def _read_every(cls, value: object) -> object:
        if isinstance(value, str):
            if value != EVERY:
                raise build_refusal(
                    value,
                    f'it must be "{EVERY}", {{name, from}}, {{name, expression}} or {{exclude}}; '
                    f"for a column under its own name: {{name: {value}, from: {value}}}",
                )
            return {"name": EVERY}
        return value

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        others = (self.from_, self.expression, self.mapping)
        if self.exclude is not None or self.name == EVERY:
            if any(other is not None for other in (*others, self.exclude and self.name)):
                shown = f'"{EVERY}"' if self.name == EVERY else "exclude"
                raise build_problem(f"{shown} stands alone in its entry")
            return self
        if self.name is None:
            raise build_problem("missing; an entry needs a name, or exclude", "name")
        problem = find_name_problem(self.name)
        if problem:
            raise build_refusal(self.name, problem, "name")
        if (self.from_ is None) == (self.expression is None):
            raise build_problem("set exactly one of from and expression", "from")
        return self

    @model_serializer(mode="wrap")
    def _write_every(self, write: SerializerFunctionWrapHandler) -> Any:
        return EVERY if self.name == EVERY else write(self)


# Without a type in the CRD: a structural schema has no form for a value of two kinds.
Fields = Annotated[
    tuple[
        Annotated[FieldEntry, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})], ...
    ],
    Field(max_length=1000, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
]


def find_name_problem(name: str) -> str:
    """Return why a document cannot have a field of this name; empty if it can."""
    parts = name.split(".")
    if not all(part.strip() for part in parts):
        return "a name, and each part of it between dots, must not be empty"
    if parts[0] in RESERVED_FIELDS:
        return "OpenSearch reserves the name"
    return ""


def find_conflict(names: Sequence[str]) -> tuple[int, str] | None:
    """Return position and text of the first name that occurs twice, or lies inside another."""
    twice = find_first_duplicate(tuple(names))
    if twice:
        return twice[0], "another entry makes the same field"
    every = set(names)
    for position, name in enumerate(names):
        for end, character in enumerate(name):
            if character == "." and name[:end] in every:
                return position, f"it lies inside the field `{name[:end]}` of another entry"
    return None


def check_entries(entries: Sequence[FieldEntry]) -> None:
    """Raise the first problem that is between entries, as a validator does."""
    names = [entry.name for entry in entries]
    excluded = [entry for entry in entries if entry.exclude is not None]
    if excluded and EVERY not in names:
        position = entries.index(excluded[0])
        raise build_problem(
            f'exclude is only of use beside "{EVERY}"', "fields", position, "exclude"
        )
    numbered = [(position, name) for position, name in enumerate(names) if name is not None]
    conflict = find_conflict([name for _, name in numbered])
    if conflict:
        position, name = numbered[conflict[0]]
        raise build_refusal(name, conflict[1], "fields", position, "name")
