"""Small files are no single task: all cores read some of them."""

from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.change_plan import choose_planner
from icdc_spark.diff.export_plan import plan_export
from icdc_spark.readers.arrow import ArrowReader
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.parallelism import TASK_ROWS, count_tasks
from icdc_spark.readers.snapshot_reader import BaseReader
from icdc_spark.readers.staged import StagedReader
from icdc_testing.lake.lake import Lake

pytestmark = pytest.mark.spark

FILES = 8
# Some 20 kB as stored: by their bytes alone all of them are worth one task.
ROWS = TASK_ROWS // 2


def read_tasks(lake: Lake, table: str, reader: type[BaseReader], purpose: str) -> Counter[int]:
    """Return how many rows each task reads of the files of a table."""
    at, loaded = lake.read_head(table), lake.load_table(table)
    spec = lake.resolve_spec(table)
    if purpose == "export":
        plan = plan_export(loaded, at, target_bytes=1 << 30, target_rows=1 << 30)
        (chunk,) = plan.iterate_chunks()
        group = chunk.group
    else:
        group = choose_planner(spec)(loaded, None, at).added
    with open_reader(lake.session, loaded, at, spec) as opened:
        assert isinstance(opened, reader)
        return Counter(
            row["task"]
            for row in opened.read(group).select(F.spark_partition_id().alias("task")).collect()
        )


@pytest.mark.parametrize("purpose", ["export", "changelog"])
@pytest.mark.parametrize("reader", [StagedReader, ArrowReader])
def test_small_files_of_many_rows_keep_all_cores_busy(
    lake: Lake, reader: type[BaseReader], purpose: str
) -> None:
    table = lake.create("id bigint")
    lake.session.range(0, FILES * ROWS, 1, FILES).writeTo(f"lake.{table}").append()
    if reader is ArrowReader:
        lake.add_time_column(table)
    tasks = read_tasks(lake, table, reader, purpose)
    assert len(tasks) == count_tasks(lake.session)
    assert sum(tasks.values()) == FILES * ROWS
    assert max(tasks.values()) == min(tasks.values())


def test_a_few_rows_in_a_few_files_are_one_task(lake: Lake) -> None:
    table = lake.create("id bigint")
    lake.session.range(0, 30, 1, 3).writeTo(f"lake.{table}").append()
    assert list(read_tasks(lake, table, StagedReader, "changelog").values()) == [30]
