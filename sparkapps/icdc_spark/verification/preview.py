"""Answers `icdc preview` for one table: documents of some rows, before anything is indexed.

The readers and the serialisation are those of an export, so a document shown here is the one that
an export of the same snapshot writes. Files are read one after the other until enough rows have a
document; OpenSearch is not asked, and need not exist. Where rows have the same key, each of them is
shown: which one becomes the document is known only once all rows are compared.

Example, the entry of a table with one row:

    {"name": "shop.orders", "index": "orders", "snapshotId": "77",
     "documents": [{"_id": "7", "_source": {"order_id": 7, "status": "paid"}}],
     "mapping": {"dynamic": "strict", "properties": {"order_id": {"type": "long"}, …}}}

A row on which the expression of a field fails has `failed`, the name of the field, beside what its
document would be made of.
"""

import json
from collections.abc import Iterator
from contextlib import closing

from icdc_api.job.answers import PreviewDocument, PreviewEntry, TableEntry
from icdc_api.job.modes import PREVIEW_ROWS
from icdc_spark.diff.export_plan import Chunk
from icdc_spark.diff.strategies import build_export_lines
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.ordered_scan import OrderedScan
from icdc_spark.iceberg.scan.planning import FileGroup, release_groups
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.checks.table_observation import TableObserver
from icdc_spark.replication.context import TableContext
from icdc_spark.verification.inspection import answer

GROWTH = 8
MAX_FILES = 512
"""Files that are read in one Spark job, at most."""


def preview(context: TableContext) -> TableEntry:
    """Return documents of some rows, and the mapping of their index."""
    return answer(context, lambda: _preview(context))


def _preview(context: TableContext) -> PreviewEntry:
    rows = context.request.rows or PREVIEW_ROWS
    with closing(TableObserver(context)) as observer:
        table, current, documents = observer.read_table()
        mapping = build_index_mapping(documents, table_uuid=table.uuid)
        del mapping["_meta"]
        shown: list[PreviewDocument] = []
        if current is not None:
            observer.check_filter(table, str(current.id), documents)
            for group in _list_groups(table, current.id):
                context.note_progress()
                # One for each group: it holds what it has read until it is closed.
                with open_reader(observer.session, table, current.id, documents) as reader:
                    shown += _read_documents(reader, group, documents, rows - len(shown))
                # With a filter many files may be read: their tasks must not pile up in the JVM.
                release_groups(table, [group])
                if len(shown) == rows:
                    break
        return {
            "snapshotId": str(current.id) if current else None,
            "documents": shown,
            "mapping": mapping,
        }


def _list_groups(table: IcebergTable, snapshot_id: int) -> Iterator[FileGroup]:
    """Yield the data files of a snapshot with their deletes, always in the same order.

    The first group is one file, each later one has GROWTH times as many: of a table whose rows are
    mostly filtered out, many files are read in few jobs.
    """
    scan, size = OrderedScan(table, snapshot_id), 1
    for window in scan.windows:
        for part in scan.list_files(window):
            files = list(part.files)
            while files:
                yield scan.group(part, files[:size])
                files, size = files[size:], min(GROWTH * size, MAX_FILES)


def _read_documents(
    reader: SnapshotReader, group: FileGroup, documents: DocumentSpec, limit: int
) -> list[PreviewDocument]:
    """Return the documents of the first rows of a file, at most `limit`."""
    # Versions are not shown, so any will do.
    lines = build_export_lines(reader, Chunk(number=0, group=group), documents, version=1)
    with translate_source_errors(reader.table_name):
        taken = lines.frame.select("line").limit(limit).collect()
    return [_parse_line(bytes(row["line"])) for row in taken]


def _parse_line(line: bytes) -> PreviewDocument:
    # Iceberg does not say that strings of its files are valid UTF-8.
    action, source = line.decode(errors="replace").rstrip("\n").split("\n")
    index = json.loads(action)["index"]
    shown: PreviewDocument = {"_id": index["_id"], "_source": json.loads(source)}
    if "routing" in index:
        shown = {"_id": index["_id"], "_routing": index["routing"], "_source": shown["_source"]}
    if "failed" in index:
        shown["failed"] = index["failed"]
    return shown
