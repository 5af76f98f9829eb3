"""Operations for given ids by looking at the snapshot itself instead of at what changed.

A diff by files does not see a second row of a key in an untouched file. For tables that are known
to have such keys, and for keys whose first write met something unexpected, the snapshot decides.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.operation_lines import Lines, to_lines, with_expect
from icdc_spark.diff.row_sets import winners
from icdc_spark.diff.rows import ID, metadata_of, whole
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.readers.reader import Reader

_WANTED = "wanted_id"


def resolve(reader: Reader, ids: DataFrame, spec: DocumentSpec, *, version: int) -> Lines:
    """One operation per id of the column `id`: its row of the greatest fingerprint, or a delete.

    Reads the key columns of the whole snapshot, and all columns where an id was found.
    """
    with source_errors(reader.table_name):
        wanted = ids.select(F.col(ID).alias(_WANTED)).distinct()
        everything = reader.read(reader.everything(), metadata=metadata_of(spec))
        rows = whole(everything, spec)
        found = winners(rows.join(wanted, on=F.col(ID) == F.col(_WANTED), how="left_semi"))
        joined = wanted.join(found, on=F.col(ID) == F.col(_WANTED), how="left")
        expect = F.when(F.col(ID).isNull(), Expect.DELETED).otherwise(Expect.UPDATED)
        operations = with_expect(joined, expect).withColumn(ID, F.col(_WANTED))
        return to_lines(operations, spec, version=version)
