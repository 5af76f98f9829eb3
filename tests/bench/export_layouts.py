"""The same rows in tables of ten layouts: few files and many, other formats, rows deleted."""

from collections.abc import Mapping
from dataclasses import dataclass

from icdc_cli.embedded.lake import LakeProcess
from icdc_testing.bench.changelog_ranges import build_columns

TABLE = "shop.t0"
DELETED_SHARE = 10
"""Of so many rows one is deleted, where rows are."""
_DELETES = f"delete from lake.{TABLE} where id % {DELETED_SHARE} = 3"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How rows lie in files."""

    files: int = 8
    """The tasks that write, each of which makes a file."""
    partitioned: str = ""
    """The columns of the partitions, with their transforms."""
    properties: Mapping[str, str] | None = None
    """Those of the table, beside the ones that all have."""
    statement: str = ""
    """What happens to the table afterwards."""


LAYOUTS: Mapping[str, Layout] = {
    "1 file": Layout(files=1),
    "8 files": Layout(),
    "64 files": Layout(files=64),
    "1,000 files": Layout(files=1000),
    "100 partitions": Layout(files=1, partitioned="bucket(100, id)"),
    "row groups of 1 MiB": Layout(properties={"write.parquet.row-group-size-bytes": "1048576"}),
    "ORC": Layout(properties={"write.format.default": "orc"}),
    "Avro": Layout(properties={"write.format.default": "avro"}),
    "position deletes": Layout(statement=_DELETES),
    "deletion vectors": Layout(properties={"format-version": "3"}, statement=_DELETES),
}


def create_table(lake: LakeProcess, layout: Layout, rows: int) -> tuple[int, int]:
    """Create the table; return the rows that it has and the number of its data files."""
    properties = {
        "format-version": "2",
        "write.delete.mode": "merge-on-read",
        # Rows of all partitions are written as they come, by each task.
        "write.distribution-mode": "none",
        "write.spark.fanout.enabled": "true",
        **(layout.properties or {}),
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    columns = ", ".join(f"{made} as {name}" for name, made in build_columns().items())
    partitions = f"partitioned by ({layout.partitioned}) " if layout.partitioned else ""
    lake.run_sql(
        f"create table lake.{TABLE} using iceberg {partitions}tblproperties({listed}) as "
        f"select {columns} from range(0, {rows}, 1, {layout.files})"
    )
    if layout.statement:
        lake.run_sql(layout.statement)
    (counted,) = lake.run_sql(f"select count(*) as count from lake.{TABLE}")
    (files,) = lake.run_sql(f"select count(*) as count from lake.{TABLE}.data_files")
    return int(counted["count"]), int(files["count"])
