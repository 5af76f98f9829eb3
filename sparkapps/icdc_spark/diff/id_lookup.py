"""Build the operations of given ids from the snapshot itself, instead of from what changed.

A diff by files does not see a second row of a key in an untouched file:

| file | changed since S | rows of id 7 |
|---|---|---|
| `a.parquet` | no | `{"id":7,"name":"a"}` |
| `b.parquet` | removed | `{"id":7,"name":"b"}` |

The diff would delete document 7, because it saw no new row. For tables that are known to have
duplicate keys, and for keys whose first write had an unexpected answer, the whole snapshot decides:
here `a.parquet` still has a row, which becomes the document. It must not know how the ids were
found.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.operation_lines import OperationLines, add_expect, serialise_operations
from icdc_spark.diff.row_sets import pick_row_per_id
from icdc_spark.diff.rows import ID, list_id_metadata, select_cells
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.readers.whole_snapshot import read_whole

_WANTED = "wanted_id"


def look_up_ids(
    reader: SnapshotReader, ids: DataFrame, spec: DocumentSpec, *, version: int
) -> OperationLines:
    """Return one operation per id of the column `id`: its row of the greatest fingerprint, or a
    delete where the snapshot has none.

    Reads the key columns of the whole snapshot, and all columns where an id was found.
    """
    with translate_source_errors(reader.table_name):
        wanted = ids.select(F.col(ID).alias(_WANTED)).distinct()

        def select_matches(group: FileGroup) -> DataFrame:
            rows = _read_cells(reader, group, spec)
            return rows.join(wanted, on=F.col(ID) == F.col(_WANTED), how="left_semi")

        joined = wanted.join(
            # No salt: the same row has to be chosen again when a batch is repeated.
            pick_row_per_id(read_whole(reader, select_matches)),
            on=F.col(ID) == F.col(_WANTED),
            how="left",
        )
        # Not CREATED, whose answer may call for a lookup: this is that lookup.
        expect = F.when(F.col(ID).isNull(), Expect.DELETED).otherwise(Expect.UPDATED)
        operations = add_expect(joined, expect).withColumn(ID, F.col(_WANTED))
        return serialise_operations(operations, spec, version=version)


def look_up_all(reader: SnapshotReader, spec: DocumentSpec, *, version: int) -> OperationLines:
    """Return one operation per id of the snapshot: its row of the greatest fingerprint."""
    with translate_source_errors(reader.table_name):
        rows = read_whole(reader, lambda group: _read_cells(reader, group, spec))
        operations = add_expect(pick_row_per_id(rows), Expect.UPDATED)
        return serialise_operations(operations, spec, version=version)


def _read_cells(reader: SnapshotReader, group: FileGroup, spec: DocumentSpec) -> DataFrame:
    return select_cells(reader.read(group, metadata=list_id_metadata(spec)), spec)
