"""The plan between two snapshots is the one that listing both of them whole would give.

The oracle lists all files of both sides by Iceberg's own planning.
"""

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import DataFileMissing
from icdc_spark.diff.change_plan import compare_files, plan_changes
from icdc_spark.iceberg.changes.changed_files import list_changed
from icdc_spark.iceberg.changes.differing_files import find_differing
from icdc_spark.iceberg.scan import planning
from icdc_spark.iceberg.scan.manifest_entries import read_data_entries
from icdc_spark.iceberg.scan.manifest_index import ManifestIndex
from icdc_spark.iceberg.scan.manifests import read_manifests
from icdc_spark.iceberg.scan.planning import list_files
from icdc_testing.lake.metadata_table import MetadataTable

from .metadata_history import MetadataHistory
from .planning_oracle import describe_plan, plan_by_listing

pytestmark = pytest.mark.spark

STEPS = 25
PAIRS = 10
HISTORIES_PER_TABLE = 2


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("version", "upgrades"),
    [(1, False), (2, False), (3, False), (1, True)],
    ids=["v1", "v2", "v3", "upgraded"],
)
@pytest.mark.parametrize("number", range(HISTORIES_PER_TABLE))
def test_any_two_snapshots_have_the_plan_of_listing_them_whole(
    spark: SparkSession, rng: random.Random, version: int, upgrades: bool, number: int
) -> None:
    table = make_table(spark, version, merge_at=rng.choice([2, 3, 100]))
    history = MetadataHistory(table, rng, upgrades=upgrades)
    for _ in range(STEPS):
        history.step()
    loaded = table.load()
    for _ in range(PAIRS):
        since, until = history.draw_pair()
        index = ManifestIndex(capacity=rng.choice([0, 20, 1000]))
        partitions = ManifestIndex(capacity=rng.choice([0, 20, 1000]))
        at_once = rng.choice([1, 3, 1000])
        files = list_changed(
            loaded, since, until, index=index, partitions=partitions, at_once=at_once
        )
        assert describe_plan(loaded, compare_files(loaded, since, until, files)) == describe_plan(
            loaded, plan_by_listing(loaded, since, until)
        ), f"{history.log} from {since} to {until}"


@pytest.mark.parametrize("version", [1, 2])
def test_of_rewritten_manifests_only_differing_files_are_described(
    spark: SparkSession, version: int
) -> None:
    table = make_table(spark, version)
    files = [commit_append(table) for _ in range(10)]
    since = read_head(table)
    replacing = table.make_data_file()
    table.java.newOverwrite().deleteFile(files[4]).addFile(replacing).commit()
    same = table.bridge.build_function("org.apache.iceberg.ContentFile", "specId")
    table.java.rewriteManifests().clusterBy(same).commit()
    loaded = table.load()
    old, new = (read_manifests(loaded, at).data for at in (since, read_head(table)))

    assert find_differing(loaded, old, new, partitions=frozenset(), at_once=3) == {
        files[4].location(),
        replacing.location(),
    }


