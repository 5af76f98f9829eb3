"""A continuous run is asked something about its tables: the others go on, and nothing is lost."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunMode, RunQuestion, RunReport
from icdc_api.status.pipeline_status import TableState
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.long_values import LONG, UNLIMITED, mend
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import until

pytestmark = pytest.mark.spark

SCAN = "orders-000001/_search/point_in_time"
"""The request with which the comparison of the table begins to read its index."""


@dataclass
class Followed:
    """Two tables that a continuous run follows."""

    spark: SparkSession
    lake: Lake
    node: str
    folder: Path
    harness: Harness
    tables: dict[str, str]
    """Name of the table by alias."""
    report_path: Path = field(init=False)

    @property
    def question_path(self) -> Path:
        return self.folder / "question.json"

    @contextmanager
    def run(self) -> Iterator[None]:
        """The run goes on inside the block, and ends well."""
        stop = threading.Event()
        request = self.harness.request(continuous=True)
        self.report_path = Path(request.report_path)
        with ThreadPoolExecutor(1) as pool:
            path = str(self.question_path)
            follower = PipelineRun(request, self.spark, stop, question_path=path)
            running = pool.submit(follower.run)
            try:
                until(self.streams, "both are followed", seconds=120)
                yield
            finally:
                stop.set()
            assert running.result(120).outcome is None

    def streams(self) -> bool:
        return all(table.state is TableState.STREAMING for table in self.report().tables)

    def report(self) -> RunReport:
        return RunReport.read(self.report_path)

    def answer(self) -> dict[str, Any]:
        return self.report().result or {}

    def is_answered(self, question: str) -> Callable[[], bool]:
        return lambda: (
            self.answer().get("question") == question and self.answer()["complete"] is True
        )

    def ask(self, question: str, mode: RunMode, *aliases: str) -> None:
        tables = tuple(self.tables[alias] for alias in aliases)
        asked = {"id": question, "mode": mode, "tables": tables or None}
        RunQuestion.model_validate(asked).write(self.question_path)

    def ask_person(self, question: str, mode: RunMode, **more: Any) -> list[dict[str, Any]]:
        """Ask as a person does, wait, and return the entries of the answer."""
        asked = {"id": question, "mode": mode, **more}
        RunQuestion.model_validate(asked).write(self.question_path)
        until(self.is_answered(question), f"{mode} is answered")
        entries: list[dict[str, Any]] = self.answer()["tables"]
        return entries

    def insert(self, alias: str, number: int, name: str = "new") -> None:
        self.lake.sql(f"insert into lake.{self.tables[alias]} values ({number}, '{name}')")

    def has(self, alias: str, number: int) -> bool:
        return str(number) in oracle.read_index(self.node, alias)

    def damage(self, alias: str) -> None:
        here = f"{self.node}/{alias}-000001/_doc"
        oracle.request(f"{here}/1", "PUT", {"id": 1, "name": "edited"})

    def assert_equal(self, alias: str) -> None:
        """The index equals the table, and is the one that the first export has made."""
        assert set(oracle.request(f"{self.node}/_alias/{alias}")) == {f"{alias}-000001"}
        expected = oracle.read_expected(self.spark, f"lake.{self.tables[alias]}", ["id"])
        oracle.assert_equal(oracle.read_index(self.node, alias), expected)


@pytest.fixture
def followed(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> Followed:
    lake.sql("create namespace if not exists lake.db")
    tables: dict[str, str] = {}
    for alias in ("orders", "users"):
        tables[alias] = lake.create("id int, name string")
        lake.sql(f"insert into lake.{tables[alias]} values (1, 'a'), (2, 'b')")
    entries = [
        {
            "name": name,
            "identifierColumns": ["id"],
            "index": alias,
            "mapping": {"name": UNLIMITED},
        }
        for alias, name in tables.items()
    ]
    harness = Harness(spark, proxy.url, tmp_path, entries)
    return Followed(spark, lake, clean_indices, tmp_path, harness, tables)


def test_one_table_is_repaired_while_commits_to_another_arrive(
    followed: Followed, proxy: FaultProxy
) -> None:
    with followed.run():
        followed.damage("orders")
        held = proxy.hold(SCAN)
        followed.ask("a", RunMode.REPAIR, "orders")
        held.wait()
        followed.insert("users", 3)
        until(lambda: followed.has("users", 3), "a commit arrives")
        followed.insert("users", 4)
        until(lambda: followed.has("users", 4), "and another")
        followed.insert("orders", 3)
        assert followed.answer() == {"question": "a", "complete": False, "tables": []}
        assert not followed.has("orders", 3), "it waits for its own repair alone"
        held.release()
        until(followed.is_answered("a"), "it is repaired")
        (entry,) = followed.answer()["tables"]
        assert (entry["name"], entry["equal"]) == (followed.tables["orders"], False)
        assert (entry["repaired"], entry["different"]["samples"]) == (1, ["1"])
        until(lambda: followed.has("orders", 3), "its own commit arrives")
    assert followed.report().result is not None, "whoever has not read the answer finds it"
    followed.assert_equal("orders")
    followed.assert_equal("users")


def test_a_question_in_place_of_another_ends_the_comparison_that_nobody_waits_for(
    followed: Followed, proxy: FaultProxy
) -> None:
    with followed.run():
        held = proxy.hold(SCAN)
        followed.ask("a", RunMode.VERIFY)
        held.wait()
        followed.ask("b", RunMode.VERIFY, "orders")
        until(lambda: followed.answer().get("question") == "b", "it is read")
        assert followed.answer()["tables"] == [], "the entry of users was an answer to a"
        held.release()
        until(followed.is_answered("b"), "the second one is answered")
        (entry,) = followed.answer()["tables"]
        assert (entry["name"], entry["equal"]) == (followed.tables["orders"], True)
        followed.question_path.unlink()
        followed.insert("orders", 3)
        until(lambda: followed.has("orders", 3), "it is followed again")


def test_a_table_that_is_stalled_says_why_it_cannot_be_compared(followed: Followed) -> None:
    with followed.run():
        followed.lake.sql(f"drop table lake.{followed.tables['users']}")

        def is_stalled() -> bool:
            return followed.report().tables[1].state is TableState.STALLED

        until(is_stalled, "it is stalled")
        followed.ask("a", RunMode.VERIFY, "orders", "users")
        until(followed.is_answered("a"), "both have answered")
        orders, users = followed.answer()["tables"]
        assert orders["equal"] is True
        assert (users["name"], users["reason"]) == (followed.tables["users"], "TableNotFound")
        followed.insert("orders", 3)
        until(lambda: followed.has("orders", 3), "the other one is followed")


@pytest.mark.parametrize(("aliases", "rows"), [(("orders",), 3), ((), 2)])
def test_a_planned_comparison_is_of_a_table_that_has_caught_up_and_a_persons_of_one_as_it_is(
    followed: Followed, aliases: tuple[str, ...], rows: int
) -> None:
    followed.harness.run()
    followed.insert("orders", 3)
    followed.ask("a", RunMode.VERIFY, *aliases)
    with followed.run():
        until(followed.is_answered("a"), "it is answered")
        entry = followed.answer()["tables"][0]
        assert (entry["name"], entry["rows"]) == (followed.tables["orders"], rows)
        assert entry["equal"] is True


def test_refused_rows_are_listed_and_sent_again_while_commits_arrive(
    followed: Followed, clean_indices: str
) -> None:
    def is_refused(count: int) -> Callable[[], bool]:
        return lambda: followed.report().tables[0].dead_letters == count

    with followed.run():
        for number in (3, 4):
            followed.insert("orders", number, LONG)
        until(is_refused(2), "both are refused")
        planned = followed.ask_person("a", RunMode.PLAN)
        assert [entry["mode"] for entry in planned] == ["Idle", "Idle"]

        orders, users = followed.ask_person("b", RunMode.DEAD_LETTERS)
        assert (orders["count"], users["count"]) == (2, 0)
        assert "secret" not in str(orders)
        only = (followed.tables["orders"],)
        (orders,) = followed.ask_person("c", RunMode.DEAD_LETTERS, only=only, ids=("4",))
        assert [letter["id"] for letter in orders["letters"]] == ["4"]

        mend(clean_indices, "orders-000001")
        (orders,) = followed.ask_person("d", RunMode.REPLAY, only=only, ids=("4",))
        assert (orders["resent"], orders["left"]) == (1, 0)
        until(is_refused(1), "the report counts it no more")
        assert (followed.has("orders", 3), followed.has("orders", 4)) == (False, True)
        orders, users = followed.ask_person("e", RunMode.REPLAY)
        assert (orders["resent"], users["resent"]) == (1, 0)
        for alias in ("orders", "users"):
            followed.insert(alias, 5)
        until(lambda: followed.has("orders", 5), "it is followed")
        until(lambda: followed.has("users", 5), "the other one too")
    followed.assert_equal("orders")
    followed.assert_equal("users")


def test_a_table_that_does_not_come_to_rest_is_compared_after_one_more_batch(
    followed: Followed, proxy: FaultProxy
) -> None:
    with followed.run():
        first = proxy.hold("orders-000001/_bulk")
        followed.insert("orders", 3)
        first.wait()
        second = proxy.hold("orders-000001/_bulk")
        followed.insert("orders", 4)
        compared = followed.lake.head(followed.tables["orders"])
        followed.ask("a", RunMode.VERIFY, "orders")
        until(lambda: followed.answer().get("question") == "a", "it is read")
        first.release()
        second.wait()
        followed.insert("orders", 5)
        second.release()
        until(followed.is_answered("a"), "it is compared")
        (entry,) = followed.answer()["tables"]
        assert (entry["equal"], entry["snapshotId"]) == (True, str(compared))
        until(lambda: followed.has("orders", 5), "it goes on")


def test_what_is_no_question_changes_nothing_and_is_refused(followed: Followed) -> None:
    with followed.run():
        followed.question_path.write_text('{"id": "a", "mode": "delete", "tables": []}')
        followed.insert("orders", 3)
        until(lambda: followed.has("orders", 3), "it is followed")
        until(followed.is_answered("a"), "it is refused")
        assert {entry["reason"] for entry in followed.answer()["tables"]} == {"BadSpec"}
