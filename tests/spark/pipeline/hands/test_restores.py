"""Restores that miss each other: the state of one day and indices of another, or copies of them.

What became of icdc-state decides for all tables at once, so each of its fates is one pipeline,
whose tables differ in what became of their index. One of each alone is tried in
tests/spark/pipeline/target: test_restored_index, test_older_state and test_lost_state.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.naming import STATE_INDEX
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.target.node_calls import call
from icdc_testing.target.restoring import restore, take_snapshot

pytestmark = pytest.mark.spark

Fate = Callable[[OpenSearchNode, str], None]


def stay(node: OpenSearchNode, index: str) -> None:
    """Leave it as it is."""


def delete(node: OpenSearchNode, index: str) -> None:
    assert call(node.url, "DELETE", f"/{index}").status == 200


def restore_in_place(node: OpenSearchNode, index: str) -> None:
    restore(node, index)


def restore_after_deletion(node: OpenSearchNode, index: str) -> None:
    delete(node, index)
    restore(node, index, close=False)


def copy_to(name: str) -> Fate:
    """Restore a copy beside it, by another name; the alias is restored with it, as by default."""

    def restore_copy(node: OpenSearchNode, index: str) -> None:
        alias = index.rpartition("-")[0]
        copy = name.format(alias=alias)
        restore(node, index, close=False, rename_pattern=".+", rename_replacement=copy)
        # Readers see every document twice, until the next poll.
        assert set(oracle.request(f"{node.url}/_alias/{alias}")) == {index, copy}

    return restore_copy


FATES: dict[str, Fate] = {
    "stays": stay,
    "gone": delete,
    "older": restore_in_place,
    "anew": restore_after_deletion,
    "copied": copy_to("{alias}-000005"),
    "renamed": copy_to("restored-{alias}"),
}
CASES: dict[str, tuple[Fate, dict[str, int]]] = {
    # The number of the index that is served in the end; 1 is the first export.
    "the state stays": (stay, {"stays": 1, "gone": 2, "anew": 2, "copied": 1, "renamed": 1}),
    "the state is older": (
        restore_in_place,
        {"gone": 2, "anew": 2, "copied": 6, "renamed": 2},
    ),
    "the state is gone": (
        delete,
        {"stays": 2, "gone": 1, "older": 2, "anew": 2, "copied": 6, "renamed": 2},
    ),
}


class RestoredPipeline:
    """One table for each fate of its index, which is its alias as well."""

    def __init__(self, spark: SparkSession, lake: Lake, url: str, folder: Path, fates: set[str]):
        lake.sql("create namespace if not exists lake.db")
        self.lake, self.url = lake, url
        self.tables = {fate: lake.create("id int, name string") for fate in sorted(fates)}
        self.change("insert into {} values (1, 'a'), (2, 'b')")
        entries = [
            {"name": table, "identifierColumns": ["id"], "index": fate}
            for fate, table in self.tables.items()
        ]
        self.harness = Harness(spark, url, folder, entries)
        self.sync()

    def change(self, statement: str) -> None:
        """Run SQL on every table, for which {} stands."""
        for table in self.tables.values():
            self.lake.sql(statement.format(f"lake.{table}"))

    def sync(self) -> None:
        """Run; every table must come through."""
        report = self.harness.run()
        assert report.outcome is None, report.outcome
        assert not [table for table in report.tables if table.reason], report.tables

    def read_served(self) -> dict[str, int]:
        """Return the number of the one index that readers of each alias see."""
        numbers = {}
        for alias in self.tables:
            (index,) = oracle.request(f"{self.url}/_alias/{alias}")
            numbers[alias] = int(index.rpartition("-")[2])
        return numbers

    def check(self) -> None:
        """For readers every index equals its table."""
        for alias, table in self.tables.items():
            wanted = oracle.read_expected(self.harness.spark, f"lake.{table}", ["id"])
            oracle.assert_equal(oracle.read_index(self.url, alias), wanted)


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES)
def test_whatever_was_restored_one_run_makes_every_index_equal_its_table(
    opensearch: OpenSearchNode,
    clean_indices: str,
    spark: SparkSession,
    lake: Lake,
    tmp_path: Path,
    case: str,
) -> None:
    of_state, numbers = CASES[case]
    pipeline = RestoredPipeline(spark, lake, clean_indices, tmp_path, set(numbers))
    take_snapshot(opensearch, STATE_INDEX, *(f"{alias}-000001" for alias in numbers))
    pipeline.change("delete from {} where id = 2")
    pipeline.sync()
    for alias in numbers:
        FATES[alias](opensearch, f"{alias}-000001")
    of_state(opensearch, STATE_INDEX)
    # A row that is not in what was restored, so that an old index shows.
    pipeline.change("insert into {} values (3, 'c')")
    pipeline.sync()
    pipeline.check()
    assert pipeline.read_served() == numbers
    # From then on they are followed, and not exported again.
    pipeline.change("insert into {} values (4, 'd')")
    pipeline.sync()
    pipeline.check()
    assert pipeline.read_served() == numbers
    compared = pipeline.harness.run(RunMode.VERIFY).result
    assert compared is not None
    assert [entry.get("equal") for entry in compared["tables"]] == [True] * len(numbers), compared
