"""Tables of format 3 whose keys may be compared by bitmaps, and batches made by row lineage."""

from collections.abc import Iterable
from typing import Any

from icdc_spark.diff.changes import Strategy
from support_lake import Batch, Lake

TOLD, LEFT, NOT_TRIED = [True], [False], list[bool]()
"""What is tried in a batch: bits tell, they leave it to others, or are not asked."""


def filled(lake: Lake, columns: str, rows: Iterable[str], **wishes: Any) -> tuple[str, int]:
    """A table of format 3 with these rows in one file, and its snapshot."""
    name = lake.create(columns, version=3, **wishes)
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from values {', '.join(rows)}")
    return name, lake.head(name)


def by_lineage(lake: Lake, name: str, since: int, **wishes: Any) -> Batch:
    """The batch that follows from what rows say, as it is chosen where there are many."""
    return lake.changes(name, since, strategy=Strategy.LINEAGE, **wishes)
