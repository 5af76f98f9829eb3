"""Tables of format 3, and batches made by what their rows say of themselves."""

from collections.abc import Iterable
from typing import Any

from icdc_spark.diff.strategies import Strategy
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.lake.lake import BatchOperations, Lake

SHOWN, LEFT, NOT_TRIED = [True], [False], list[bool]()
"""Of bitmaps in a batch: they show what differs, they leave it to others, or are not tried."""


def create_filled(lake: Lake, columns: str, rows: Iterable[str], **wishes: Any) -> tuple[str, int]:
    """Create a table of format 3 with these rows in one file; return it and its snapshot."""
    name = lake.create(columns, version=3, **wishes)
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from values {', '.join(rows)}")
    return name, lake.read_head(name)


def put_back(lake: Lake, name: str, past: int) -> None:
    """Replace the only data file of a table by that of an earlier snapshot."""
    table = lake.load_table(name)
    (old,), (new,) = (_list_data_files(table, at) for at in (past, lake.read_head(name)))
    table.java.newOverwrite().deleteFile(new).addFile(old).commit()


def compute_by_lineage(lake: Lake, name: str, since: int, **wishes: Any) -> BatchOperations:
    """Return the batch that follows from what rows say, as it is chosen where there are many."""
    return lake.diff(name, since, strategy=Strategy.LINEAGE, **wishes)


def _list_data_files(table: IcebergTable, snapshot_id: int) -> list[Any]:
    """Return the Java data files of a snapshot, with all that metadata say of their columns."""
    scan = table.java.newScan().useSnapshot(snapshot_id).includeColumnStats()
    return [
        task.file() for task in table.bridge.list_elements(table.bridge.drain(scan.planFiles()))
    ]