class TestDeletes:
    """Cases that random histories seldom reach."""

    @pytest.mark.parametrize("kind", ["equality", "position"])
    def test_deletes_for_more_than_one_file_concern_those_in_manifests_of_both_snapshots(
        self, spark: SparkSession, kind: str
    ) -> None:
        table = make_table(spark, 2)
        files = [commit_append(table) for _ in range(3)]
        since = read_head(table)
        if kind == "equality":
            made = table.make_equality_deletes(files[0])
        else:
            made = table.make_position_deletes(files[0], target=False)
        table.java.newRowDelta().addDeletes(made).commit()

        assert count_planned(table, since) == (0, 0, 0, 3)

    def test_deletes_of_the_commit_that_added_their_file_apply(self, spark: SparkSession) -> None:
        table = make_table(spark, 2)
        commit_append(table)
        since, file = read_head(table), table.make_data_file()
        deletes = table.make_position_deletes(file, target=True)
        table.java.newRowDelta().addRows(file).addDeletes(deletes).commit()

        assert count_planned(table, since) == (1, 0, 0, 0)

    def test_a_file_that_was_put_in_again_is_later_than_its_deletes(
        self, spark: SparkSession
    ) -> None:
        table = make_table(spark, 2)
        file = commit_append(table)
        commit_deletes(table, file)
        since = read_head(table)
        table.java.newDelete().deleteFile(file).commit()
        table.java.newFastAppend().appendFile(file).commit()

        assert count_planned(table, since) == (0, 0, 1, 0)

    def test_deletes_for_a_partition_concern_files_in_manifests_that_were_rewritten(
        self, spark: SparkSession
    ) -> None:
        table = make_table(spark, 2)
        table.java.updateSpec().addField("p").commit()
        files = [commit_append(table, partition=at) for at in range(4)]
        since = read_head(table)
        same = table.bridge.build_function("org.apache.iceberg.ContentFile", "specId")
        table.java.rewriteManifests().clusterBy(same).commit()
        deletes = table.make_position_deletes(files[1], target=False)
        table.java.newRowDelta().addDeletes(deletes).commit()

        assert count_planned(table, since) == (0, 0, 0, 1)

    @pytest.mark.parametrize("most", [1, 2, 3, 6])
    def test_names_of_deletes_are_told_a_few_at_a_time(
        self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        table = make_table(spark, 2)
        first, second, _ = [commit_append(table) for _ in range(3)]
        for made in (
            table.make_equality_deletes(first),
            table.make_position_deletes(second, target=True),
        ):
            table.java.newRowDelta().addDeletes(made).commit()
        commit_append(table)
        table.java.newRowDelta().addDeletes(table.make_equality_deletes(first)).commit()
        at_once = read_deletes(table)
        assert sorted(map(len, at_once.values())) == [1, 2, 2, 3]

        monkeypatch.setattr(planning, "_NAMES_AT_A_TIME", most)

        assert read_deletes(table) == at_once


class TestWhatIsRead:
    """Manifests that planning must not read are deleted."""

    def test_manifests_that_both_snapshots_have_are_not_read(self, spark: SparkSession) -> None:
        table = make_table(spark, 2)
        files = [commit_append(table) for _ in range(4)]
        since = read_head(table)
        table.java.newOverwrite().deleteFile(files[0]).addFile(table.make_data_file()).commit()
        delete_files(table, [find_manifest(table, file) for file in files[1:]])

        plan = plan_changes(table.load(), since, read_head(table))
        assert (plan.added.files, plan.removed.files) == (1, 1)

    @pytest.mark.parametrize("version", [2, 3])
    def test_manifests_are_searched_for_the_files_of_deletes_only_once(
        self, spark: SparkSession, version: int
    ) -> None:
        table, index = make_table(spark, version), ManifestIndex()
        first, second, *others = [commit_append(table) for _ in range(4)]
        since = read_head(table)
        commit_deletes(table, first)
        assert list_later(table, since, index) == [first.location()]

        since = read_head(table)
        commit_deletes(table, second)
        delete_files(table, [find_manifest(table, file) for file in (first, *others)])
        assert list_later(table, since, index) == [second.location()]
        with pytest.raises(DataFileMissing):
            list_later(table, since)

    @pytest.mark.parametrize("kind", ["equality", "position"])
    def test_manifests_are_searched_for_the_partitions_of_deletes_only_once(
        self, spark: SparkSession, kind: str
    ) -> None:
        table, index = make_table(spark, 2), ManifestIndex()
        table.java.updateSpec().addField("p").commit()
        first, second, *others = [commit_append(table, partition=at % 3) for at in range(6)]

        def delete_beside(file: Any) -> int:
            since = read_head(table)
            by_position = table.make_position_deletes(file, target=False)
            made = table.make_equality_deletes(file) if kind == "equality" else by_position
            table.java.newRowDelta().addDeletes(made).commit()
            return since

        assert list_later(table, delete_beside(first), None, index) == sort_locations(
            first, others[1]
        )
        since = delete_beside(second)
        delete_files(table, [find_manifest(table, file) for file in (first, others[0], others[1])])
        assert list_later(table, since, None, index) == sort_locations(second, others[2])
        with pytest.raises(DataFileMissing):
            list_later(table, since)

    def test_a_changed_manifest_that_is_gone_is_named(self, spark: SparkSession) -> None:
        table = make_table(spark, 2)
        commit_append(table)
        since = read_head(table)
        missing = find_manifest(table, commit_append(table))
        delete_files(table, [missing])

        with pytest.raises(DataFileMissing, match=re.escape(missing)):
            plan_changes(table.load(), since, read_head(table))


def read_deletes(table: MetadataTable) -> dict[str, frozenset[str]]:
    files = list_files(table.load(), read_head(table)).files
    return {file.location: file.deletes for file in files}


def count_planned(table: MetadataTable, since: int) -> tuple[int, int, int, int]:
    """Count the files of the plan up to the current snapshot, which must equal the oracle's plan.

    In order: added, removed, read with the earlier deletes, read with the later deletes.
    """
    loaded, until = table.load(), read_head(table)
    plan = plan_changes(loaded, since, until)
    assert describe_plan(loaded, plan) == describe_plan(
        loaded, plan_by_listing(loaded, since, until)
    )
    after = sum(read.data.files for read in plan.value_deletes) + plan.shared_after.files
    return plan.added.files, plan.removed.files, plan.shared_before.files, after


def commit_append(table: MetadataTable, partition: int | None = None) -> Any:
    """Append a data file in a manifest of its own."""
    file = table.make_data_file(partition)
    table.java.newFastAppend().appendFile(file).commit()
    return file


def commit_deletes(table: MetadataTable, file: Any) -> None:
    """Commit deletes that apply to one data file alone."""
    vectors = table.java.operations().current().formatVersion() >= 3
    made = table.make_vector(file) if vectors else table.make_position_deletes(file, target=True)
    table.java.newRowDelta().addDeletes(made).commit()


def read_head(table: MetadataTable) -> int:
    snapshot = table.load().find_current_snapshot()
    assert snapshot is not None
    return snapshot.id


def find_manifest(table: MetadataTable, file: Any) -> str:
    loaded = table.load()
    entries = read_data_entries(loaded, read_manifests(loaded, read_head(table)).data)
    return entries[file.location()].manifest


def list_later(
    table: MetadataTable,
    since: int,
    index: ManifestIndex | None = None,
    partitions: ManifestIndex | None = None,
) -> list[str]:
    """Return the files listed of the current snapshot; manifests are in no index unless given."""
    files = list_changed(
        table.load(),
        since,
        read_head(table),
        index=index or ManifestIndex(),
        partitions=partitions or ManifestIndex(),
    )
    return sorted(file.location for file in files.later.files)


def sort_locations(*files: Any) -> list[str]:
    return sorted(file.location() for file in files)


def delete_files(table: MetadataTable, paths: Sequence[str]) -> None:
    for path in paths:
        table.java.io().deleteFile(path)


def make_table(spark: SparkSession, version: int, merge_at: int = 100) -> MetadataTable:
    return MetadataTable(
        spark,
        **{"format-version": str(version), "commit.manifest.min-count-to-merge": str(merge_at)},
    )
