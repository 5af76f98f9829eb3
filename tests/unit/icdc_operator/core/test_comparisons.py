"""Comparisons that `spec.resync` asks for: when they run, how they are retried and given up."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icdc_api import errors
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableState, parse_status
from icdc_api.status.runs import Failure
from icdc_operator.core import schedule
from icdc_operator.core.asked import comparisons
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import RunPhase, StopRun
from icdc_testing.operator.deciding.comparing import (
    ITEMS,
    ORDERS,
    ComparingWorld,
    begin_comparison,
    make_ask,
    make_exported,
    make_verdict,
)
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

OUT_OF_MEMORY = Failure.of(errors.OutOfMemory("heap"))
PASSING = {"name": ORDERS, "reason": "TargetUnavailable", "message": "down"}


@pytest.fixture
def world() -> ComparingWorld:
    """Two tables that a run has exported."""
    return make_exported()


@pytest.mark.parametrize("mode", ["Verify", "Repair"])
def test_a_raised_nonce_is_answered_by_one_run_after_one_that_follows(
    world: ComparingWorld, mode: str
) -> None:
    begin_comparison(world, mode)
    assert world.status.mode == mode
    assert world.verified[:2] == ("Unknown", "Pending")
    world.answer(make_verdict(ORDERS), make_verdict(ITEMS))
    world.reconcile()
    assert world.verified == (
        "True",
        "Equal",
        "shop.orders: 10 documents; shop.items: 10 documents"
        "; the oldest comparison is of 2026-03-01T12:00Z",
    )
    result = world.find_verification()
    assert (result.nonce, result.snapshot_id, result.equal) == (1, "7", True)
    assert "Verified" in world.list_reasons()
    # It is answered once, and what the tables are at is known as before.
    for _ in range(5):
        world.now += timedelta(seconds=60)
        decision = world.reconcile()
    assert len(world.created) == 3
    assert (decision.settled, world.status.consecutive_failures) == (True, 0)
    assert world.status.tables[0].applied_snapshot_id == "7"
    assert schedule.waits_for_heads(world.observe())


@pytest.mark.parametrize(
    ("entries", "outcome"),
    [
        ((), OUT_OF_MEMORY),
        ((PASSING, make_verdict(ITEMS)), None),
        ((), Failure.of(errors.NodeLost("x"))),
    ],
    ids=["the run fails", "one table cannot be reached", "the node is lost"],
)
def test_a_comparison_that_fails_is_retried_and_then_given_up(
    world: ComparingWorld, entries: tuple[dict[str, Any], ...], outcome: Failure | None
) -> None:
    begin_comparison(world)
    began = world.now
    for attempt in range(2, comparisons.MAX_ATTEMPTS + 1):
        world.answer(*entries, outcome=outcome)
        assert world.start() == f"v3-{attempt}"
        assert not {"Verified", "NotVerified"} & set(world.list_reasons())
        assert world.verified[:2] == ("Unknown", "Pending")
    world.answer(*entries, outcome=outcome)
    world.reconcile()
    assert world.verified[:2] == ("Unknown", "NotVerified")
    failure = world.get_last_run().failure
    assert failure is not None
    assert world.find_verification().reason == failure.reason
    assert world.list_reasons().count("NotVerified") == 1
    assert world.now - began <= timedelta(seconds=200)
    # The pipeline goes on, at its usual pace.
    assert (world.status.consecutive_failures, world.status.next_attempt_time) == (0, None)
    assert world.status.holds(ConditionType.READY)
    assert world.status.current_run is None
    assert world.status.mode == "Changelog"
    assert schedule.waits_for_heads(world.observe())


@pytest.mark.parametrize(
    "failure",
    [Failure.of(errors.Bug("boom")), Failure.of(errors.Unauthorized("the Secret x"))],
    ids=["not retryable", "waits for a person"],
)
def test_a_comparison_that_cannot_be_made_does_not_hold_up_the_tables(
    world: ComparingWorld, failure: Failure
) -> None:
    begin_comparison(world, changelog={"trigger": "Continuous"})
    world.answer(outcome=failure)
    assert world.start() == "c4-1"
    assert world.created[-1].continuous
    assert world.verified[:2] == ("Unknown", "NotVerified")
    assert failure.message in world.verified[2]


def test_a_continuous_run_makes_room_for_the_comparison_and_comes_back(
    world: ComparingWorld,
) -> None:
    world.edit(changelog={"trigger": "Continuous"})
    assert world.start() == "c2-1"
    world.reconcile()
    world.edit(changelog={"trigger": "Continuous"}, **make_ask())
    world.reconcile()  # stops it, gently
    assert world.start() == "c3-1"
    world.follow()
    assert world.start() == "v4-1"
    world.answer(make_verdict(ORDERS), make_verdict(ITEMS))
    assert world.start() == "c5-1"
    assert [create.continuous for create in world.created] == [False, True, False, False, True]


@pytest.mark.parametrize("state", [TableState.EXPORTING, TableState.PENDING])
def test_exports_come_first(world: ComparingWorld, state: TableState) -> None:
    world = ComparingWorld(make_spec(ORDERS, ITEMS, **make_ask()))
    assert world.start() == "e1-1"
    world.follow(state)
    name = world.start()
    assert name[0] in "ec"
    world.follow()
    assert world.start() == "v3-1"


def test_a_run_that_fails_is_retried_before_anything_is_compared(world: ComparingWorld) -> None:
    world.edit(**make_ask())
    assert world.start() == "c2-1"
    world.end(world.make_report((), outcome=OUT_OF_MEMORY))
    assert world.start() == "c2-2"
    world.follow()
    assert world.start() == "v3-1"


@pytest.mark.parametrize(
    ("spec", "then"),
    [
        ({**make_ask(nonce=2, tables=(ITEMS,))}, ["c4-1", "v5-1"]),
        ({**make_ask(), "spark": {"image": "other"}}, ["c4-1", "v5-1"]),
        ({**make_ask("Export", nonce=2)}, ["e4-1", "c5-1"]),
    ],
    ids=["another comparison", "another image", "an export instead"],
)
def test_a_comparison_of_a_spec_that_was_changed_is_stopped_and_has_no_say(
    world: ComparingWorld, spec: dict[str, Any], then: list[str]
) -> None:
    begin_comparison(world)
    world.edit(**spec)
    assert world.reconcile().actions == (StopRun("shop-v3-1", graceful=True),)
    world.answer(make_verdict(ORDERS, "1"), make_verdict(ITEMS))
    assert world.start() == then[0]
    assert "DifferencesFound" not in world.list_reasons()
    world.follow()
    if then[1][0] == "c":
        world.reconcile()
        assert world.verified[:2] == ("Unknown", "NotVerified")
        return
    assert world.start() == then[1]
    world.answer(make_verdict(ORDERS), make_verdict(ITEMS))
    world.reconcile()
    assert world.verified[:2] == ("True", "Equal")


def test_a_pipeline_that_is_suspended_meanwhile_compares_when_it_is_resumed(
    world: ComparingWorld,
) -> None:
    begin_comparison(world)
    world.edit(**make_ask(), suspend=True)
    world.reconcile()
    world.reconcile()
    assert world.status.holds(ConditionType.SUSPENDED)
    world.edit(**make_ask())
    assert world.start() == "c4-1"
    world.follow()
    assert world.start() == "v5-1"


def test_one_that_is_stopped_because_the_operator_ends_is_made_later(world: ComparingWorld) -> None:
    begin_comparison(world)
    world.reconcile(closing=True)
    world.reconcile(closing=True)
    assert world.status.current_run is None
    assert world.verified[:2] == ("Unknown", "Pending")
    assert world.start() == "v4-1"


def test_one_that_takes_longer_than_the_time_limit_is_given_up(world: ComparingWorld) -> None:
    begin_comparison(world, timeouts={"runSeconds": 60})
    assert world.run is not None
    world.run = replace(world.run, phase=RunPhase.RUNNING, started_at=world.now)
    world.reconcile()
    world.now += timedelta(seconds=61)
    world.reconcile()
    world.reconcile()
    assert world.verified[:2] == ("Unknown", "NotVerified")
    assert "timeouts.runSeconds (60 s)" in world.verified[2]
    assert world.status.current_run is None


@pytest.mark.parametrize("crash", ["before status", "before actions"])
def test_a_crash_at_any_step_changes_nothing_of_the_story(crash: str) -> None:
    """Each decision is made twice: what the first one said is lost, or never carried out."""
    world = ComparingWorld(make_spec(ORDERS, ITEMS, **make_ask("Repair")))
    for _ in range(40):
        decision = decide(world.observe(), world.now)
        if crash == "before actions":
            world.status = parse_status(decision.status.to_resource())
        world.reconcile()
        if world.run is not None and world.run.live:
            kind = world.created[-1].run.kind
            if kind.inspects:
                world.answer(make_verdict(ORDERS, "1", repaired=1), make_verdict(ITEMS))
            else:
                world.follow()
        world.now += timedelta(seconds=1)
    names = [create.run.name for create in world.created]
    assert names[:2] == ["shop-e1-1", "shop-r2-1"]
    assert len([name for name in names if "-r" in name]) == 1
    assert world.verified[:2] == ("True", "Repaired")
