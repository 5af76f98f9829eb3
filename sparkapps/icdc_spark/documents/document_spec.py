"""Check the document settings of a pipeline against the schema of its table.

The one place where a column is accepted or refused. Pure: it knows Iceberg types by name and
neither Spark nor a running OpenSearch; what an expression gives is asked of its caller.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from icdc_api.errors import Bug, ColumnNotFound, FieldInvalid
from icdc_api.spec.indices.fields import EVERY
from icdc_api.spec.indices.ingest_pipeline import METADATA_FIELDS, IngestPipeline
from icdc_api.spec.sink import Strings
from icdc_spark.documents.compatibility import WITH_DEFAULT, Compatibility, compare_stored
from icdc_spark.documents.fields import (
    Analyse,
    Analysis,
    DocumentField,
    Expression,
    build_tree,
    list_columns_read,
    list_left_out,
    resolve_fields,
    take_columns,
)
from icdc_spark.documents.forms import name_exact, name_form, refuse_bad_name, refuse_undocumentable
from icdc_spark.documents.identifiers import find_routing, resolve_identifiers
from icdc_spark.documents.schema import (
    Field,
    Schema,
    Type,
    describe_columns,
    has_document_field,
    list_used,
    walk_fields,
)
from icdc_spark.documents.wishes import DocumentWishes

CONTRACT_VERSION = 1
"""Incremented when the same row would give another document than before."""


@dataclass(frozen=True, kw_only=True)
class DocumentSpec:
    """How a row becomes a document; built by `resolve_spec`, valid for one schema of the table."""

    table: str
    """Name of the table, for messages."""
    schema_id: int
    """Id of the schema that the settings were checked against."""
    identifiers: tuple[tuple[Field, ...], ...]
    """One path of fields, top-level column first, per identifier column; empty if append-only."""
    routing: tuple[int, ...]
    """Positions in `identifiers` of those by which documents are routed; empty for the id."""
    columns: tuple[Field, ...]
    """The top-level columns that fields are made of, in the order of the schema: they are read, and
    rows are compared by them."""
    fields: tuple[DocumentField, ...]
    """The fields of the document, each made of a column or by an expression."""
    all_columns: bool
    """True if new columns of the table are added to the documents."""
    excluded: tuple[Field, ...]
    """The columns that other entries of `fields` take from `"*"`, and that no field is whole."""
    row_filter: str | None
    """See `DocumentWishes.row_filter`."""
    filter_reads: tuple[Field, ...]
    """The top-level columns that it may use, with what it may use inside them."""
    append_only: bool
    """See `DocumentWishes.append_only`."""
    strings: Strings
    """See `DocumentWishes.strings`."""
    mapping: Mapping[str, Mapping[str, Any]]
    """See `DocumentWishes.mapping`."""
    ingest_pipeline: IngestPipeline | None
    """See `DocumentWishes.ingest_pipeline`."""

    @property
    def document(self) -> tuple[Field, ...]:
        """The top-level fields of the document; dots in the names of fields have become objects."""
        return build_tree(self.fields)

    @property
    def expressions(self) -> tuple[tuple[DocumentField, Expression], ...]:
        """The fields that expressions make, each with its expression, in the order of `fields`."""
        return tuple(
            (made, made.source) for made in self.fields if isinstance(made.source, Expression)
        )

    @property
    def stored(self) -> dict[str, Any]:
        """Everything that shapes a document, by field ids, as JSON, for the mapping's `_meta`.

        Types that look the same to a reader of the index are the same here: int and long, decimals
        of one scale within the same mapping, a required and an optional column.
        """
        taken = [made.entry for made in self.fields if not isinstance(made.source, Expression)]
        if self.fields != take_columns(self.columns):
            # The order in which a user wrote fields shapes no document.
            taken.sort(key=lambda entry: entry.name)
        # Left out where they say what earlier versions, which knew nothing else, always meant:
        # their indices are still right.
        rare = {
            "routing": [self.identifiers[position][-1].id for position in self.routing],
            "strings": None if self.strings is Strings.KEYWORD_AND_TEXT else self.strings.value,
            "allColumns": None if self.all_columns else False,
            "excluded": sorted(
                entry.id for column in self.excluded for _, entry in walk_fields(column)
            ),
            "expressions": sorted(_store_expression(*made) for made in self.expressions),
            "pipeline": self.ingest_pipeline and self.ingest_pipeline.to_resource(),
            "filterReads": _store_forms(self.filter_reads, name_exact),
        }
        return {
            **{name: value for name, value in rare.items() if value not in (None, [])},
            "contractVersion": CONTRACT_VERSION,
            "appendOnly": self.append_only,
            "rowFilter": self.row_filter,
            # Sorted: the order in which a user wrote overrides shapes no document.
            "mapping": {name: dict(value) for name, value in sorted(self.mapping.items())},
            "identifiers": [[path[-1].id, name_form(path[-1].type)] for path in self.identifiers],
            "columns": _store_forms(taken),
        }

    @property
    def added(self) -> frozenset[str] | None:
        """Paths of what OpenSearch adds to documents; None where they come back as they were sent.

        By the ingest pipeline, and for fields of type `semantic`: those lead to one of its own.
        """
        adds, infos = self.ingest_pipeline, frozenset(_list_semantic_infos(self.mapping))
        return infos.union(adds.adds if adds else ()) if adds or infos else None

    @cached_property
    def hash(self) -> str:
        """Lower-case hex SHA-256 of `stored`, as earlier versions made it too."""
        stored = self.stored
        # They knew of a column that the filter reads only as one of the documents.
        reads = [one for one in stored.pop("filterReads", ()) if one not in stored["columns"]]
        stored |= {"filterReads": reads} if reads else {}
        return hashlib.sha256(_dump_canonical(stored).encode()).hexdigest()

    @property
    def identifying_fields(self) -> frozenset[int]:
        """The ids of the fields whose values alone identify a deleted document.

        Empty where the rows have to be read, because a filter decides which of them have a document
        or because the id is made of their position.
        """
        identifiers = () if self.row_filter is not None else self.identifiers
        return frozenset(path[-1].id for path in identifiers)

    def compare_with_stored(
        self, stored: Mapping[str, Any], filled: Mapping[int, str] | None = None
    ) -> Compatibility:
        """Compare documents written under an earlier `stored` with those of this spec.

        `filled`: see `compare_stored`; columns with a default need not be in it.
        """
        entries = [entry for column in self.columns for _, entry in walk_fields(column)]
        # A required field that is missing in older rows needs a default, or is unreadable.
        defaults = {entry.id: WITH_DEFAULT for entry in entries if entry.has_default}
        return compare_stored(stored, self.stored, {**(filled or {}), **defaults})


def _refuse_expressions(schema: Schema, name: str, text: str) -> Analysis:
    raise Bug(f"nobody analyses the expression `{text}` of field `{name}`")


def resolve_spec(
    table: str, schema: Schema, wishes: DocumentWishes, analyse: Analyse = _refuse_expressions
) -> DocumentSpec:
    """Return the document spec of a table.

    ColumnNotFound, FieldInvalid, UnsupportedType or NoIdentifier where the wishes do not fit it.
    """
    if wishes.fields:
        fields = resolve_fields(table, schema, wishes.fields, analyse)
    else:
        fields = take_columns(_resolve_columns(table, schema, wishes.columns))
        for made in fields:
            refuse_bad_name(table, made.entry)
            refuse_undocumentable(table, made.entry)
    own = {entry.name: entry.mapping for entry in wishes.fields if entry.name and entry.mapping}
    mapping = {**wishes.mapping, **own}
    document = build_tree(fields)
    _check_overrides(table, document, mapping)
    _refuse_added(table, document, wishes.ingest_pipeline)
    identifiers = (
        () if wishes.append_only else resolve_identifiers(table, schema, wishes.identifier_columns)
    )
    read = {column.id for made in fields for column in list_columns_read(made)}
    return DocumentSpec(
        table=table,
        schema_id=schema.id,
        identifiers=identifiers,
        routing=find_routing(table, identifiers, wishes.routing),
        columns=tuple(column for column in schema.fields if column.id in read),
        fields=fields,
        all_columns=_takes_all(wishes),
        excluded=list_left_out(schema, fields) if wishes.fields and _takes_all(wishes) else (),
        # An empty filter is no filter.
        row_filter=wishes.row_filter or None,
        filter_reads=list_used(schema, wishes.row_filter or ""),
        append_only=wishes.append_only,
        strings=wishes.strings,
        mapping=mapping,
        ingest_pipeline=wishes.ingest_pipeline,
    )


def _takes_all(wishes: DocumentWishes) -> bool:
    if wishes.fields:
        return any(entry.name == EVERY for entry in wishes.fields)
    return not wishes.columns


def _resolve_columns(table: str, schema: Schema, wanted: Iterable[str]) -> tuple[Field, ...]:
    wanted = tuple(wanted)
    names = {column.name: column for column in schema.fields}
    for name in wanted:
        if name not in names:
            hint = (
                f"name the whole column `{name.split('.')[0]}`"
                if schema.find(name)
                else describe_columns(schema)
            )
            raise ColumnNotFound(
                f"{table}: columns names `{name}`, which is not a top-level column; {hint}"
            )
    # In the schema's order, not the user's: documents stay the same when names are reordered.
    return tuple(column for column in schema.fields if not wanted or column.name in wanted)


def _check_overrides(
    table: str, columns: tuple[Field, ...], overrides: Mapping[str, Mapping[str, Any]]
) -> None:
    document = Schema(id=0, fields=columns)
    for name in overrides:
        if not has_document_field(columns, name):
            raise ColumnNotFound(
                f"{table}: mapping names `{name}`, which is not a field of the documents; "
                f"{describe_columns(document)}"
            )


def _refuse_added(table: str, columns: tuple[Field, ...], pipeline: IngestPipeline | None) -> None:
    for column in columns if pipeline else ():
        if column.name in METADATA_FIELDS:
            raise FieldInvalid(
                f"{table}: a column cannot be called `{column.name}` where documents go through an "
                "ingest pipeline, which takes it for metadata; take it out of the documents"
            )
        if pipeline and column.name in pipeline.adds:
            raise FieldInvalid(
                f"{table}: sink.opensearch.pipeline.adds names `{column.name}`, which documents "
                "have from the table; rename one of them, or take the column out of the documents"
            )


def _list_semantic_infos(mapping: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield where OpenSearch puts the embeddings of fields of type `semantic`, at every depth."""
    for name, field in mapping.items():
        path = f"{above}{name}"
        if field.get("type") == "semantic":
            parent, dot, last = path.rpartition(".")
            yield f"{parent}{dot}{field.get('semantic_info_field_name', f'{last}_semantic_info')}"
        yield from _list_semantic_infos(field.get("properties", {}), f"{path}.")


def _store_expression(made: DocumentField, expression: Expression) -> list[Any]:
    """Return name, text, forms of what is made, and ids and types of what is read.

    The types are exact: an expression may give another result for an int than for a long, which
    have one form.
    """
    return [
        made.entry.name,
        expression.text,
        [[".".join(path), name_form(entry.type)] for path, entry in walk_fields(made.entry)],
        _store_forms(expression.reads, str),
    ]


def _store_forms(
    columns: Iterable[Field], name: Callable[[Type], str] = name_form
) -> list[list[Any]]:
    return [
        [entry.id, ".".join(path), name(entry.type)]
        for column in columns
        for path, entry in walk_fields(column)
    ]


def _dump_canonical(value: Any) -> str:
    # One text for equal values: its hash is compared with the one in the state document.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
