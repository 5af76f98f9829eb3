"""Questions that people ask a pipeline: answered by a run each, beside whatever else holds."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icdc_api import errors
from icdc_api.job.run_files import RunReport
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_api.status.triggers import Ask, AskedKind
from icdc_operator.core import retry
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import (
    CreateRun,
    Decision,
    ForgetRun,
    Observed,
    Queued,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_spec,
    run_record,
)

pytestmark = pytest.mark.unit

PLAN = Ask(id="q1", mode=RunKind.PLAN)
RESULT: dict[str, Any] = {"tables": [{"name": "shop.orders", "mode": "Idle"}]}
GOOD = run_record(state=RunState.SUCCEEDED, finished_at=NOW)


def make_failed_run(error: errors.IcdcError) -> RunStatus:
    failure = Failure.of(error)
    return run_record(state=RunState.FAILED, finished_at=NOW, failure=failure)


def make_world(last: RunStatus | None, *, ask: Ask | None = PLAN, **spec: Any) -> Observed:
    """Return a pipeline at rest after that run, and somebody who asks."""
    fields: dict[str, Any] = {} if last is None else {"last_run": last, "recent_runs": (last,)}
    status = PipelineStatus(observed_generation=1, tables=(make_caught_up(),), **fields)
    return replace(make_observed(make_spec(**spec), status), ask=ask, heads={"shop.orders": "7"})


def apply(world: Observed, decision: Decision, **more: Any) -> Observed:
    return replace(world, status=decision.status, **more)


def make_run_seen(run: RunStatus, phase: RunPhase, **report: Any) -> RunSeen:
    run_report = RunReport(run_id=run.run_id or "", started_at=NOW, updated_at=NOW, **report)
    return RunSeen(run.name, run.epoch, phase, not phase.ended, report=run_report)


def play_answer(world: Observed, **report: Any) -> tuple[Observed, PipelineStatus]:
    """Return the pipeline after the run that answers, and its status while that was at work."""
    planned = decide(world, NOW)
    created = decide(apply(world, planned), NOW)
    (create,) = created.actions
    assert isinstance(create, CreateRun)
    assert create.ask == world.ask
    assert not create.continuous
    assert create.tables is None
    live = (make_run_seen(create.run, RunPhase.RUNNING),)
    begun = decide(apply(world, created, runs=live), NOW)
    working = decide(apply(world, begun, runs=live), NOW + timedelta(minutes=5))
    assert not working.actions
    report = {"finished": True, "result": RESULT} | report
    over = (make_run_seen(create.run, RunPhase.SUCCEEDED, **report),)
    last = decide(apply(world, working, runs=over), NOW + timedelta(minutes=6))
    return apply(world, last, runs=over), working.status


BUG = make_failed_run(errors.Bug("boom"))
DOWN = make_failed_run(errors.TargetUnavailable("down"))
OUTLASTED = {"consecutive_failures": 8, "next_attempt_time": NOW + timedelta(hours=1)}
WAITING = {"consecutive_failures": 1, "next_attempt_time": NOW + timedelta(hours=1)}


@pytest.mark.parametrize(
    ("last", "status", "spec"),
    [
        (GOOD, {}, {}),
        (GOOD, {}, {"suspend": True}),
        (BUG, {"consecutive_failures": 1}, {}),
        (DOWN, OUTLASTED, {}),
        (DOWN, WAITING, {}),
    ],
    ids=["idle", "suspended", "given up", "outlasted", "waits for an attempt"],
)
def test_a_question_is_answered_and_all_else_stays_as_it_was(
    last: RunStatus, status: dict[str, Any], spec: dict[str, Any]
) -> None:
    world = make_world(last, ask=None, **spec)
    world = replace(world, status=world.status.model_copy(update=status))
    before = decide(world, NOW).status
    world, working = play_answer(replace(world, status=before, ask=PLAN))
    asked = world.status.observed_ask
    assert asked is not None
    assert (asked.id, asked.run, asked.finished, asked.failure) == ("q1", "shop-p2-1", True, None)
    assert [run.name for run in world.status.recent_runs] == ["shop-p2-1", "shop-e1-1"]
    kinds = (ConditionType.READY, ConditionType.STALLED, ConditionType.SUSPENDED)
    for kind in kinds:
        assert working.find_condition(kind) == before.find_condition(kind)
        assert world.status.find_condition(kind) == before.find_condition(kind)
    for name in ("last_run", "consecutive_failures", "next_attempt_time", "mode", "tables"):
        assert getattr(world.status, name) == getattr(before, name)
    again = decide(world, NOW + timedelta(minutes=7))
    assert again.status.current_run is None, "it is answered once"
    retained = {action.name for action in again.actions if isinstance(action, ForgetRun)}
    assert "shop-p2-1" not in retained, "its pod holds the answer"


def test_an_answer_stays_to_be_read_whatever_the_history_keeps() -> None:
    world, _ = play_answer(make_world(GOOD, history={"successful": 0, "failed": 0}))
    following = run_record(name="shop-c3-1", sequence=3, state=RunState.SUCCEEDED, epoch=9**9)
    recent = (following, *world.status.recent_runs)
    status = world.status.model_copy(update={"recent_runs": recent, "last_run": following})
    decision = decide(replace(world, status=status), NOW + timedelta(minutes=7))
    assert ForgetRun("shop-p2-1") not in decision.actions


def test_a_question_is_no_attempt_of_a_comparison_that_failed() -> None:
    compared = make_failed_run(errors.OutOfMemory("heap")).model_copy(
        update={"kind": RunKind.VERIFY}
    )
    world = make_world(compared, ask=Ask(id="q1", mode=RunKind.VERIFY))
    run = decide(world, NOW).status.current_run
    assert run is not None
    assert (run.name, run.attempt) == ("shop-v2-1", 1)


def test_a_run_that_gives_no_answer_says_why() -> None:
    failure = Failure.of(errors.SourceUnavailable("the catalog does not answer"))
    world, _ = play_answer(make_world(GOOD), result=None, outcome=failure)
    asked = world.status.observed_ask
    assert asked is not None
    assert (asked.finished, asked.failure) == (True, failure)
    assert world.status.holds(ConditionType.READY)
    assert world.status.consecutive_failures == 0


def test_a_question_between_two_runs_does_not_hide_that_both_were_fenced() -> None:
    fenced = make_failed_run(errors.Fenced("owned.", epoch=5, run_id="x"))
    question = run_record(name="shop-p3-1", kind=RunKind.PLAN, state=RunState.SUCCEEDED, ask="q1")
    assert retry.count_takeovers([fenced, question, fenced]) == 2
    lost = make_failed_run(errors.NodeLost("lost"))
    assert retry.count_losses([lost, question, lost]) == 2


def add_live_run(world: Observed, **record: Any) -> Observed:
    """Return the same with a run that follows tables at work."""
    run = run_record(name="shop-c2-1", kind=RunKind.CHANGELOG, sequence=2, epoch=2000, **record)
    status = world.status.model_copy(update={"current_run": run})
    tables = {"tables": (make_caught_up(),)}
    return replace(world, status=status, runs=(make_run_seen(run, RunPhase.RUNNING, **tables),))


def test_a_run_that_ends_by_itself_is_waited_for() -> None:
    decision = decide(add_live_run(make_world(GOOD)), NOW)
    assert not decision.actions
    assert decision.status.observed_ask is None


def test_a_continuous_run_makes_room_and_comes_back() -> None:
    world = add_live_run(make_world(GOOD, changelog={"trigger": "Continuous"}))
    stopping = decide(world, NOW)
    assert stopping.actions == (StopRun("shop-c2-1", graceful=True),)
    (run,) = world.runs
    over = replace(run, phase=RunPhase.SUCCEEDED, writer_alive=False)
    world, _ = play_answer(apply(world, stopping, runs=(over,)))
    again = world.status.current_run
    assert again is not None
    assert (again.kind, again.ask) == (RunKind.CHANGELOG, None)


def test_a_question_that_is_withdrawn_ends_its_run() -> None:
    world = make_world(GOOD)
    planned = decide(world, NOW)
    run = planned.status.current_run
    assert run is not None
    world = apply(world, planned, runs=(make_run_seen(run, RunPhase.RUNNING),))
    assert decide(replace(world, ask=None), NOW).actions == (StopRun(run.name, graceful=True),)


def test_a_question_is_taken_up_again_after_the_spec_was_changed() -> None:
    world = make_world(GOOD)
    planned = decide(world, NOW)
    run = planned.status.current_run
    assert run is not None
    live_run = make_run_seen(run, RunPhase.RUNNING)
    world = apply(world, planned, runs=(live_run,), generation=2)
    stopping = decide(world, NOW)
    assert stopping.actions == (StopRun(run.name, graceful=True),)
    over = replace(live_run, phase=RunPhase.SUCCEEDED, writer_alive=False)
    again = decide(apply(world, stopping, runs=(over,)), NOW).status.current_run
    assert again is not None
    assert (again.name, again.ask, again.generation) == ("shop-p3-1", "q1", 2)


@pytest.mark.parametrize("mode", [RunKind.VERIFY, RunKind.REPAIR, RunKind.REPLAY])
def test_what_reads_all_rows_waits_for_its_turn(mode: AskedKind) -> None:
    location = Queued(60.0, "--max-active-runs", allowed=1, position=1, waiting=1)
    world = replace(make_world(GOOD, ask=Ask(id="q1", mode=mode)), queued=location)
    decision = decide(world, NOW)
    assert decision.status.current_run is None
    assert decision.status.next_attempt_time is None


@pytest.mark.parametrize(
    "text", [None, "", "no", "[]", "{}", '{"id":"x","mode":"Export"}', '{"id":1,"mode":"Plan"}']
)
def test_what_is_no_question_asks_nothing(text: str | None) -> None:
    assert Ask.of_annotation(text) is None


def test_a_question_is_read_as_it_was_asked() -> None:
    assert Ask.of_annotation(PLAN.to_annotation()) == PLAN
