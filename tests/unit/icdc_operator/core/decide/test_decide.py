"""The reconcile core, one decision after the other: which run is wanted, and when."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icdc_api import errors
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableReason, TableState
from icdc_api.status.runs import Failure, RunState
from icdc_operator.core.decide import decide
from icdc_operator.core.events import derive_events
from icdc_operator.core.observed import CreateRun, ForgetRun, RunPhase, RunSeen, StopRun
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    decide_after_failure,
    make_active,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    make_stalled,
)

pytestmark = pytest.mark.unit


def test_a_run_is_recorded_by_one_decision_and_created_by_the_next() -> None:
    world = make_observed(make_spec())
    first = decide(world, NOW)
    run = first.status.current_run
    assert run is not None
    assert (run.name, run.state, run.epoch) == (
        "shop-e1-1",
        RunState.PLANNED,
        int(NOW.timestamp() * 1000),
    )
    assert (first.actions, first.requeue_after) == ((), 0.0)
    again = decide(replace(world, status=first.status), NOW + timedelta(seconds=1))
    assert again.actions == (CreateRun(run, continuous=False),)
    assert again.status.current_run == run


def test_a_run_that_was_created_before_a_crash_is_not_created_again() -> None:
    run = make_seen(RunPhase.PENDING)
    decision = decide(make_active(make_spec(), run, state=RunState.PLANNED), NOW)
    assert decision.actions == ()
    assert decision.status.current_run is not None
    assert decision.status.current_run.state == RunState.SUBMITTED


@pytest.mark.parametrize("alive", [True, False])
def test_no_run_is_created_while_a_stray_one_may_write(alive: bool) -> None:
    world = make_active(make_spec(), make_seen(RunPhase.PENDING), state=RunState.PLANNED)
    stray = RunSeen("shop-e0-9", 900, RunPhase.FAILED, writer_alive=alive)
    decision = decide(replace(world, runs=(stray,)), NOW)
    if alive:
        assert decision.actions == (StopRun("shop-e0-9", graceful=False),)
    else:
        assert [type(action) for action in decision.actions] == [CreateRun, ForgetRun]


def test_a_lost_status_uses_neither_a_name_nor_an_epoch_twice() -> None:
    future = int(NOW.timestamp() * 1000) + 5
    old = RunSeen("shop-c41-2", future, RunPhase.SUCCEEDED, writer_alive=False)
    run = decide(replace(make_observed(make_spec()), runs=(old,)), NOW).status.current_run
    assert run is not None
    assert (run.name, run.epoch) == ("shop-e42-1", future + 1)


def test_an_ended_run_whose_writer_is_alive_is_not_closed() -> None:
    decision = decide(make_active(make_spec(), make_seen(RunPhase.FAILED, alive=True)), NOW)
    assert decision.status.current_run is not None
    assert decision.status.last_run is None


def test_a_stalled_table_is_no_failure_of_the_run() -> None:
    ended = make_report(make_stalled(TableReason.ALIAS_TAKEN), finished=True)
    decision = decide(make_active(make_spec(), make_seen(RunPhase.SUCCEEDED, report=ended)), NOW)
    assert decision.status.consecutive_failures == 0
    assert decision.status.last_run is not None
    assert decision.status.last_run.state == RunState.SUCCEEDED
    assert decision.settled
    assert decision.requeue_after == 600.0


def test_a_passing_fault_of_one_table_is_retried_like_that_of_a_run() -> None:
    ended = make_report(make_stalled(TableReason.SOURCE_UNAVAILABLE), finished=True)
    decision = decide(make_active(make_spec(), make_seen(RunPhase.SUCCEEDED, report=ended)), NOW)
    assert decision.status.consecutive_failures == 1
    assert not decision.settled
    assert not decision.status.holds(ConditionType.STALLED)


@pytest.mark.parametrize(
    ("spec", "change"),
    [
        ({"suspend": True}, {}),
        ({}, {"generation": 2}),
        ({}, {"closing": True}),
    ],
    ids=["suspend", "new generation", "closing"],
)
def test_a_live_run_that_is_not_wanted_is_stopped_gently_until_it_is_gone(
    spec: dict[str, Any], change: dict[str, Any]
) -> None:
    live = make_seen(RunPhase.RUNNING, report=make_report(make_caught_up()))
    world = replace(make_active(make_spec(**spec), live), **change)
    first = decide(world, NOW)
    again = decide(replace(world, status=first.status), NOW)
    for decision in (first, again):
        assert decision.actions == (StopRun("shop-e1-1", graceful=True),)
        assert decision.status.current_run is not None
        assert decision.status.current_run.state == RunState.STOPPING
    removed = replace(world, status=again.status, runs=(make_seen(RunPhase.MISSING),))
    after = decide(removed, NOW).status
    assert after.last_run is not None
    assert after.last_run.failure is None
    assert (after.current_run is not None) == (world.generation == 2)


@pytest.mark.parametrize(
    ("live", "said"),
    [
        (make_seen(RunPhase.PENDING), "the run is ended before it has begun"),
        (
            make_seen(RunPhase.RUNNING, report=make_report(make_caught_up())),
            "the run ends after its current batch, or after two minutes",
        ),
        (
            make_seen(
                RunPhase.RUNNING,
                report=make_report(make_caught_up()).model_copy(
                    update={"without_executors_since": NOW}
                ),
            ),
            "the run has no executor, and is ended at once; its batch is repeated later",
        ),
    ],
)
def test_a_suspend_says_how_the_run_ends(live: RunSeen, said: str) -> None:
    status = decide(make_active(make_spec(suspend=True), live), NOW).status
    condition = status.find_condition(ConditionType.SUSPENDED)
    assert condition is not None
    assert (condition.reason, condition.message) == ("Suspending", said)


def test_a_requested_suspend_that_is_reached_is_ready() -> None:
    decision = decide(make_observed(make_spec(suspend=True)), NOW)
    ready = decision.status.find_condition(ConditionType.READY)
    assert ready is not None
    assert (ready.status, ready.reason) == ("True", "Suspended")
    assert decision.status.holds(ConditionType.SUSPENDED)
    assert (decision.settled, decision.requeue_after, decision.actions) == (True, None, ())


def test_a_wrong_spec_resumes_nothing() -> None:
    suspended = decide(make_observed(make_spec(suspend=True)), NOW).status
    wrong = replace(make_observed(None, suspended), problem="spec.tables: missing", generation=2)
    after = decide(wrong, NOW).status
    assert after.holds(ConditionType.SUSPENDED)
    corrected = replace(make_observed(make_spec(suspend=True), after), generation=3)
    seen = [*derive_events(suspended, after), *derive_events(after, decide(corrected, NOW).status)]
    assert [event.reason for event in seen] == ["SpecInvalid", "SpecAccepted"]


def test_a_higher_restart_nonce_starts_again_after_the_retries_were_used_up() -> None:
    used_up = decide_after_failure(
        make_spec(), Failure.of(errors.TargetUnavailable("down")), failures=7
    )
    assert used_up.settled
    world = make_observed(make_spec(restartNonce=1), used_up.status)
    decision = decide(replace(world, generation=2), NOW)
    assert decision.status.current_run is not None
    assert decision.status.consecutive_failures == 0
    assert decision.status.observed_triggers is not None
    assert decision.status.observed_triggers.restart_nonce == 1


def test_a_wrong_spec_leaves_the_live_run_alone_and_starts_none() -> None:
    live = make_active(
        make_spec(), make_seen(RunPhase.RUNNING, report=make_report(make_caught_up()))
    )
    broken = replace(live, spec=None, problem="spec.tables: missing", generation=2)
    assert decide(broken, NOW).actions == ()
    idle = replace(make_observed(None), problem="spec.tables: missing")
    decision = decide(idle, NOW)
    assert decision.status.current_run is None
    assert decision.status.observed_generation == 1
    assert not decision.status.holds(ConditionType.SPEC_VALID)


def test_export_only_ends_complete_and_stays_so() -> None:
    complete = make_caught_up().model_copy(update={"state": TableState.COMPLETE})
    ended = make_seen(RunPhase.SUCCEEDED, report=make_report(complete, finished=True))
    decision = decide(make_active(make_spec(mode="ExportOnly"), ended), NOW)
    assert decision.status.phase == "Complete"
    assert decision.status.holds(ConditionType.READY)
    assert (decision.settled, decision.requeue_after) == (True, None)


@pytest.mark.parametrize(
    ("heads", "plans", "after"),
    [
        ({"shop.orders": "7"}, False, 10.0),
        ({"shop.orders": "8"}, True, 0.0),
        ({}, False, 10.0),
        (None, False, 10.0),
    ],
    ids=["nothing new", "a new snapshot", "unreadable", "only a run can look"],
)
def test_on_commit_runs_when_a_table_has_a_new_snapshot(
    heads: dict[str, str | None] | None, plans: bool, after: float
) -> None:
    ended = make_seen(RunPhase.SUCCEEDED, report=make_report(make_caught_up(), finished=True))
    world = make_active(make_spec(), ended)
    first = decide(replace(world, heads=heads), NOW)
    assert (first.status.current_run is not None) == plans
    assert first.requeue_after == after
    if plans:
        assert first.status.current_run is not None
        assert first.status.current_run.name == "shop-c2-1"


def test_a_continuous_pipeline_asks_for_a_long_running_application() -> None:
    world = make_observed(make_spec(changelog={"trigger": "Continuous"}))
    planned = decide(world, NOW).status
    (create,) = decide(replace(world, status=planned), NOW).actions
    assert isinstance(create, CreateRun)
    assert create.continuous


@pytest.mark.parametrize("asked_after", [-30, 30])
def test_a_user_who_asks_for_a_run_gets_one_planned_later(asked_after: int) -> None:
    ended = make_seen(RunPhase.SUCCEEDED, report=make_report(make_caught_up(), finished=True))
    asked = NOW - timedelta(seconds=20) + timedelta(seconds=asked_after)
    decision = decide(replace(make_active(make_spec(), ended), asked_at=asked), NOW)
    assert (decision.status.current_run is not None) == (asked_after > 0)
