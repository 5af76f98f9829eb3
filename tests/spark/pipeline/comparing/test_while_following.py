"""A continuous run is asked something about its tables: the others go on, and nothing is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.status.pipeline_status import TableState
from icdc_spark.process.scheduling.permits import QUESTION_PERMITS
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.long_values import LONG, UNLIMITED, mend
from icdc_testing.waiting.wait import wait_until

from .followed_tables import ContinuousTables

pytestmark = pytest.mark.spark

SCAN = "orders-000001/_search/point_in_time"
"""The request with which the comparison of the table begins to read its index."""


@pytest.fixture
def aliases() -> tuple[str, ...]:
    """Those of the tables, which a test may parametrize."""
    return ("orders", "users")


@pytest.fixture
def followed(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    aliases: tuple[str, ...],
) -> ContinuousTables:
    lake.sql("create namespace if not exists lake.db")
    tables: dict[str, str] = {}
    for alias in aliases:
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
    # Two tables may work at the same time.
    harness.resource["spec"]["spark"] = {"driver": {"memory": "256m"}}
    return ContinuousTables(spark, lake, clean_indices, tmp_path, harness, tables)


def test_one_table_is_repaired_while_commits_to_another_arrive(
    followed: ContinuousTables, proxy: FaultProxy
) -> None:
    with followed.run():
        followed.damage("orders")
        held = proxy.hold(SCAN)
        followed.ask("a", RunMode.REPAIR, "orders")
        held.wait()
        followed.insert("users", 3)
        wait_until(lambda: followed.has("users", 3), "a commit arrives")
        followed.insert("users", 4)
        wait_until(lambda: followed.has("users", 4), "and another")
        followed.insert("orders", 3)
        assert followed.read_answer() == {"question": "a", "complete": False, "tables": []}
        assert not followed.has("orders", 3), "it waits for its own repair alone"
        held.release()
        wait_until(followed.is_answered("a"), "it is repaired")
        (entry,) = followed.read_answer()["tables"]
        assert (entry["name"], entry["equal"]) == (followed.tables["orders"], False)
        assert (entry["repaired"], entry["different"]["samples"]) == (1, ["1"])
        wait_until(lambda: followed.has("orders", 3), "its own commit arrives")
    assert followed.read_report().result is not None, "whoever has not read the answer finds it"
    followed.assert_equal("orders")
    followed.assert_equal("users")


@pytest.mark.parametrize("aliases", [("orders", "users", "items")])
def test_a_table_whose_turn_to_answer_has_not_come_goes_on_with_its_changes(
    followed: ContinuousTables, proxy: FaultProxy
) -> None:
    scans = {alias: proxy.hold(SCAN.replace("orders", alias)) for alias in followed.tables}
    with followed.run():
        followed.ask("a", RunMode.VERIFY)
        wait_until(
            lambda: sum(scan.held.is_set() for scan in scans.values()) == QUESTION_PERMITS,
            "as many compare as may",
        )
        (third,) = [alias for alias, scan in scans.items() if not scan.held.is_set()]
        for number in (3, 4):
            followed.insert(third, number)
            wait_until(lambda number=number: followed.has(third, number), "it goes on")  # type: ignore[misc]
        assert not scans[third].held.is_set()
        for scan in sorted(scans.values(), key=lambda scan: not scan.held.is_set()):
            scan.wait()
            scan.release()
        wait_until(followed.is_answered("a"), "all have answered")
        entries = followed.read_answer()["tables"]
        assert [entry["equal"] for entry in entries] == [True] * 3


def test_a_question_in_place_of_another_ends_the_comparison_that_nobody_waits_for(
    followed: ContinuousTables, proxy: FaultProxy
) -> None:
    with followed.run():
        held = proxy.hold(SCAN)
        followed.ask("a", RunMode.VERIFY)
        held.wait()
        followed.ask("b", RunMode.VERIFY, "orders")
        wait_until(lambda: followed.read_answer().get("question") == "b", "it is read")
        assert followed.read_answer()["tables"] == [], "the entry of users was an answer to a"
        held.release()
        wait_until(followed.is_answered("b"), "the second one is answered")
        (entry,) = followed.read_answer()["tables"]
        assert (entry["name"], entry["equal"]) == (followed.tables["orders"], True)
        followed.question_path.unlink()
        followed.insert("orders", 3)
        wait_until(lambda: followed.has("orders", 3), "it is followed again")


def test_a_table_that_is_stalled_says_why_it_cannot_be_compared(followed: ContinuousTables) -> None:
    with followed.run():
        followed.lake.sql(f"drop table lake.{followed.tables['users']}")

        def is_stalled() -> bool:
            return followed.read_report().tables[1].state is TableState.STALLED

        wait_until(is_stalled, "it is stalled")
        followed.ask("a", RunMode.VERIFY, "orders", "users")
        wait_until(followed.is_answered("a"), "both have answered")
        orders, users = followed.read_answer()["tables"]
        assert orders["equal"] is True
        assert (users["name"], users["reason"]) == (followed.tables["users"], "TableNotFound")
        followed.insert("orders", 3)
        wait_until(lambda: followed.has("orders", 3), "the other one is followed")


@pytest.mark.parametrize(("asked", "rows"), [(("orders",), 3), ((), 2)])
def test_a_planned_comparison_is_of_a_table_that_has_caught_up_and_a_persons_of_one_as_it_is(
    followed: ContinuousTables, asked: tuple[str, ...], rows: int
) -> None:
    followed.harness.run()
    followed.insert("orders", 3)
    followed.ask("a", RunMode.VERIFY, *asked)
    with followed.run():
        wait_until(followed.is_answered("a"), "it is answered")
        entry = followed.read_answer()["tables"][0]
        assert (entry["name"], entry["rows"]) == (followed.tables["orders"], rows)
        assert entry["equal"] is True


def test_refused_rows_are_listed_and_sent_again_while_commits_arrive(
    followed: ContinuousTables, clean_indices: str
) -> None:
    def is_refused(count: int) -> Callable[[], bool]:
        return lambda: followed.read_report().tables[0].dead_letters == count

    with followed.run():
        for number in (3, 4):
            followed.insert("orders", number, LONG)
        wait_until(is_refused(2), "both are refused")
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
        wait_until(is_refused(1), "the report counts it no more")
        assert (followed.has("orders", 3), followed.has("orders", 4)) == (False, True)
        orders, users = followed.ask_person("e", RunMode.REPLAY)
        assert (orders["resent"], users["resent"]) == (1, 0)
        for alias in ("orders", "users"):
            followed.insert(alias, 5)
        wait_until(lambda: followed.has("orders", 5), "it is followed")
        wait_until(lambda: followed.has("users", 5), "the other one too")
    followed.assert_equal("orders")
    followed.assert_equal("users")


def test_a_table_that_does_not_come_to_rest_is_compared_after_one_more_batch(
    followed: ContinuousTables, proxy: FaultProxy
) -> None:
    with followed.run():
        first = proxy.hold("orders-000001/_bulk")
        followed.insert("orders", 3)
        first.wait()
        second = proxy.hold("orders-000001/_bulk")
        followed.insert("orders", 4)
        compared = followed.lake.read_head(followed.tables["orders"])
        followed.ask("a", RunMode.VERIFY, "orders")
        wait_until(lambda: followed.read_answer().get("question") == "a", "it is read")
        first.release()
        second.wait()
        followed.insert("orders", 5)
        second.release()
        wait_until(followed.is_answered("a"), "it is compared")
        (entry,) = followed.read_answer()["tables"]
        assert (entry["equal"], entry["snapshotId"]) == (True, str(compared))
        wait_until(lambda: followed.has("orders", 5), "it goes on")


def test_what_is_no_question_changes_nothing_and_is_refused(followed: ContinuousTables) -> None:
    with followed.run():
        followed.question_path.write_text('{"id": "a", "mode": "delete", "tables": []}')
        followed.insert("orders", 3)
        wait_until(lambda: followed.has("orders", 3), "it is followed")
        wait_until(followed.is_answered("a"), "it is refused")
        assert {entry["reason"] for entry in followed.read_answer()["tables"]} == {"BadSpec"}


@pytest.mark.sampled
@pytest.mark.parametrize("aliases", [("orders", "users", "items")])
@pytest.mark.parametrize("mode", [RunMode.VERIFY, RunMode.DEAD_LETTERS])
def test_a_person_is_answered_while_other_tables_have_all_permits(
    followed: ContinuousTables, proxy: FaultProxy, mode: RunMode
) -> None:
    with followed.run():
        # Of the driver: a task that is held would have one of Spark's two slots as well.
        held = [
            proxy.hold(f"icdc-state/_doc/{alias}", method="PUT") for alias in ("orders", "users")
        ]
        for alias in ("orders", "users"):
            followed.insert(alias, 3)
        for hold in held:
            hold.wait()
        (entry,) = followed.ask_person("a", mode, only=(followed.tables["items"],))
        assert entry["name"] == followed.tables["items"]
        assert "reason" not in entry
        assert not any(followed.has(alias, 3) for alias in ("orders", "users")), "they still work"
        for hold in held:
            hold.release()
        wait_until(lambda: followed.has("users", 3), "they go on")


def test_a_run_that_is_to_end_leaves_open_what_a_table_has_not_answered(
    followed: ContinuousTables, proxy: FaultProxy
) -> None:
    with followed.run():
        held = proxy.hold("orders-000001/_bulk")
        followed.insert("orders", 3)
        held.wait()
        followed.ask("a", RunMode.VERIFY)
        wait_until(
            lambda: len(followed.read_answer().get("tables", ())) == 1, "the other one has answered"
        )
        followed.stop.set()
        held.release()
    assert followed.read_answer()["complete"] is False, "another run answers"
