"""Partitions of tables with columns that Spark has no type for: the second reader and its tasks."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.lake import Lake
from icdc_testing.lake.schemas import create_with_time

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("version", [1, 2])
def test_a_table_of_which_every_partition_field_was_removed_is_read(
    lake: Lake, version: int
) -> None:
    name = create_with_time(lake, {"a": "string"}, version=version)
    java = lake.load_table(name).java
    java.updateSpec().addField("a").commit()
    java.updateSpec().removeField("a").commit()
    JavaWriter(lake.load_table(name)).append([{"id": 1, "a": "x"}])

    (exported,) = lake.export(name)

    assert [op.doc for op in exported.ops] == ['{"id":1,"a":"x"}']


def test_deletes_of_before_the_partitions_were_changed_apply(lake: Lake) -> None:
    name = create_with_time(lake, {"a": "string"}, version=2)
    file = JavaWriter(lake.load_table(name)).append([{"id": 1}, {"id": 2}])
    JavaWriter(lake.load_table(name)).delete_positions(file, [0])
    lake.load_table(name).java.updateSpec().addField("a").commit()

    (exported,) = lake.export(name)

    assert [op.id for op in exported.ops] == ["2"]


@pytest.mark.parametrize(
    ("kind", "path", "shown"),
    [
        ("string", "x y", '"x y"'),
        ("int", "7", "7"),
        ("long", "7", "7"),
        ("boolean", "true", "true"),
        ("date", "2024-03-15", '"2024-03-15"'),
        ("decimal(9, 2)", "1.50", '"1.50"'),
        ("string", "__HIVE_DEFAULT_PARTITION__", None),
    ],
)
def test_a_file_without_the_column_that_it_is_partitioned_by_shows_its_partition(
    lake: Lake, kind: str, path: str, shown: str | None
) -> None:
    name = create_with_time(lake, {"p": kind}, version=2)
    table = lake.load_table(name)
    table.java.updateSpec().addField("p").commit()
    position = Path(str(table.java.location()).removeprefix("file:")) / "data" / "brought.parquet"
    position.parent.mkdir(exist_ok=True)
    number = pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([[1]], schema=pa.schema([number])), position)
    files = table.bridge.get_statics("org.apache.iceberg.DataFiles")
    builder = files.builder(table.java.spec()).withPath(f"file:{position}").withFormat("parquet")
    builder = builder.withFileSizeInBytes(position.stat().st_size).withRecordCount(1)
    file = builder.withPartitionPath(f"p={path}").build()
    table.java.newAppend().appendFile(file).commit()

    (by_spark,) = lake.export(name, columns=("id", "p"))
    (by_arrow,) = lake.export(name)

    wanted = '{"id":1}' if shown is None else f'{{"id":1,"p":{shown}}}'
    assert [op.doc for op in by_spark.ops] == [wanted]
    assert [op.doc for op in by_arrow.ops] == [wanted]
