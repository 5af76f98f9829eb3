"""Resolves the documents that a spec asks for in a schema of the table, by the names of columns.

A spec may name a column as the schema of the snapshot does, as the table's newest schema does,
which is that of the next snapshot, or as an earlier one did. The second column is called `label`
since it was renamed from `name`:

    spec names    snapshot's schema        newest schema    the spec means
    label         label                    label            the column of that name
    label         name                     label            the same one, found by its id
    name          label                    label            the same one, by an earlier schema
    name          label, and a new name    the same         the new one, as its name is in use

Expressions, the row filter and `columns` follow no earlier name: their texts, and names of fields,
are what documents are made of. Nothing here reads a row or asks the index.
"""

import logging
from collections.abc import Hashable, Iterator
from contextlib import suppress

from pyspark.sql import SparkSession

from icdc_api.errors import ColumnNotFound, FieldInvalid, TableError
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.schema import Schema, has_names_differing_by_case
from icdc_spark.documents.wishes import (
    DocumentWishes,
    Renamed,
    find_renamed,
    follow_names,
    list_followed,
)
from icdc_spark.iceberg.jvm.session import make_case_sensitive
from icdc_spark.iceberg.table.expressions import build_analyser
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.replication.context import TableContext

LOG = logging.getLogger(__name__)

_Refusal = ColumnNotFound | FieldInvalid


class DocumentResolver:
    """Resolve the documents of one table of one run, again and again; for one thread at a time."""

    def __init__(self, context: TableContext, session: SparkSession) -> None:
        self._session, self._table = session, context.table.name
        self._wishes: DocumentWishes = context.build_wishes()
        self._names_by_case = False
        self._resolved: dict[Hashable, DocumentSpec | _Refusal] = {}
        self._renamed: dict[Hashable, Renamed] = {}
        self._warned: Renamed = {}

    def resolve_at(
        self, table: IcebergTable, schema: Schema, named: Schema, hint: str
    ) -> DocumentSpec:
        """Return the documents in a schema; the spec names columns as `named` or as the table now.

        In an older schema columns are found by id, and so are those that had their names earlier.
        `hint` is added to the error where that is no help, and the spec fits the newest schema.
        """
        try:
            return self._resolve_by_names(table, schema, named, hint)
        except (ColumnNotFound, FieldInvalid):
            # Names of before have no say where the present ones fit, whatever they once meant.
            resolved = self._resolve_by_names(table, schema, named, hint, earlier=True)
        # By the newest schema, whose names a spec may have at once.
        renamed = self.find_renamed(table, table.read_schema(None))
        self._warn(list_followed(self._wishes, renamed))
        return resolved

    def find_renamed(self, table: IcebergTable, schema: Schema) -> Renamed:
        """Return the columns of a schema that have had another name in the table."""
        key = (table.uuid, table.metadata_location, schema)
        if key not in self._renamed:
            # Two are asked for at a time, and a table that waits is observed again and again.
            if len(self._renamed) > 1:
                self._renamed.clear()
            self._renamed[key] = find_renamed(schema, table.read_schemas())
        return self._renamed[key]

    def _resolve_by_names(
        self,
        table: IcebergTable,
        schema: Schema,
        named: Schema,
        hint: str,
        *,
        earlier: bool = False,
    ) -> DocumentSpec:
        def list_earlier(one: Schema) -> Renamed:
            return self.find_renamed(table, one) if earlier else {}

        try:
            return self._resolve(schema, named, list_earlier(named))
        except (ColumnNotFound, FieldInvalid) as error:
            newest = table.read_schema(None)
            renamed = list_earlier(newest)
            if newest == schema or not self._fits(newest, newest, renamed):
                raise
            if self._fits(schema, newest, renamed):
                return self._resolve(schema, newest, renamed)
            raise type(error)(f"{error.message}. {hint}") from error

    def _fits(self, schema: Schema, named: Schema, renamed: Renamed) -> bool:
        with suppress(TableError):
            self._resolve(schema, named, renamed)
            return True
        return False

    def _resolve(self, schema: Schema, named: Schema, renamed: Renamed) -> DocumentSpec:
        # The same wishes in each observation: only other names make other documents.
        key = (schema, named, frozenset(renamed.items()))
        if key not in self._resolved:
            self._resolved[key] = self._try_to_resolve(schema, named, renamed)
        resolved = self._resolved[key]
        if isinstance(resolved, DocumentSpec):
            return resolved
        raise type(resolved)(resolved.message) from resolved

    def _try_to_resolve(
        self, schema: Schema, named: Schema, renamed: Renamed
    ) -> DocumentSpec | _Refusal:
        # Only then: elsewhere a filter may name a column in any case, as everywhere in Spark.
        if not self._names_by_case and has_names_differing_by_case(schema.fields):
            self._names_by_case = True
            make_case_sensitive(self._session)
        wishes = follow_names(self._wishes, named, schema, renamed)
        analyse = build_analyser(self._session, self._table, renamed)
        try:
            return resolve_spec(self._table, schema, wishes, analyse)
        except ColumnNotFound as error:
            return ColumnNotFound("; ".join((error.message, *_list_hints(wishes, renamed, error))))
        except FieldInvalid as error:
            return error

    def _warn(self, followed: Renamed) -> None:
        """Say once which columns are found by names that they had before."""
        new = {name: now for name, now in followed.items() if self._warned.get(name) != now}
        self._warned = followed
        if new:
            LOG.warning(
                "table %s: the spec names columns that were renamed, and follows them: %s. Write "
                "the new names, before maintenance removes the earlier schemas from the table",
                self._table,
                ", ".join(f"`{name}` is now called `{now}`" for name, now in new.items()),
            )


def _list_hints(wishes: DocumentWishes, renamed: Renamed, error: ColumnNotFound) -> Iterator[str]:
    """Yield what follows no rename, and is at fault."""
    for name in (*wishes.columns, *wishes.mapping):
        if name in renamed and f"`{name}`" in error.message:
            yield f"`{name}` is now called `{renamed[name]}`"
