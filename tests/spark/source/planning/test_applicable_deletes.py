"""Delete manifests that matter to no data file of a window are not planned with it, all others are.

That every data file gets its deletes whatever is left out is shown in `test_export_plan`.
"""

import pytest
from pyspark.sql import SparkSession

from icdc_spark.diff.export_plan import plan_export
from icdc_spark.iceberg.scan import applicable_deletes, ordered_scan
from icdc_spark.iceberg.scan.applicable_deletes import narrow_deletes
from icdc_spark.iceberg.scan.manifest_entries import read_delete_entries
from icdc_spark.iceberg.scan.manifests import read_manifests
from icdc_spark.iceberg.scan.planning import release_groups
from icdc_testing.lake.metadata_table import MetadataTable
from icdc_testing.waiting.jvm import FileCounter

from .test_planning import find_manifest, make_table, read_head

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def even_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search delete manifests also where there are few delete files."""
    monkeypatch.setattr(applicable_deletes, "FEW_DELETES", 0)


class CountryTable:
    """Data files of two partitions, and delete manifests with one delete file each."""

    def __init__(self, spark: SparkSession) -> None:
        properties = {"format-version": "2", "commit.manifest-merge.enabled": "false"}
        self.table = table = MetadataTable(spark, **properties)
        unpartitioned = table.make_data_file()
        table.java.newFastAppend().appendFile(unpartitioned).commit()
        table.java.updateSpec().addField("p").commit()
        self.files = {name: table.make_data_file(int(name[0])) for name in ("1a", "1b", "2c")}
        for file in self.files.values():
            table.java.newFastAppend().appendFile(file).commit()
        own, other = self.files["1a"], self.files["2c"]
        self.deletes = {
            "of 1a": table.make_position_deletes(own, target=True),
            "of 2c": table.make_position_deletes(other, target=True),
            "of partition 1": table.make_position_deletes(own, target=False),
            "of partition 2": table.make_position_deletes(other, target=False),
            "equal in partition 2": table.make_equality_deletes(other, by=(1, 2)),
            "of any file": table.make_equality_deletes(unpartitioned),
        }
        for delete in self.deletes.values():
            table.java.newRowDelta().addDeletes(delete).commit()

    def narrow(self, *names: str) -> set[str]:
        """Return which delete files are planned with a window of these data files."""
        loaded = self.table.load()
        manifests = read_manifests(loaded, read_head(self.table))
        paths = {find_manifest(self.table, self.files[name]) for name in names}
        window = manifests.data.with_paths(paths)
        narrowed = narrow_deletes(loaded, window, manifests.deletes, at_once=10)
        planned = {entry.name for _, entry in read_delete_entries(loaded, narrowed)}
        return {name for name, file in self.deletes.items() if f"{file.location()}@null" in planned}


@pytest.mark.parametrize(
    ("names", "planned"),
    [
        (("1a",), {"of 1a", "of partition 1", "of any file"}),
        (("1b",), {"of partition 1", "of any file"}),
        (("2c",), {"of 2c", "of partition 2", "equal in partition 2", "of any file"}),
        (("1b", "2c"), {"of 2c", "of partition 1", "of partition 2", "equal in partition 2",
                        "of any file"}),
    ],
)  # fmt: skip
def test_a_window_is_planned_with_the_manifests_that_may_have_a_delete_for_it(
    spark: SparkSession, names: tuple[str, ...], planned: set[str]
) -> None:
    assert CountryTable(spark).narrow(*names) == planned


@pytest.mark.parametrize("limit", ["FEW_DELETES", "MANY_FILES"])
def test_few_deletes_or_the_files_of_a_huge_manifest_are_not_searched(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    table = CountryTable(spark)
    monkeypatch.setattr(applicable_deletes, limit, 6 if limit == "FEW_DELETES" else 0)
    assert table.narrow("1b") == table.deletes.keys()


def test_delete_files_for_other_windows_alone_are_not_in_memory(
    spark: SparkSession, collected_late: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_scan, "COLLECTED_DELETES", 0)
    table, held = make_table(spark, 2), FileCounter(spark, "Delete")
    for _ in range(20):
        files = [table.make_data_file() for _ in range(10)]
        append, delete = table.java.newFastAppend(), table.java.newRowDelta()
        for file in files:
            append = append.appendFile(file)
            delete = delete.addDeletes(table.make_position_deletes(file, target=True))
        append.commit()
        delete.commit()
    loaded, snapshot = table.load(), read_head(table)
    before, counts = held.wait_until_freed(), list[int]()
    plan = plan_export(loaded, snapshot, target_bytes=1 << 30, target_rows=100, window_files=10)
    for chunk in plan.iterate_chunks():
        # In bulk: each Java object that Python has seen would stay in memory.
        opened = loaded.bridge.map(
            chunk.group.tasks, "org.apache.iceberg.FileScanTask", "filesCount"
        )
        assert loaded.bridge.read_texts(opened) == ["2"] * 10
        if chunk.number % 5 == 2:
            counts.append(held.count())
        release_groups(loaded, [chunk.group])
    assert plan.count == 20
    # Of the window that is written and of the next one; a full slice is followed by an empty one.
    assert 0 < max(counts) - before <= 4 * 10
