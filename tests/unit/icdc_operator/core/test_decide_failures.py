"""The reconcile core after failures: retries, time limits, the log of runs."""

from dataclasses import replace

import pytest

from icdc_api import errors
from icdc_api.conditions import ConditionType
from icdc_api.runs import Failure, RunState
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import ForgetRun, RunPhase, RunSeen, StopRun
from support_pipelines import (
    NOW,
    after_failure,
    at_work,
    caught_up,
    make_spec,
    report,
    run_record,
    seen,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("error", "delay", "counted", "person"),
    [
        (errors.NodeLost("lost"), 0.0, 0, False),
        (errors.SourceUnavailable("down"), 10.0, 1, False),
        (errors.TargetUnavailable("down"), 10.0, 1, False),
        (errors.Throttled("busy"), 10.0, 1, False),
        (errors.OutOfMemory("heap"), 10.0, 1, False),
        (errors.Unauthorized("the Secret x"), 600.0, 0, True),
        (errors.Bug("boom"), None, 1, True),
        (errors.BadSpec("tables"), None, 1, True),
        (errors.Fenced("by another"), None, 1, True),
        (errors.Submission("no JDK"), None, 1, True),
    ],
)
def test_each_class_has_its_policy(
    error: errors.IcdcError,
    delay: float | None,
    counted: int,
    person: bool,
) -> None:
    decision = after_failure(make_spec(), Failure.of(error))
    status = decision.status
    assert status.consecutive_failures == counted
    assert status.holds(ConditionType.STALLED) == person
    if delay is None:
        assert (decision.requeue_after, decision.settled) == (None, True)
        assert status.next_attempt_time is None
    elif delay == 0.0:
        assert status.current_run is not None
        assert status.current_run.name == "shop-e1-2"
    else:
        assert decision.requeue_after is not None
        assert delay <= decision.requeue_after <= delay * 1.1
        assert decision.settled == person
    if person:
        stalled_by = status.condition(ConditionType.STALLED)
        assert stalled_by is not None
        assert Failure.of(error).failure_class.value in stalled_by.message


def test_backoff_doubles_up_to_the_limit_and_then_the_pipeline_stalls() -> None:
    spec = make_spec(retry={"maxAttempts": 6, "initialSeconds": 10, "maxSeconds": 60})
    failure = Failure.of(errors.TargetUnavailable("down"))
    waits = [after_failure(spec, failure, failures=count).requeue_after for count in range(6)]
    assert waits[-1] is None
    for wait, least in zip(waits[:-1], [10, 20, 40, 60, 60], strict=True):
        assert wait is not None
        assert least <= wait <= least * 1.1
    last = after_failure(spec, failure, failures=5).status.condition(ConditionType.STALLED)
    assert last is not None
    assert last.message == (
        "given up after 6 attempts: TargetUnavailable: down; "
        "to act: the author of the pipeline, then raise spec.restartNonce"
    )


def test_lost_nodes_are_answered_at_once_only_a_few_times_in_a_row() -> None:
    lost = run_record(state=RunState.FAILED, failure=Failure.of(errors.NodeLost("lost")))
    world = at_work(make_spec(), seen(RunPhase.GONE))
    for before, at_once in [(0, True), (1, True), (2, True), (3, False)]:
        status = world.status.model_copy(update={"recent_runs": (lost,) * before})
        decision = decide(replace(world, status=status), NOW)
        assert (decision.status.current_run is not None) == at_once
        assert decision.status.consecutive_failures == 0


def test_a_run_that_never_reports_is_killed_and_counted() -> None:
    spec = make_spec(timeouts={"startSeconds": 10})
    world = at_work(spec, seen(RunPhase.PENDING), state=RunState.SUBMITTED)
    killing = decide(world, NOW)
    assert killing.actions == (StopRun("shop-e1-1", graceful=False),)
    gone = replace(world, status=killing.status, runs=(seen(RunPhase.GONE),))
    after = decide(gone, NOW).status
    assert after.last_run is not None
    assert after.last_run.failure is not None
    assert after.last_run.failure.failure_class == errors.FailureClass.START_TIMEOUT
    assert after.consecutive_failures == 1


def test_a_run_that_used_up_its_time_ends_gently_and_another_goes_on() -> None:
    spec = make_spec(timeouts={"runSeconds": 15})
    live = seen(RunPhase.RUNNING, report=report(caught_up()))
    world = at_work(spec, live)
    stopping = decide(world, NOW)
    assert stopping.actions == (StopRun("shop-e1-1", graceful=True),)
    ended = seen(RunPhase.SUCCEEDED, report=report(caught_up(), finished=True))
    after = decide(replace(world, status=stopping.status, runs=(ended,)), NOW).status
    assert after.consecutive_failures == 0
    assert after.current_run is not None


def test_history_is_bounded_and_what_is_not_kept_is_forgotten() -> None:
    log = tuple(
        run_record(name=f"shop-c{n}-1", sequence=n, state=RunState.SUCCEEDED)
        for n in range(20, 10, -1)
    )
    old = tuple(RunSeen(each.name, 900, RunPhase.SUCCEEDED, False) for each in log)
    world = at_work(make_spec(), seen(RunPhase.SUCCEEDED, report=report(finished=True)))
    status = world.status.model_copy(update={"recent_runs": log})
    decision = decide(replace(world, status=status, runs=world.runs + old), NOW)
    assert len(decision.status.recent_runs) == 10
    forgotten = {action.name for action in decision.actions if isinstance(action, ForgetRun)}
    assert forgotten == {f"shop-c{n}-1" for n in range(11, 19)}
