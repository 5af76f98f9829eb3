"""A large data file is no single task: its row groups are read by several."""

from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.change_plan import choose_planner
from icdc_spark.diff.export_plan import plan_export
from icdc_spark.readers.arrow import ArrowReader
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import BaseReader
from icdc_spark.readers.staged import StagedReader
from icdc_testing.lake.lake import MERGE_ON_READ, Lake

pytestmark = pytest.mark.spark

ROWS, EVERY = 120_000, 1_000
KIB = 1024
# In small what 128 MiB are to a file of 2 GB.
PROPERTIES = {
    "write.parquet.row-group-size-bytes": 128 * KIB,
    "write.parquet.row-group-check-min-record-count": 100,
    "write.parquet.row-group-check-max-record-count": 500,
    "read.split.target-size": 1024 * KIB,
}
FEWEST_TASKS = 4


@pytest.fixture
def table(lake: Lake) -> str:
    """A table whose rows are in one file, some of them deleted by position."""
    properties = "".join(f", '{key}'='{value}'" for key, value in PROPERTIES.items())
    name = lake.create("id bigint, text string", mode=MERGE_ON_READ, properties=properties)
    rows = f"select /*+ coalesce(1) */ id, sha2(cast(id as string), 256) from range({ROWS})"
    lake.sql(f"insert into lake.{name} {rows}")
    lake.sql(f"delete from lake.{name} where id % {EVERY} = 7")
    return name


@pytest.mark.parametrize("purpose", ["export", "changelog"])
@pytest.mark.parametrize("reader", [StagedReader, ArrowReader])
def test_one_large_file_is_read_by_several_tasks(
    lake: Lake, table: str, reader: type[BaseReader], purpose: str
) -> None:
    if reader is ArrowReader:
        lake.add_time_column(table)
    at, loaded = lake.read_head(table), lake.load_table(table)
    spec = lake.resolve_spec(table)
    if purpose == "export":
        (chunk,) = plan_export(loaded, at, target_bytes=1 << 30, target_rows=ROWS).iterate_chunks()
        group = chunk.group
    else:
        group = choose_planner(spec)(loaded, None, at).added
    assert group.files == 1
    with open_reader(lake.session, loaded, at, spec) as opened:
        assert isinstance(opened, reader)
        frame = opened.read(group, metadata=["_pos"])
        rows = frame.select("id", "_pos", F.spark_partition_id().alias("task")).collect()
    # Each row once, at its position; they were written in the order of their ids.
    assert sorted(row["id"] for row in rows) == [n for n in range(ROWS) if n % EVERY != 7]
    assert all(row["id"] == row["_pos"] for row in rows)
    tasks = Counter(row["task"] for row in rows)
    assert len(tasks) >= FEWEST_TASKS
    assert max(tasks.values()) < 2 * ROWS / FEWEST_TASKS
