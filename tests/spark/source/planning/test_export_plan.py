"""An export has the same chunks whenever it is planned, and each file of the snapshot in one.

The oracle lists all files of the snapshot at once, by Iceberg's own planning.
"""

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import Gap
from icdc_spark.diff.export_plan import Chunk, ExportPlan, plan_export
from icdc_spark.iceberg.scan import applicable_deletes
from icdc_spark.iceberg.scan.manifest_index import ManifestIndex
from icdc_spark.iceberg.scan.planning import FileGroup, list_files, release_groups
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.lake.metadata_table import MetadataTable
from icdc_testing.waiting.jvm import FileCounter

from .metadata_history import MetadataHistory
from .planning_oracle import describe_group
from .test_planning import make_table, read_head

pytestmark = pytest.mark.spark

STEPS = 12
ROUNDS = 3
"""After each so many snapshots are planned, those of the rounds before among them."""
TARGETS = [(1, 1 << 30), (3_000, 1 << 30), (1 << 30, 25), (1 << 30, 1 << 30)]
"""Bytes and rows of a chunk; files have some 1,000 bytes and 10 rows."""
WINDOWS = [1, 2, 3, 5, 8, 10_000]
"""Files of a window: most manifests have up to three."""


@pytest.mark.parametrize(
    ("version", "upgrades"),
    [
        pytest.param(1, False, id="v1"),
        pytest.param(2, False, id="v2"),
        pytest.param(3, False, id="v3"),
        pytest.param(1, True, id="upgraded"),
    ],
)
def test_a_snapshot_has_the_same_chunks_whatever_was_committed_meanwhile(
    spark: SparkSession,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    upgrades: bool,
) -> None:
    monkeypatch.setattr(applicable_deletes, "FEW_DELETES", 0)
    index = ManifestIndex(capacity=rng.choice([0, 20, 1000]))
    monkeypatch.setattr(applicable_deletes, "DELETE_INDEX", index)
    table = make_table(spark, version, merge_at=rng.choice([2, 3, 100]))
    history = MetadataHistory(table, rng, upgrades=upgrades)
    planned: dict[tuple[int, int, int], list[Any]] = {}
    for left in reversed(range(ROUNDS)):
        for _ in range(STEPS):
            history.step()
        # Iceberg itself makes no commit of version 3 on manifests without counts.
        may_forget = version == 1 and (left == 0 or not upgrades)
        if may_forget and rng.random() < 0.5:
            forget_counts(table, rng.choice(history.snapshots))
        loaded = table.load()
        for snapshot in rng.sample(history.snapshots, k=2):
            planned.setdefault((snapshot, *rng.choice(TARGETS)), [])
        for (snapshot, target_bytes, target_rows), before in planned.items():
            if snapshot not in loaded.snapshots:
                continue
            why = f"{history.log}, {snapshot}, {target_bytes} bytes, {target_rows} rows"
            plan = plan_in_windows(rng, loaded, snapshot, target_bytes, target_rows)
            chunks = list(plan.iterate_chunks())
            assert_complete(loaded, snapshot, plan, chunks, why)
            described = [describe_group(loaded, chunk.group) for chunk in chunks]
            assert before in ([], described), why
            before[:] = described


def test_an_export_goes_on_at_any_chunk(spark: SparkSession, rng: random.Random) -> None:
    table = make_table(spark, 2, merge_at=3)
    history = MetadataHistory(table, rng, upgrades=False)
    for _ in range(STEPS):
        history.append()
        history.delete_rows()
    loaded, snapshot = table.load(), read_head(table)
    for target_bytes, target_rows in TARGETS:
        plan = plan_in_windows(rng, loaded, snapshot, target_bytes, target_rows)
        whole = [
            (chunk.number, list_locations(loaded, chunk.group)) for chunk in plan.iterate_chunks()
        ]
        for first in range(plan.count + 1):
            part = [
                (chunk.number, list_locations(loaded, chunk.group))
                for chunk in plan.iterate_chunks(first)
            ]
            assert part == whole[first:], f"from {first}, {target_bytes} bytes, {target_rows} rows"


def test_chunks_are_as_large_as_the_targets_allow_across_manifests(spark: SparkSession) -> None:
    table = make_table(spark, 2)
    for _ in range(10):
        table.java.newFastAppend().appendFile(table.make_data_file()).commit()
    loaded = table.load()
    for window in WINDOWS:
        plan = plan_export(
            loaded, read_head(table), target_bytes=1 << 30, target_rows=40, window_files=window
        )
        assert [chunk.group.files for chunk in plan.iterate_chunks()] == [4, 4, 2]


def test_files_of_one_large_manifest_come_in_its_order(spark: SparkSession) -> None:
    table = make_table(spark, 2)
    names = append_many(table, 5_000)
    loaded = table.load()
    plan = plan_export(
        loaded, read_head(table), target_bytes=1 << 60, target_rows=1 << 60, window_files=700
    )
    (chunk,) = plan.iterate_chunks()
    assert list_locations(loaded, chunk.group) == names


