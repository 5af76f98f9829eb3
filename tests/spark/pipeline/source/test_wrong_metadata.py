"""Deletes in another partition than their data file; readers that must give memory back."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.lake import MERGE_ON_READ, Lake
from icdc_testing.lake.lineage import compute_by_lineage, create_filled
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark


def find_data_file(lake: Lake, name: str, country: str) -> Any:
    """Return the Java data file of a partition."""
    table = lake.load_table(name)
    scan = table.java.newScan()
    tasks = table.bridge.list_elements(table.bridge.drain(scan.planFiles()))
    (file,) = [task.file() for task in tasks if country in str(task.file().partition())]
    return file


@pytest.mark.parametrize("version", [2, 3], ids=["position deletes", "deletion vector"])
def test_deletes_in_another_partition_than_their_file_stop_their_table_alone(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path, version: int
) -> None:
    columns = "id int, country string"
    name = lake.create(columns, mode=MERGE_ON_READ, version=version, partitioned="country")
    healthy = lake.create("id int")
    lake.sql(f"insert into lake.{name} values (1, 'Nederland'), (2, 'Belgie')")
    entries = [
        {"name": table, "index": index, "identifierColumns": ["id"]}
        for table, index in ((name, "things"), (healthy, "others"))
    ]
    harness = Harness(spark, clean_indices, tmp_path, entries)
    assert harness.run().outcome is None
    first, second = find_data_file(lake, name, "Nederland"), find_data_file(lake, name, "Belgie")

    JavaWriter(lake.load_table(name)).delete_positions(first, [0], second.partition())
    lake.sql(f"insert into lake.{healthy} values (7)")
    wrong, right = harness.run().tables

    assert wrong.reason == "FileUnreadable"
    assert "which is in another partition: the metadata is corrupt" in (wrong.message or "")
    assert "then raise spec.resync.nonce" in (wrong.message or "")
    assert "Nederland" not in (wrong.message or "")
    assert set(oracle.read_index(clean_indices, "things")) == {"1", "2"}
    assert right.reason is None
    assert set(oracle.read_index(clean_indices, "others")) == {"7"}

    # As the message says.
    lake.load_table(name).java.newOverwrite().deleteFile(first).commit()
    harness.resource["spec"]["resync"] = {"nonce": 1}
    assert {table.reason for table in harness.run().tables} == {None}
    assert set(oracle.read_index(clean_indices, "things")) == {"2"}


def test_readers_of_row_lineage_give_their_memory_back(spark: SparkSession, lake: Lake) -> None:
    name, since = create_filled(lake, "id int, name string", [f"({n}, 'a')" for n in range(2_000)])
    allocation = lake.load_table(name).bridge.jvm.org.apache.iceberg.arrow.ArrowAllocation
    before = int(allocation.rootAllocator().getAllocatedMemory())
    for number in range(3):
        lake.sql(f"update lake.{name} set name = 'b{number}' where id = {number}")
        assert compute_by_lineage(lake, name, since).short
    assert int(allocation.rootAllocator().getPeakMemoryAllocation()) > before
    assert int(allocation.rootAllocator().getAllocatedMemory()) == before
