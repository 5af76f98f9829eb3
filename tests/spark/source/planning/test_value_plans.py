"""Plans of equality deletes: found by value, named by key, or read at both snapshots."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_spark.diff.change_plan import ChangePlan, plan_changes
from icdc_spark.iceberg.changes import key_deletes
from icdc_spark.iceberg.scan.planning import list_files
from icdc_testing.lake.metadata_table import ROWS, MetadataTable

pytestmark = pytest.mark.spark

ID, P = 1, 2

Make = Callable[[MetadataTable], int]
"""Commits to a table of format 2; returns the earlier snapshot of the plan."""


def append_three_files(table: MetadataTable) -> list[Any]:
    files = [table.make_data_file(number) for number in range(3)]
    update = table.java.newAppend()
    for file in files:
        update = update.appendFile(file)
    update.commit()
    return files


def partition(table: MetadataTable) -> None:
    table.java.updateSpec().addField("p").commit()


def delete(table: MetadataTable, *deletes: Any) -> None:
    update = table.java.newRowDelta()
    for file in deletes:
        update = update.addDeletes(file)
    update.commit()


def delete_by_key(table: MetadataTable) -> int:
    first, *_ = append_three_files(table)
    since = read_head(table)
    delete(table, table.make_equality_deletes(first))
    return since


def delete_in_several_commits_after_others(table: MetadataTable) -> int:
    first, second, _ = append_three_files(table)
    by_position = table.make_position_deletes(second, target=True)
    delete(table, table.make_equality_deletes(first), by_position)
    since = read_head(table)
    delete(table, table.make_equality_deletes(first))
    table.java.newAppend().appendFile(table.make_data_file(0)).commit()
    delete(table, table.make_equality_deletes(first))
    return since


def delete_by_two_kinds_of_keys(table: MetadataTable) -> int:
    first, *_ = append_three_files(table)
    since = read_head(table)
    delete(
        table, table.make_equality_deletes(first), table.make_equality_deletes(first, by=(P, ID))
    )
    return since


def delete_by_the_partition_and_more(table: MetadataTable) -> int:
    partition(table)
    first, second, _ = append_three_files(table)
    since = read_head(table)
    delete(table, *(table.make_equality_deletes(file, by=(P, ID)) for file in (first, second)))
    return since


def delete_by_less_than_the_partition(table: MetadataTable) -> int:
    partition(table)
    first, *_ = append_three_files(table)
    since = read_head(table)
    delete(table, table.make_equality_deletes(first))
    return since


def delete_for_files_of_two_specs(table: MetadataTable) -> int:
    first, *_ = append_three_files(table)
    partition(table)
    append_three_files(table)
    since = read_head(table)
    delete(table, table.make_equality_deletes(first))
    return since


def delete_for_files_of_one_of_two_specs(table: MetadataTable) -> int:
    append_three_files(table)
    partition(table)
    first, *_ = append_three_files(table)
    since = read_head(table)
    delete(table, table.make_equality_deletes(first, by=(P, ID)))
    return since


def delete_after_a_later_snapshot_of_another_branch(table: MetadataTable) -> int:
    first, *_ = append_three_files(table)
    table.java.manageSnapshots().createBranch("side").commit()
    delete(table, table.make_equality_deletes(first))
    table.java.newAppend().appendFile(table.make_data_file()).toBranch("side").commit()
    return int(table.java.snapshot("side").snapshotId())


def delete_with_position_deletes_for_one(table: MetadataTable) -> int:
    first, second, _ = append_three_files(table)
    since = read_head(table)
    by_position = table.make_position_deletes(second, target=True)
    delete(table, table.make_equality_deletes(first), by_position)
    return since


def delete_with_position_deletes_for_most(table: MetadataTable) -> int:
    partition(table)
    files = append_three_files(table)
    since = read_head(table)
    by_positions = [table.make_position_deletes(file, target=False) for file in files[1:]]
    delete(table, *(table.make_equality_deletes(file, by=(P, ID)) for file in files), *by_positions)
    return since


def delete_while_others_went(table: MetadataTable) -> int:
    first, *_ = append_three_files(table)
    old = table.make_position_deletes(first, target=True)
    delete(table, old)
    since = read_head(table)
    new = table.make_equality_deletes(first)
    table.java.newRowDelta().removeDeletes(old).addDeletes(new).commit()
    return since


def delete_by_a_deleted_column(table: MetadataTable) -> int:
    first, *_ = append_three_files(table)
    since = read_head(table)
    delete(table, table.make_equality_deletes(first, by=(P,)))
    table.java.updateSchema().deleteColumn("p").commit()
    table.java.newAppend().appendFile(table.make_data_file()).commit()
    return since


def delete_nothing_of_a_file_that_was_put_in_again(table: MetadataTable) -> int:
    first, second, _ = append_three_files(table)
    since = read_head(table)
    delete(table, table.make_equality_deletes(second))
    table.java.newDelete().deleteFile(first).commit()
    table.java.newFastAppend().appendFile(first).commit()
    return since


def delete_before_and_after_a_file_was_put_in_again(table: MetadataTable) -> int:
    """Add a file again, which makes its group inexact: see `value_deletes`."""
    first, second, _ = append_three_files(table)
    since = read_head(table)
    delete(table, table.make_equality_deletes(second))
    table.java.newDelete().deleteFile(first).commit()
    table.java.newFastAppend().appendFile(first).commit()
    delete(table, table.make_equality_deletes(second))
    return since


def roll_back_a_delete(table: MetadataTable) -> int:
    """Plan backwards: the delete file is one that was removed."""
    delete_by_key(table)
    since = read_head(table)
    table.java.manageSnapshots().rollbackTo(table.java.currentSnapshot().parentId()).commit()
    return since


# commits; data and delete files of each read by value; data files read at both snapshots
CASES: list[tuple[Make, list[tuple[int, int]], int]] = [
    (delete_by_key, [(3, 1)], 0),
    (delete_in_several_commits_after_others, [(3, 2)], 0),
    (delete_by_two_kinds_of_keys, [(3, 1), (3, 1)], 0),
    (delete_by_the_partition_and_more, [(2, 2)], 0),
    (delete_by_less_than_the_partition, [], 1),
    (delete_for_files_of_two_specs, [(3, 1), (3, 1)], 0),
    (delete_for_files_of_one_of_two_specs, [(1, 1)], 0),
    (delete_after_a_later_snapshot_of_another_branch, [(3, 1)], 0),
    (delete_with_position_deletes_for_one, [(2, 1)], 1),
    (delete_with_position_deletes_for_most, [(1, 1)], 2),
    (delete_while_others_went, [(2, 1)], 1),
    (delete_by_a_deleted_column, [], 3),
    (delete_nothing_of_a_file_that_was_put_in_again, [(2, 1)], 0),
    (delete_before_and_after_a_file_was_put_in_again, [], 3),
    (roll_back_a_delete, [], 3),
]


@pytest.mark.parametrize(
    ("make", "by_value", "rest"), CASES, ids=lambda it: getattr(it, "__name__", "")
)
def test_deletes_are_looked_up_by_value_just_where_that_says_all(
    spark: SparkSession, make: Make, by_value: list[tuple[int, int]], rest: int
) -> None:
    table = MetadataTable(spark, **{"format-version": "2"})
    since = make(table)
    check(plan_changes(table.load(), since, read_head(table)), by_value, rest)


# what happens; the fields of the key; the deletes that tell the keys; the rest as above
KEYED: list[tuple[Make, set[int], int, list[tuple[int, int]], int]] = [
    (delete_by_key, {ID}, 1, [], 0),
    (delete_by_key, {P}, 0, [(3, 1)], 0),
    (delete_by_key, {ID, P}, 0, [(3, 1)], 0),
    (delete_in_several_commits_after_others, {ID}, 2, [], 0),
    (delete_by_two_kinds_of_keys, {ID}, 1, [(3, 1)], 0),
    (delete_by_the_partition_and_more, {ID, P}, 2, [], 0),
    (delete_by_less_than_the_partition, {ID}, 0, [], 1),
    (delete_for_files_of_two_specs, {ID}, 1, [], 0),
    (delete_for_files_of_one_of_two_specs, {ID, P}, 0, [(1, 1)], 0),
    (delete_after_a_later_snapshot_of_another_branch, {ID}, 0, [(3, 1)], 0),
    (delete_with_position_deletes_for_one, {ID}, 1, [], 1),
    (delete_with_position_deletes_for_one, set(), 0, [(2, 1)], 1),
    (delete_with_position_deletes_for_most, {ID, P}, 3, [], 2),
    (delete_while_others_went, {ID}, 1, [], 1),
    (delete_by_a_deleted_column, {P}, 0, [], 3),
    (delete_nothing_of_a_file_that_was_put_in_again, {ID}, 0, [(2, 1)], 0),
    (delete_before_and_after_a_file_was_put_in_again, {ID}, 0, [], 3),
    (roll_back_a_delete, {ID}, 0, [], 3),
]


@pytest.mark.parametrize(
    ("make", "keys", "by_key_files", "by_value", "rest"),
    KEYED,
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_deletes_tell_the_keys_that_are_gone_just_where_they_reach_every_row(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    make: Make,
    keys: set[int],
    by_key_files: int,
    by_value: list[tuple[int, int]],
    rest: int,
) -> None:
    table = MetadataTable(spark, **{"format-version": "2"})
    since = make(table)
    monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", count_rows(table, since) - 1)
    plan = plan_changes(table.load(), since, read_head(table), keys=keys)
    check(plan, by_value, rest)
    assert (plan.deleted_keys.files, plan.deleted_keys.records) == (
        by_key_files,
        by_key_files * ROWS,
    )

    monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", count_rows(table, since))
    few = plan_changes(table.load(), since, read_head(table), keys=keys)
    assert few == plan_changes(table.load(), since, read_head(table))


def test_no_manifest_of_older_files_is_read_where_deletes_tell_the_keys(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", 0)
    table = MetadataTable(spark, **{"format-version": "2"})
    since = delete_in_several_commits_after_others(table)
    snapshot = table.java.snapshot(since)
    for manifest in table.bridge.list_elements(snapshot.allManifests(table.java.io())):
        table.java.io().deleteFile(manifest.path())
    plan = plan_changes(table.load(), since, read_head(table), keys={ID})
    assert (plan.added.files, plan.deleted_keys.files) == (1, 2)


def test_a_compaction_that_cancels_leaves_the_keys_that_went_before_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", 0)
    table = MetadataTable(spark, **{"format-version": "2"})
    first, second, _ = append_three_files(table)
    since = read_head(table)
    delete(table, table.make_equality_deletes(first))
    rewrite = table.java.newRewrite().validateFromSnapshot(read_head(table))
    rewrite = rewrite.deleteFile(first).deleteFile(second)
    rewrite.addFile(table.make_data_file(rows=2 * ROWS - 1)).commit()
    plan = plan_changes(table.load(), since, read_head(table), keys={ID})
    assert [group.files for group in plan.groups] == [0, 0, 0, 0, 1]


def check(plan: ChangePlan, by_value: list[tuple[int, int]], rest: int) -> None:
    """Check the files of each read by value, and the number of files read at both snapshots."""
    assert [(read.data.files, read.deletes.files) for read in plan.value_deletes] == by_value
    assert max(plan.shared_before.files, plan.shared_after.files) == rest
    assert not plan.is_append


def count_rows(table: MetadataTable, snapshot_id: int) -> int:
    return ROWS * len(list_files(table.load(), snapshot_id).files)


def read_head(table: MetadataTable) -> int:
    snapshot = table.load().find_current_snapshot()
    assert snapshot is not None
    return snapshot.id
