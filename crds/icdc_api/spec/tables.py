"""`spec.tables[]`: one Iceberg table and the index that follows it."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    StringConstraints,
    model_validator,
)

from icdc_api import naming
from icdc_api.base import INT64_MAX, ApiModel, Flag
from icdc_api.errors import BadSpec
from icdc_api.problems import build_problem, build_refusal, find_first_duplicate
from icdc_api.spec.catalog import Catalog
from icdc_api.spec.indices.fields import (
    FIELDS_RULE,
    ColumnName,
    FieldMapping,
    Fields,
    check_entries,
    find_name_problem,
)
from icdc_api.spec.sink import Strings

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


class Position(StrEnum):
    """Where replication without an export begins."""

    LATEST = "Latest"
    """Changes after the current snapshot."""
    EARLIEST = "Earliest"
    """Changes after the oldest retained snapshot."""


def _check_table_name(name: str) -> str:
    try:
        naming.parse_table_name(name)
    except BadSpec as error:
        raise build_problem(error.message) from error
    return name


def _check_index(index: str) -> str:
    # Not by a pattern: OpenSearch's limit is in bytes of UTF-8, and one name is taken by ours.
    rule = naming.find_index_problem(index)
    if rule:
        raise build_refusal(index, rule)
    return index


def _require_rfc3339(value: object) -> object:
    # Left alone, pydantic would take a number, or a date, for a time.
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC3339.fullmatch(value)):
        return value
    raise build_refusal(value, "it must be a time with a zone, as 2024-03-15T14:30:00Z")


TableName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=naming.MAX_TABLE_NAME),
    AfterValidator(_check_table_name),
]
IndexName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=naming.MAX_INDEX_BYTES),
    AfterValidator(_check_index),
]
START_FROM_RULE = "set exactly one of position, snapshotId and timestamp"
APPEND_ONLY_RULE = "identifierColumns is excluded by appendOnly: such a table has no key"
ROUTING_RULE = "routing is excluded by appendOnly: such a table has no key"
ROUTING_KEY_RULE = (
    "only columns of identifierColumns: by another one, versions of a document would be on "
    "several shards"
)

NONE_IF_EMPTY = BeforeValidator(lambda value: None if value in ([], ()) else value)
"""An empty list, as templates write it, is the default: the same documents as without the field."""

RoutingColumns = Annotated[
    tuple[ColumnName, ...],
    # Not a set, as `columns` is: texts are made of the values in this order, and a server-side
    # apply by two authors must not mix their lists.
    Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
]
KeyColumns = Annotated[RoutingColumns, Field(min_length=1)]


class StartFrom(ApiModel):
    """Where to begin without an export: one of position, snapshotId and timestamp."""

    position: Position | None = None
    """Latest: changes after the current snapshot. Earliest: from the oldest retained
    snapshot. Excludes snapshotId and timestamp."""
    # A number, though the status has ids as text: a person copies it from Iceberg, and YAML and
    # the API server read 64 bits exactly.
    snapshot_id: Annotated[int, Field(strict=True, ge=1, le=INT64_MAX)] | None = None
    """Changes after this snapshot. Excludes position and timestamp."""
    timestamp: (
        Annotated[
            AwareDatetime,
            Field(json_schema_extra={"maxLength": 40}),
            BeforeValidator(_require_rfc3339),
        ]
        | None
    ) = None
    """Changes after the snapshot that was current at this time, as RFC 3339 with a zone.
    Excludes position and snapshotId."""

    @model_validator(mode="after")
    def _check_one_given(self) -> Self:
        if (
            sum(choice is not None for choice in (self.position, self.snapshot_id, self.timestamp))
            != 1
        ):
            raise build_problem(START_FROM_RULE)
        return self


def _find_column_problem(name: str) -> str:
    """Return why no field of a document can have the name of this column; empty if one can."""
    if "." in name:
        return "whole columns, without a dot; a field of another name is made by fields"
    return find_name_problem(name)


class Table(ApiModel):
    """One table and its index."""

    name: TableName
    """namespace.table. Required, unique. A part that holds a dot or a space stands in
    backticks."""
    catalog: Catalog | None = None
    """A catalog for this table alone. Default: the shared one; when set, nothing of the shared
    one is used."""
    branch: Annotated[str, StringConstraints(min_length=1, max_length=256)] = "main"
    """Branch that is followed. Default main. After a change, the difference between the applied
    snapshot and the new branch is applied."""
    identifier_columns: KeyColumns | None = None
    """Columns that identify a row and make the document's _id; nested fields as a.b. Default:
    the table's own identifier fields. A change needs a new index, see
    changelog.onIncompatibleSchema. Excluded by appendOnly."""
    routing: Annotated[RoutingColumns | None, NONE_IF_EMPTY] = None
    """Columns among the identifier columns whose values decide on which shard a document lies.
    Default: the _id decides. A change needs a new index, see changelog.onIncompatibleSchema.
    Excluded by appendOnly."""
    columns: (
        Annotated[
            tuple[ColumnName, ...],
            Field(
                min_length=1,
                max_length=1000,
                json_schema_extra={"x-kubernetes-list-type": "set"},
            ),
        ]
        | None
    ) = None
    """Columns in the documents. Default: all. A change needs a new index, see
    changelog.onIncompatibleSchema. Excluded by fields."""
    fields: Annotated[Fields | None, NONE_IF_EMPTY] = None
    """Fields of the documents, in any order: "*" (every column that no other entry names), {name,
    from: column}, {name, expression: Spark SQL over the row alone}, {exclude: column}. Dots in
    names build objects; mapping in an entry is as below. Default: columns. Excludes columns. A
    change needs a new index, see changelog.onIncompatibleSchema."""
    row_filter: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    """Spark SQL predicate; only rows for which it is true are in the index, and a row that leaves
    the filter is deleted from it. It must depend on nothing but the row: not on the time, the user,
    random numbers, files or other tables. Default: every row. A change needs a new index, see
    changelog.onIncompatibleSchema."""
    index: IndexName | None = None
    """Alias that readers use; the indices behind it are named `<index>-000001` and so on. Default:
    the name of the table in lower case, with a dash for each character that an index name must not
    contain. Unique. A change starts a new export; the old index stays."""
    append_only: Flag = False
    """True: rows have no key, and only appended rows are indexed; any other change stalls the
    table with NotAppendOnly. Default false. Excludes identifierColumns. A change needs a new index,
    see changelog.onIncompatibleSchema."""
    start_from: StartFrom | None = None
    """Where to begin, only with mode StreamOnly. Default: position Latest. A change has no
    effect once a snapshot was applied."""
    strings: Strings | None = None
    """KeywordAndText, Keyword or Text, for this table. Default: sink.opensearch.strings. A change
    needs a new index, see changelog.onIncompatibleSchema."""
    mapping: Annotated[dict[ColumnName, FieldMapping], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    """OpenSearch mappings of single fields, such as {title: {type: text}, lines.sku: {type:
    wildcard}}, instead of those derived from the column types. Default empty. A change needs a new
    index, see changelog.onIncompatibleSchema."""

    @property
    def index_name(self) -> str:
        """The alias: `index`, or its default."""
        return self.index or naming.derive_index(self.name)

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        for field, columns in (
            ("identifierColumns", self.identifier_columns),
            ("routing", self.routing),
            ("columns", self.columns),
        ):
            twice = find_first_duplicate(columns or ())
            if twice:
                raise build_refusal(twice[1], "columns are unique", field, twice[0])
        for position, column in enumerate(self.columns or ()):
            problem = _find_column_problem(column)
            if problem:
                raise build_refusal(column, problem, "columns", position)
        if self.append_only and self.identifier_columns:
            raise build_problem(APPEND_ONLY_RULE, "identifierColumns")
        self._check_routing()
        if self.fields and self.columns:
            raise build_problem(FIELDS_RULE, "columns")
        check_entries(self.fields or ())
        self._check_mapping_once()
        # Here and not when it is used: a table without a usable name for its index is a mistake in
        # the spec, and the author should hear of it at once.
        if self.index is None:
            try:
                naming.derive_index(self.name)
            except BadSpec as error:
                raise build_problem(error.message, "index") from error
        return self

    def _check_routing(self) -> None:
        if self.append_only and self.routing:
            raise build_problem(ROUTING_RULE, "routing")
        # Without them the key is in the table, which is not read here.
        key = self.identifier_columns
        for position, name in enumerate(self.routing or ()):
            if key is not None and name not in key:
                raise build_refusal(name, ROUTING_KEY_RULE, "routing", position)

    def _check_mapping_once(self) -> None:
        for position, entry in enumerate(self.fields or ()):
            if entry.mapping is not None and entry.name in self.mapping:
                text = f"tables[].mapping has the field `{entry.name}` too: write it once"
                raise build_problem(text, "fields", position, "mapping")
