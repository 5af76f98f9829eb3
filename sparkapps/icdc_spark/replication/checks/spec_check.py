"""Compares the documents of an index with those that spec and table ask for now.

A column that the documents did not have is no difference where all of their rows show null in it.
In some tables earlier rows may show values in such a column:

    the column                                  earlier rows show
    was added                                   null
    was added with a default value              the default
    was added; the table has a name mapping     what files without field ids have under its name
    is there again, after a rollback            what they had before it was dropped

Whether files have values by a name mapping is found by reading that column of them. Most do not
have the column, so little more than their footers is read. It must not know what follows from a
difference.
"""

from collections.abc import Hashable, Sequence, Set
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession

from icdc_api.errors import StateCorrupt
from icdc_spark.documents.compatibility import SAME, Compatibility, Stored
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.ids import read_cell
from icdc_spark.documents.schema import Field, Schema, list_topmost, walk_fields
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.ordered_scan import OrderedScan
from icdc_spark.iceberg.table.name_mapping import NAME_MAPPING, list_mapped_fields
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo
from icdc_spark.opensearch.stores import indices
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.state_parts import Applied, IntentKind
from icdc_spark.readers.choose import open_reader
from icdc_spark.replication.checks.index_check import IndexCheck
from icdc_spark.replication.context import TableContext

_MAPPED = f"was added, and earlier rows have values in it by the table's {NAME_MAPPING}"
_BACK = "is in the table again after a rollback, and rows may have values in it"


class PresentDocuments(NamedTuple):
    """The documents that spec and table ask for now."""

    session: SparkSession
    """The table's session."""
    table: IcebergTable
    """The table."""
    current: SnapshotInfo | None
    """Its current snapshot; None while it is empty."""
    documents: DocumentSpec
    """The documents of that snapshot."""
    reads_rows: bool
    """Whether files may be read: in a cluster a plan has no executors that could."""
    found: dict[Hashable, bool]
    """What was read last, by what was asked: a table that waits is observed again and again."""

    def compare(self, before: Stored, applied: Applied | None) -> Compatibility:
        """Compare the documents of an index, made as `before` says, of the rows of `applied`.

        None for `applied` where it is not known of which rows.
        """
        made_of = {number for number, _, _ in self.documents.stored["columns"]}
        filled = dict.fromkeys(made_of, _BACK) if self._is_before(applied) else None
        verdict = self.documents.compare_with_stored(before, filled)
        new = made_of - {number for number, _, _ in before["columns"]}
        if verdict.reason is not None or not new:
            return verdict
        mapped = new & list_mapped_fields(self.table.properties)
        if mapped and self.reads_rows and self._has_values(applied, self._list_sought(new, mapped)):
            return self.documents.compare_with_stored(before, dict.fromkeys(mapped, _MAPPED))
        return verdict

    def _is_before(self, applied: Applied | None) -> bool:
        """Return whether the current snapshot is older than the applied one."""
        if self.current is None or applied is None or applied.snapshot_id is None:
            return False
        if applied.snapshot_id == str(self.current.id):
            return False
        # In format 1 all numbers are 0 and order nothing.
        is_older = self.current.sequence_number < applied.sequence_number
        return is_older or self.table.is_ancestor(self.current.id, int(applied.snapshot_id))

    def _list_sought(self, new: Set[int], mapped: Set[int]) -> frozenset[int]:
        """Return the new fields that must be null in a row for all mapped ones to be."""
        topmost = list_topmost(self.documents.columns, new)
        return frozenset(
            field.id
            for field in topmost
            if any(entry.id in mapped for _, entry in walk_fields(field))
        )

    def _has_values(self, applied: Applied | None, ids: frozenset[int]) -> bool:
        """Return whether a row of the applied snapshot may have a value in a field of these ids.

        False where it has expired: that is a gap, or of no consequence, as other rules say.
        """
        if applied is not None and applied.snapshot_id is None:
            return False
        # Where there is nothing to be read, it is not known.
        if self.current is None or applied is None or applied.snapshot_id is None:
            return True
        snapshot_id = int(applied.snapshot_id)
        if self.table.find_snapshot(snapshot_id) is None:
            return False
        asked = (snapshot_id, self.documents.schema_id, ids, self.table.properties[NAME_MAPPING])
        if asked not in self.found:
            self.found.clear()
            self.found[asked] = self._read_values(self.current.id, snapshot_id, ids)
        return self.found[asked]

    def _read_values(self, current_id: int, snapshot_id: int, ids: Set[int]) -> bool:
        """Return whether a row of a snapshot has a value in a field of these ids."""
        schema = Schema(id=self.documents.schema_id, fields=self.documents.columns)
        paths = [schema.find_path(number) for number in ids]
        struct_paths = [path for path in paths if path is not None]
        # Nor is it known inside lists and maps that were there.
        if len(struct_paths) < len(paths):
            return True
        with open_reader(self.session, self.table, current_id, self.documents) as reader:
            for group in OrderedScan(self.table, snapshot_id).iterate_groups():
                with translate_source_errors(self.table.name):
                    # Counted, and not asked whether it is empty: all tasks start at once.
                    if _select_filled(reader.read(group), struct_paths).limit(1).count():
                        return True
                reader.release(group)
        return False


def _select_filled(rows: DataFrame, paths: Sequence[tuple[Field, ...]]) -> DataFrame:
    return rows.where(reduce(Column.__or__, [read_cell(rows, path).isNotNull() for path in paths]))


def compare_spec(
    context: TableContext,
    state: StateDocument | None,
    index: IndexCheck,
    present: PresentDocuments,
) -> Compatibility:
    """Compare the documents of the index that `state` names with those of now.

    SAME without an index, or with one that `index` says is lost. StateCorrupt where it does not say
    what its documents were made of.
    """
    # An open export writes another index than the one that is served.
    written = (state.intent or state) if state else None
    if state is None or written is None or written.index is None or index.loss is not None:
        return SAME
    # A request less for an idle table. With an intent open it is asked: the intent may have
    # been recorded under another spec than the document names.
    if state.intent is None and state.document_spec == present.documents.hash:
        return SAME
    meta = indices.read_mapping(context.client, written.index).get("_meta", {})
    if "documentSpec" not in meta:
        raise StateCorrupt(
            f"Index {written.index} no longer says in its mapping's _meta what its documents "
            "were made of. Raise spec.resync.nonce to export the table again."
        )
    return present.compare(meta["documentSpec"], _find_content(state, present.table))


def _find_content(state: StateDocument, table: IcebergTable) -> Applied | None:
    """Return what the index that is written equals, or will once its export is over."""
    intent = state.intent
    if intent is None or intent.kind is not IntentKind.EXPORT:
        return state.applied
    info = None if intent.to is None else table.find_snapshot(int(intent.to))
    # Of an expired snapshot no number is needed: its export is begun anew in any case.
    number = info.sequence_number if info else 0
    # A start of StreamOnly has no row of it.
    snapshot_id = None if intent.omits_rows else intent.to
    return Applied(
        snapshot_id=snapshot_id, sequence_number=number, committed_at=None, ordinal=intent.ordinal
    )
