"""Compares the documents of an index with those that spec and table ask for now.

A column that the documents did not have is no difference where all of their rows show null in it.
In some tables earlier rows may show values in such a column:

    the column                                  earlier rows show
    was added                                   null
    was added with a default value              the default
    was added; the table has a name mapping     what files without field ids have under its name
    is there again, after a rollback            what they had before it was dropped

It must not know what follows from a difference.
"""

from collections.abc import Mapping

from icdc_api.errors import StateCorrupt
from icdc_spark.documents.compatibility import SAME, Compatibility
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.schema import walk_fields
from icdc_spark.iceberg.table.name_mapping import NAME_MAPPING, list_mapped_fields
from icdc_spark.iceberg.table.tables import IcebergTable, SnapshotInfo
from icdc_spark.opensearch.stores import indices
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.state_parts import Applied, RetainedIndex
from icdc_spark.replication.checks.index_check import IndexCheck
from icdc_spark.replication.context import TableContext

_MAPPED = (
    "was added, and earlier rows may have values in it: the table finds the columns of files "
    f"without field ids by name ({NAME_MAPPING})"
)
_BACK = "is in the table again after a rollback, and rows may have values in it"


def compare_spec(
    context: TableContext,
    table: IcebergTable,
    current: SnapshotInfo | None,
    state: StateDocument | None,
    index: IndexCheck,
    documents: DocumentSpec,
) -> Compatibility:
    """Compare the documents of the index that `state` names with `documents`.

    `current` is the snapshot that these are of. SAME without an index, or with one that `index`
    says is lost. StateCorrupt where it does not say what its documents were made of.
    """
    # An open export writes another index than the one that is served.
    written = (state.intent or state) if state else None
    if state is None or written is None or written.index is None or index.loss is not None:
        return SAME
    # A request less for an idle table. With an intent open it is asked: the intent may have
    # been recorded under another spec than the document names.
    if state.intent is None and state.document_spec == documents.hash:
        return SAME
    meta = indices.read_mapping(context.client, written.index).get("_meta", {})
    if "documentSpec" not in meta:
        raise StateCorrupt(
            f"Index {written.index} no longer says in its mapping's _meta what its documents "
            "were made of. Raise spec.resync.nonce to export the table again."
        )
    filled = find_filled_columns(table, current, state, documents)
    return documents.compare_with_stored(meta["documentSpec"], filled)


def find_filled_columns(
    table: IcebergTable,
    current: SnapshotInfo | None,
    written: StateDocument | RetainedIndex | None,
    documents: DocumentSpec,
) -> Mapping[int, str]:
    """Return the `filled` of `compare_stored`, for an index as it is by the state `written`."""
    applied = written.applied if written else None
    filled = dict.fromkeys(list_mapped_fields(table.properties), _MAPPED)
    if current is not None and applied is not None and _is_before(table, current, applied):
        ids = (entry.id for column in documents.columns for _, entry in walk_fields(column))
        filled |= dict.fromkeys(ids, _BACK)
    return filled


def _is_before(table: IcebergTable, current: SnapshotInfo, applied: Applied) -> bool:
    """Return whether the current snapshot is older than the one that the index equals."""
    if applied.snapshot_id is None or applied.snapshot_id == str(current.id):
        return False
    # In format 1 all numbers are 0 and order nothing.
    is_older = current.sequence_number < applied.sequence_number
    return is_older or table.is_ancestor(current.id, int(applied.snapshot_id))
