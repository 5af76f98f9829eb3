"""How much one batch reads.

A backlog larger than `maxBytesPerBatch` is applied in parts, oldest first; one larger than
`rebuildAbove` of the table is not applied, the table is exported again.
"""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_spark.diff import change_plan
from icdc_spark.diff.change_plan import ChangePlan, plan_changes
from icdc_spark.replication import batches
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.scenarios import select_writes
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

APPENDS = 5


@pytest.mark.parametrize(
    ("files_per_batch", "expected"),
    [
        pytest.param(0.5, [["1"], ["2"], ["3"], ["4"], ["5"]], id="each commit larger than that"),
        pytest.param(2.5, [["1", "2"], ["3", "4"], ["5"]], id="two commits at once"),
        pytest.param(9, [["1", "2", "3", "4", "5"]], id="all at once"),
    ],
)
def test_batches_end_at_snapshots_so_that_none_reads_more_than_it_may(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    files_per_batch: float,
    expected: list[list[str]],
) -> None:
    name = lake.create("id int, name string")
    harness = make_harness(spark, proxy, tmp_path, name, insert(lake, name, 0), files_per_batch)
    harness.sync()
    for number in range(1, APPENDS + 1):
        insert(lake, name, number)
    proxy.clear()

    status = harness.sync()
    assert status.applied_snapshot_id == str(lake.read_head(name))
    assert list_batches(proxy) == expected


def test_no_difference_with_more_files_than_a_driver_can_hold_is_planned(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever `maxBytesPerBatch` allows: a difference is its files, in memory."""
    name = lake.create("id int, name string")
    harness = make_harness(spark, proxy, tmp_path, name, insert(lake, name, 0), 1_000)
    harness.sync()
    for number in range(1, APPENDS + 1):
        insert(lake, name, number)
    # A commit with more files than that is a batch of its own.
    lake.sql(f"insert into lake.{name} select /*+ repartition(3) */ id, 'n' from range(6, 9)")
    proxy.clear()
    monkeypatch.setattr(batches, "BATCH_FILES", 2)
    planned = list[int]()

    def plan(*asked: Any, **options: Any) -> ChangePlan:
        made = plan_changes(*asked, **options)
        planned.append(made.files)
        return made

    monkeypatch.setattr(change_plan, "plan_changes", plan)
    # Nor by whoever asks what the next run would do.
    answer = harness.inspect(RunMode.PLAN)
    assert (answer["filesAdded"], answer["filesRemoved"], answer["rows"]) == (8, 0, 8)
    assert (answer["tableRows"], answer["strategy"], answer["estimate"]) == (9, None, None)
    assert "applied in several batches" in answer["message"]
    assert planned == []

    assert harness.sync().applied_snapshot_id == str(lake.read_head(name))
    assert list_batches(proxy) == [["1", "2"], ["3", "4"], ["5"], ["6", "7", "8"]]
    assert set(planned) == {1, 2, 3}


def test_no_batch_ends_where_documents_look_otherwise_than_at_the_end(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    name = lake.create("id int, name string")
    harness = make_harness(spark, proxy, tmp_path, name, insert(lake, name, 0), 0.5)
    harness.sync()
    insert(lake, name, 1)
    lake.sql(f"alter table lake.{name} add column more string")
    lake.sql(f"insert into lake.{name} values (2, 'n2', 'm2')")
    lake.sql(f"alter table lake.{name} rename column more to renamed")
    lake.sql(f"insert into lake.{name} values (3, 'n3', 'm3')")
    lake.sql(f"alter table lake.{name} rename column renamed to more")
    lake.sql(f"insert into lake.{name} values (4, 'n4', 'm4')")
    proxy.clear()

    assert harness.sync().applied_snapshot_id == str(lake.read_head(name))
    assert list_batches(proxy) == [["1", "2"], ["3", "4"]]


def test_more_files_than_a_driver_can_hold_are_not_planned_to_be_weighed_either(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether an export reads less is then decided by what the writers of the snapshots stated."""
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (0, 'n')")
    table = {"name": name, "index": "some", "identifierColumns": ["id"]}
    harness = Harness(spark, proxy.url, tmp_path, [table], changelog={"rebuildAbove": 0.5})
    harness.sync()
    for number in range(1, APPENDS + 1):
        insert(lake, name, number)
    monkeypatch.setattr(batches, "BATCH_FILES", APPENDS - 1)
    monkeypatch.delattr(change_plan, "list_changed")

    assert harness.sync().applied_snapshot_id == str(lake.read_head(name))
    assert set(oracle.request(f"{clean_indices}/_alias/some")) == {"some-000002"}


@pytest.mark.parametrize(
    ("above", "mode", "step", "index", "written"),
    [
        pytest.param(0.5, "ExportAndStream", "Export", 2, "123", id="more"),
        pytest.param(2.5, "ExportAndStream", "Changelog", 1, "123", id="less"),
        # An export would index the rows from before the start as well.
        pytest.param(0.5, "StreamOnly", "Changelog", 1, "23", id="more, changes alone are wanted"),
    ],
)
def test_a_table_of_which_too_much_changed_is_exported_again(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    above: float,
    mode: str,
    step: str,
    index: int,
    written: str,
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a'), (2, 'b'), (3, 'c')")
    table = {"name": name, "index": "some", "identifierColumns": ["id"]}
    share = {"rebuildAbove": above}
    harness = Harness(spark, proxy.url, tmp_path, [table], changelog=share, mode=mode)
    harness.sync()
    lake.sql(f"update lake.{name} set name = 'x' where id > 1")

    planned = harness.inspect(RunMode.PLAN)
    assert planned["mode"] == step
    assert ("changelog.rebuildAbove is 0.5" in planned["why"]) == (step == "Export")
    harness.sync()
    assert set(oracle.request(f"{clean_indices}/_alias/some")) == {f"some-{index:06}"}
    assert sorted(oracle.read_index(clean_indices, "some")) == list(written)
    assert harness.inspect(RunMode.PLAN)["mode"] == "Idle"


def make_harness(
    spark: SparkSession,
    proxy: FaultProxy,
    folder: Path,
    name: str,
    file_bytes: int,
    files_per_batch: float,
) -> Harness:
    entry = {"name": name, "index": "some", "identifierColumns": ["id"]}
    most = {"maxBytesPerBatch": int(file_bytes * files_per_batch)}
    return Harness(spark, proxy.url, folder, [entry], changelog=most)


def insert(lake: Lake, name: str, number: int) -> int:
    """Append a row and returns the bytes of a data file, which all have about as many."""
    lake.sql(f"insert into lake.{name} values ({number}, 'n{number}')")
    return int(lake.sql(f"select max(file_size_in_bytes) from lake.{name}.files")[0][0])


def list_batches(proxy: FaultProxy) -> list[list[str]]:
    """Return the ids written, by batch."""
    writes = sorted(
        select_writes(proxy.list_writes(), "some"), key=lambda write: write.version or 0
    )
    by_version = groupby(writes, key=lambda write: write.version)
    return [sorted(write.id for write in batch) for _, batch in by_version]
