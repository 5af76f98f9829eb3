"""A large data file is no single task: its row groups are read by several."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.change_plan import choose_planner
from icdc_spark.diff.export_plan import plan_export
from icdc_spark.readers.choose import open_reader
from icdc_testing.lake.lake import MERGE_ON_READ, Lake

pytestmark = pytest.mark.spark

ROWS, DELETED = 40_000, 40
KIB = 1024
# In small what 128 MiB are to a file of 2 GB.
PROPERTIES = {
    "write.parquet.row-group-size-bytes": 128 * KIB,
    "write.parquet.row-group-check-min-record-count": 100,
    "write.parquet.row-group-check-max-record-count": 500,
    "read.split.target-size": 256 * KIB,
    "read.split.open-file-cost": KIB,
}
FEWEST_TASKS = 4


@pytest.fixture
def table(lake: Lake) -> str:
    """A table whose rows are in one file, some of them deleted by position."""
    properties = "".join(f", '{key}'='{value}'" for key, value in PROPERTIES.items())
    name = lake.create("id bigint, text string", mode=MERGE_ON_READ, properties=properties)
    rows = f"select /*+ coalesce(1) */ id, sha2(cast(id as string), 256) from range({ROWS})"
    lake.sql(f"insert into lake.{name} {rows}")
    lake.sql(f"delete from lake.{name} where id % {ROWS // DELETED} = 7")
    return name


@pytest.mark.parametrize("purpose", ["export", "changelog"])
def test_one_large_file_is_read_by_several_tasks(lake: Lake, table: str, purpose: str) -> None:
    at, loaded = lake.head(table), lake.table(table)
    spec = lake.spec(table, at)
    if purpose == "export":
        (chunk,) = plan_export(loaded, at, target_bytes=1 << 30, target_rows=ROWS).chunks()
        group = chunk.group
    else:
        group = choose_planner(spec)(loaded, None, at).added
    assert group.files == 1
    with open_reader(lake.session, loaded, at, spec) as reader:
        rows = reader.read(group).groupBy(F.spark_partition_id()).count().collect()
    counts = [row["count"] for row in rows]
    assert sum(counts) == ROWS - DELETED
    assert len(counts) >= FEWEST_TASKS
    assert max(counts) < 2 * ROWS / FEWEST_TASKS
