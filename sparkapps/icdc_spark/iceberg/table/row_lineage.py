"""Judge whether row lineage says which rows were written between two snapshots.

Since format 3 each row has a last-updated sequence number, which a rewrite of the unchanged row
keeps. This module must not know how the number is read or what is compared by it.

Example: the earlier snapshot has sequence number 5. In a data file of the later one:

    row   last updated   meaning
    a     3              older: a compaction carried it over
    b     5              older: in the earlier snapshot
    c     6              written after the earlier snapshot
"""

from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.tables import IcebergTable


def find_lineage_start(table: IcebergTable, from_id: int | None, to_id: int) -> int | None:
    """Return the number above which a row's last-updated number is after the earlier snapshot.

    None where row lineage cannot say: the earlier snapshot is older than the table's row lineage,
    or the later one is not known to descend from it. Gap if the earlier snapshot has expired.
    """
    if from_id is None:
        return None
    info = table.require(from_id)
    with translate_source_errors(table.name):
        if table.java.snapshot(from_id).firstRowId() is None:
            return None
    # Of snapshots of two branches the numbers are not comparable: both may have written a number 6.
    return info.sequence_number if table.is_ancestor(from_id, to_id) else None
