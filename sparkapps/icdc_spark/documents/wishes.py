"""The wishes of a pipeline for the documents of a table, before the table is known.

`document_spec` checks them against the table's schema. Plain data, and which columns its names mean
where the table has given them others since.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from icdc_api.spec.indices import renamed_columns
from icdc_api.spec.indices.fields import FieldEntry
from icdc_api.spec.indices.ingest_pipeline import IngestPipeline
from icdc_api.spec.sink import OpenSearch, Strings
from icdc_api.spec.tables import Table
from icdc_spark.documents.schema import Field, Schema, walk_struct_paths

Renamed = Mapping[str, str]
"""The present names of columns by those that they had before; both are paths, as `a.b`."""

_MOST_SHOWN = 3
"""Columns that a message names, at most."""


@dataclass(frozen=True, kw_only=True)
class DocumentWishes:
    """The part of a pipeline's table entry that shapes documents, as the user wrote it."""

    identifier_columns: tuple[str, ...] = ()
    """Paths of the key's columns, in the order of the id; empty for the table's own identifier."""
    routing: tuple[str, ...] = ()
    """Those of them by which documents are routed to shards; empty for the id."""
    columns: tuple[str, ...] = ()
    """Top-level columns of the document; empty for all, or where there are `fields`."""
    fields: tuple[FieldEntry, ...] = ()
    """The fields of the document; empty where they are columns under their own names."""
    row_filter: str | None = None
    """Spark SQL; rows for which it is not true have no document."""
    append_only: bool = False
    """The table declares that its rows never change, so they need no key."""
    strings: Strings = Strings.KEYWORD_AND_TEXT
    """How string fields without a mapping of their own can be searched."""
    mapping: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Mapping parameters by the path of a field, laid over the derived ones."""
    ingest_pipeline: IngestPipeline | None = None
    """The pipeline that OpenSearch sends documents through; None for none."""


def build_wishes(table: Table, opensearch: OpenSearch) -> DocumentWishes:
    """Return what the entry of a table, and the sink beside it, ask of the documents."""
    return DocumentWishes(
        identifier_columns=table.identifier_columns or (),
        routing=table.routing or (),
        columns=table.columns or (),
        fields=table.fields or (),
        row_filter=table.row_filter,
        append_only=table.append_only,
        strings=table.strings or opensearch.strings or Strings.KEYWORD_AND_TEXT,
        mapping=table.mapping,
        ingest_pipeline=opensearch.ingest_pipeline,
    )


def find_renamed(schema: Schema, others: Iterable[Schema]) -> Renamed:
    """Return the columns of a schema that had another name in some of the others, by that name."""
    return renamed_columns.find_renamed(_list_ids(schema), map(_list_ids, others))


def follow_names(
    wishes: DocumentWishes, named: Schema, schema: Schema, renamed: Renamed | None = None
) -> DocumentWishes:
    """Return wishes that name columns as `named` does, with the names of another schema.

    Columns are found by their field ids. `renamed`: names that `named` no longer has, see
    `find_renamed`; not for `columns`, where a name is that of the field too. Expressions and the
    row filter are left as they are.

        named by the spec     that column then        entry of fields
        label (field 2)       name (field 2)          {from: label} becomes {from: name}
        extra (field 9)       not there               as it is: resolving it says so
    """

    def find(name: str, now: str) -> str:
        column = named.find(now)
        path = schema.find_path(column[-1].id) if column else None
        # What is not there is called as the spec calls it.
        return _join(path) if path else name

    def follow(name: str) -> str:
        return find(name, (renamed or {}).get(name, name))

    if named == schema and not renamed:
        return wishes
    return replace(
        wishes,
        identifier_columns=tuple(map(follow, wishes.identifier_columns)),
        routing=tuple(map(follow, wishes.routing)),
        columns=tuple(find(name, name) for name in wishes.columns),
        fields=tuple(
            entry.model_copy(
                update={
                    "from_": entry.from_ and follow(entry.from_),
                    "exclude": entry.exclude and follow(entry.exclude),
                }
            )
            for entry in wishes.fields
        ),
    )


def list_followed(wishes: DocumentWishes, renamed: Renamed) -> Renamed:
    """Return those of the renamed columns that wishes name as they were called before."""
    taken = (name for entry in wishes.fields for name in (entry.from_, entry.exclude) if name)
    names = {*wishes.identifier_columns, *wishes.routing, *taken}
    return {name: now for name, now in renamed.items() if name in names}


def describe_renamed(renamed: Renamed, text: str) -> str:
    """Return a clause that says how columns that a text in SQL names are called now; or nothing."""
    plain = text.replace("`", "")
    found = [
        name
        for name in renamed
        # Without case, as Spark finds columns by default.
        if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", plain, re.IGNORECASE)
    ]
    shown = [f"`{name}` is now called `{renamed[name]}`" for name in found[:_MOST_SHOWN]]
    return "; " + ", ".join(shown) if shown else ""


def _list_ids(schema: Schema) -> dict[str, int]:
    # The first of two: a column may itself be called `a.b`, beside a struct.
    paths = [*walk_struct_paths(schema.fields)]
    return {_join(path): path[-1].id for path in reversed(paths)}


def _join(path: Iterable[Field]) -> str:
    return ".".join(entry.name for entry in path)