@pytest.mark.sampled
@pytest.mark.parametrize("manifests", [1, 25, 100])
def test_of_many_files_no_more_than_a_window_is_in_memory(
    spark: SparkSession, collected_late: None, manifests: int
) -> None:
    table, limit = make_table(spark, 2), 100
    held = FileCounter(spark)
    for _ in range(manifests):
        append_many(table, 5_000 // manifests)
    loaded, snapshot = table.load(), read_head(table)
    before = held.wait_until_freed()
    plan = plan_export(loaded, snapshot, target_bytes=1 << 30, target_rows=100, window_files=limit)
    # What the appends had made may be let go later: then there are fewer.
    assert held.count() <= before
    assert (plan.files, plan.records, plan.count) == (5_000, 50_000, 500)
    counts = []
    for chunk in plan.iterate_chunks():
        assert chunk.group.files == 10
        if chunk.number % 100 == 55:
            counts.append(held.count())
        release_groups(loaded, [chunk.group])
    # The window and the chunk; the first entry of a manifest may be read ahead.
    assert 0 < max(counts) <= before + limit + 20


def test_a_snapshot_without_files_has_no_chunk(spark: SparkSession) -> None:
    table = make_table(spark, 2)
    file = table.make_data_file()
    table.java.newFastAppend().appendFile(file).commit()
    table.java.newDelete().deleteFile(file).commit()
    plan = plan_export(table.load(), read_head(table), target_bytes=1, target_rows=1)
    assert (plan.count, plan.files, list(plan.iterate_chunks())) == (0, 0, [])


def test_a_snapshot_that_has_expired_is_a_gap(spark: SparkSession) -> None:
    table = make_table(spark, 2)
    with pytest.raises(Gap):
        plan_export(table.load(), 7, target_bytes=1, target_rows=1)


def plan_in_windows(
    rng: random.Random, table: IcebergTable, snapshot: int, target_bytes: int, target_rows: int
) -> ExportPlan:
    return plan_export(
        table,
        snapshot,
        target_bytes=target_bytes,
        target_rows=target_rows,
        window_files=rng.choice(WINDOWS),
    )


def assert_complete(
    table: IcebergTable, snapshot: int, plan: ExportPlan, chunks: list[Chunk], why: str
) -> None:
    """Assert that the chunks have all files, with the deletes that Iceberg's planning gives."""
    listing = list_files(table, snapshot)
    expected = describe_group(table, listing.group(listing.files))
    tasks = [task for chunk in chunks for task in describe_group(table, chunk.group)["tasks"]]
    assert sort_tasks(tasks) == sort_tasks(expected["tasks"]), why
    assert (plan.files, plan.records, plan.bytes) == (
        len(listing.files), expected["records"], expected["bytes"],
    ), why  # fmt: skip
    assert [chunk.number for chunk in chunks] == list(range(plan.count)), why
    assert sum(chunk.group.records for chunk in chunks) == plan.records, why


def sort_tasks(tasks: list[Any]) -> list[Any]:
    return sorted(tasks, key=str)


def list_locations(table: IcebergTable, group: FileGroup) -> list[str]:
    return [str(task.file().location()) for task in table.bridge.list_elements(group.tasks)]


def append_many(table: MetadataTable, count: int) -> list[str]:
    """Append so many files in one manifest, whose locations are not in their order."""
    change = table.java.newFastAppend()
    names = []
    for file in table.make_copies(table.make_data_file(), count):
        change = change.appendFile(file)
        names.append(str(file.location()))
    change.commit()
    return names


def forget_counts(table: MetadataTable, snapshot_id: int) -> None:
    """Write a snapshot's list of manifests as an early writer of format 1 did: without counts."""
    bridge, java = table.bridge, table.load().java
    snapshot = java.snapshot(snapshot_id)
    manifests = snapshot.allManifests(java.io())
    columns = bridge.get_statics("org.apache.iceberg.ManifestFile").schema().columns()
    # The columns up to the first count: whoever writes takes values by their position.
    schema = bridge.create_object("org.apache.iceberg.Schema", columns.subList(0, 7))
    output = java.io().newOutputFile(snapshot.manifestListLocation())
    avro = bridge.get_statics("org.apache.iceberg.FileFormat").valueOf("AVRO")
    writer = bridge.get_statics("org.apache.iceberg.InternalData").write(avro, output)
    appender = writer.schema(schema).named("manifest_file").overwrite().build()
    try:
        appender.addAll(manifests)
    finally:
        appender.close()
    again = table.load().java.snapshot(snapshot_id).dataManifests(java.io())
    assert all(manifest.addedFilesCount() is None for manifest in bridge.list_elements(again))
