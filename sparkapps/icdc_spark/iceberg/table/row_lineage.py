"""Whether rows of a table can be asked when they were last written.

Since format 3 each row has a sequence number of its own, which rewriting it unchanged keeps. What
is compared by it, and how it is read, is not known here.
"""

from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.table.tables import IcebergTable


def row_lineage_since(table: IcebergTable, from_id: int | None, to_id: int) -> int | None:
    """The sequence number above which a row of the later snapshot was written after the earlier.

    None where that cannot be said: the earlier one is of before the table had row lineage, or the
    later one is not known to descend from it, so that numbers of another history would count.
    Raises Gap when the earlier one is no longer retained.
    """
    if from_id is None:
        return None
    info = table.require(from_id)
    with source_errors(table.name):
        if table.java.snapshot(from_id).firstRowId() is None:
            return None
    return info.sequence_number if table.is_ancestor(from_id, to_id) else None
