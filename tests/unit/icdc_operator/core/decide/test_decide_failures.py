"""The reconcile core after failures: retries, time limits, the log of runs."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from icdc_api import errors
from icdc_api.base import MAX_COUNT
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure, RunState, RunStatus
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import ForgetRun, RunPhase, RunSeen, StopRun
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    decide_after_failure,
    make_active,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    run_record,
)
from icdc_testing.operator.deciding.world import DecideWorld

pytestmark = pytest.mark.unit

YEAR_2099 = 4_070_908_800_000

DOWN = Failure.of(errors.TargetUnavailable("down"))


@pytest.mark.parametrize(
    ("error", "delay", "counted", "person"),
    [
        (errors.NodeLost("lost"), 0.0, 0, False),
        (errors.SourceUnavailable("down"), 10.0, 1, False),
        (errors.TargetUnavailable("down"), 10.0, 1, False),
        (errors.Throttled("busy"), 10.0, 1, False),
        (errors.NoProgress("nothing done"), 10.0, 1, False),
        (errors.OutOfMemory("heap"), 10.0, 1, False),
        (errors.DiskFull("no room"), 10.0, 1, False),
        (errors.Unauthorized("the Secret x"), 600.0, 0, True),
        (errors.Bug("boom"), None, 1, True),
        (errors.BadSpec("tables"), None, 1, True),
        (errors.Fenced("by another"), 10.0, 0, False),
        (errors.Submission("no JDK"), 600.0, 0, True),
    ],
)
def test_each_class_has_its_policy(
    error: errors.IcdcError,
    delay: float | None,
    counted: int,
    person: bool,
) -> None:
    decision = decide_after_failure(make_spec(), Failure.of(error))
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
        stalled_by = status.find_condition(ConditionType.STALLED)
        assert stalled_by is not None
        assert Failure.of(error).failure_class.value in stalled_by.message


def test_backoff_doubles_up_to_the_limit() -> None:
    spec = make_spec(retry={"maxAttempts": 6, "initialSeconds": 10, "maxSeconds": 60})
    waits = [decide_after_failure(spec, DOWN, failures=count).requeue_after for count in range(5)]
    for wait, least in zip(waits, [10, 20, 40, 60, 60], strict=True):
        assert wait is not None
        assert least <= wait <= least * 1.1


@pytest.mark.parametrize(
    ("error", "acts"),
    [
        (errors.TargetUnavailable("down"), "; resumes by itself"),
        (errors.OutOfMemory("down"), "; action required: the author of the pipeline"),
    ],
)
@pytest.mark.parametrize("failures", [5, 6, 400])
def test_a_passing_fault_that_outlasts_the_retries_stalls_and_is_tried_again_slowly(
    error: errors.IcdcError, acts: str, failures: int
) -> None:
    spec = make_spec(retry={"maxAttempts": 6, "initialSeconds": 10, "maxSeconds": 60})
    decision = decide_after_failure(spec, Failure.of(error), failures=failures)
    assert decision.requeue_after is not None
    assert 60 <= decision.requeue_after <= 66
    assert decision.settled, "icdc run --once ends here"
    last = decision.status.find_condition(ConditionType.STALLED)
    assert last is not None
    assert last.status == ConditionStatus.TRUE
    assert last.message == (
        f"failed {failures + 1} times in a row: {error.failure_class.value}: down; "
        f"retried about every 60 s{acts}"
    )


def test_an_outage_of_a_day_needs_nobody_once_it_is_over() -> None:
    """Stalled while it lasts, also during an attempt; Ready after it, without an edit."""
    world = DecideWorld()
    down_until, outages = NOW + timedelta(days=1), 0
    while not world.status.holds(ConditionType.READY):
        assert world.now < down_until + timedelta(hours=1), "it has not gone on"
        decision = world.step()
        for run in world.live:
            if world.now < down_until:
                outages += 1
                world.end(run.name, finished=True, error=errors.TargetUnavailable("down"))
            else:
                world.work(run.name)
        if outages > world.spec.retry.max_attempts and world.now < down_until:
            assert world.status.holds(ConditionType.STALLED)
        assert decision.requeue_after is not None
        world.now += timedelta(seconds=max(1.0, decision.requeue_after))
    assert 24 * 3600 / 660 - 2 < outages < 24 * 6 + world.spec.retry.max_attempts
    assert not world.status.holds(ConditionType.STALLED)
    assert world.status.consecutive_failures == 0


@pytest.mark.parametrize("failure", [DOWN, Failure.of(errors.Submission("no account"))])
def test_what_an_earlier_version_gave_up_goes_on_after_an_upgrade(failure: Failure) -> None:
    failed = run_record(state=RunState.FAILED, failure=failure, finished_at=NOW)
    status = PipelineStatus(
        observed_generation=1, last_run=failed, recent_runs=(failed,), consecutive_failures=8
    )
    decision = decide(make_observed(make_spec(), status), NOW)
    assert decision.status.current_run is not None
    assert decision.status.holds(ConditionType.STALLED)


def test_a_thousand_pipelines_that_met_one_outage_do_not_come_back_in_one_second() -> None:
    world = make_active(
        make_spec(), make_seen(RunPhase.FAILED, report=make_report(finished=True, outcome=DOWN))
    )
    status = world.status.model_copy(update={"consecutive_failures": 20})
    seconds = Counter[int]()
    for number in range(1000):
        decision = decide(replace(world, name=f"shop-{number}", status=status), NOW)
        assert decision.requeue_after is not None
        seconds[int(decision.requeue_after)] += 1
    assert max(seconds.values()) < 50


FENCED = Failure.of(errors.Fenced("owned by laptop.", epoch=YEAR_2099, run_id="laptop"))


def make_failure_by_fence(minutes_ago: float) -> RunStatus:
    finished = NOW - timedelta(minutes=minutes_ago)
    return run_record(state=RunState.FAILED, failure=FENCED, finished_at=finished)


def test_a_run_that_a_finished_one_of_a_wrong_clock_fenced_is_followed_by_one_that_wins() -> None:
    decision = decide_after_failure(make_spec(), FENCED)
    assert not decision.status.holds(ConditionType.STALLED)
    assert decision.status.next_attempt_time is not None
    again = decide(make_observed(make_spec(), decision.status), decision.status.next_attempt_time)
    assert again.status.current_run is not None
    assert again.status.current_run.epoch == YEAR_2099 + 1


def test_an_epoch_that_nothing_can_exceed_ends_no_operator() -> None:
    last = Failure.of(errors.Fenced("owned.", epoch=MAX_COUNT, run_id="x"))
    status = decide_after_failure(make_spec(), last).status
    assert status.next_attempt_time is not None
    again = decide(make_observed(make_spec(), status), status.next_attempt_time)
    assert again.status.current_run is not None
    assert again.status.current_run.epoch == MAX_COUNT


@pytest.mark.parametrize(
    ("minutes_ago", "stalled"),
    [
        ([], False),
        ([1], False),
        ([1, 2], True),
        ([10, 20, 30], True),
        ([100, 200], False),  # long over: another rival, or the same one once a day
    ],
)
def test_a_rival_that_takes_over_again_and_again_is_alive_and_is_told(
    minutes_ago: list[float], stalled: bool
) -> None:
    spec = make_spec(retry={"initialSeconds": 10, "maxSeconds": 600})
    world = make_active(
        spec, make_seen(RunPhase.FAILED, report=make_report(finished=True, outcome=FENCED))
    )
    recent = tuple(make_failure_by_fence(minutes) for minutes in minutes_ago)
    status = world.status.model_copy(update={"recent_runs": recent})
    decision = decide(replace(world, status=status), NOW)
    assert decision.status.holds(ConditionType.STALLED) == stalled
    assert decision.settled == stalled
    assert decision.requeue_after is not None
    assert (decision.requeue_after >= 600) == stalled
    assert decision.status.consecutive_failures == 0, "no restartNonce is needed, ever"
    condition = decision.status.find_condition(ConditionType.STALLED)
    assert condition is not None
    assert condition.message == (
        ""
        if not stalled
        else f"another run has taken over {1 + len(recent)} times in a row: Fenced: owned by "
        "laptop; retried about every 600 s; action required: end the pipeline that runs elsewhere, "
        "or suspend this one"
    )


def test_a_fenced_run_that_an_earlier_version_gave_up_goes_on_after_an_upgrade() -> None:
    old = FENCED.model_copy(update={"retryable": False, "rival": None})
    failed = run_record(state=RunState.FAILED, failure=old, finished_at=NOW)
    status = PipelineStatus(
        observed_generation=1, last_run=failed, recent_runs=(failed,), consecutive_failures=1
    )
    assert decide(make_observed(make_spec(), status), NOW).status.current_run is not None


def test_lost_nodes_are_answered_at_once_only_a_few_times_in_a_row() -> None:
    lost = run_record(state=RunState.FAILED, failure=Failure.of(errors.NodeLost("lost")))
    world = make_active(make_spec(), make_seen(RunPhase.MISSING))
    for before, at_once in [(0, True), (1, True), (2, True), (3, False)]:
        status = world.status.model_copy(update={"recent_runs": (lost,) * before})
        decision = decide(replace(world, status=status), NOW)
        assert (decision.status.current_run is not None) == at_once
        assert decision.status.consecutive_failures == 0


def test_a_run_that_never_reports_is_killed_and_counted() -> None:
    spec = make_spec(timeouts={"startSeconds": 10})
    world = make_active(spec, make_seen(RunPhase.PENDING), state=RunState.SUBMITTED)
    killing = decide(world, NOW)
    assert killing.actions == (StopRun("shop-e1-1", graceful=False),)
    missing = replace(world, status=killing.status, runs=(make_seen(RunPhase.MISSING),))
    after = decide(missing, NOW).status
    assert after.last_run is not None
    assert after.last_run.failure is not None
    assert after.last_run.failure.failure_class == errors.FailureClass.START_TIMEOUT
    assert after.consecutive_failures == 1


def test_a_run_that_used_up_its_time_ends_gently_and_another_goes_on() -> None:
    spec = make_spec(timeouts={"runSeconds": 15})
    live = make_seen(RunPhase.RUNNING, report=make_report(make_caught_up()))
    world = make_active(spec, live)
    stopping = decide(world, NOW)
    assert stopping.actions == (StopRun("shop-e1-1", graceful=True),)
    ended = make_seen(RunPhase.SUCCEEDED, report=make_report(make_caught_up(), finished=True))
    after = decide(replace(world, status=stopping.status, runs=(ended,)), NOW).status
    assert after.consecutive_failures == 0
    assert after.current_run is not None


def test_history_is_bounded_and_what_is_not_kept_is_forgotten() -> None:
    log = tuple(
        run_record(name=f"shop-c{n}-1", sequence=n, state=RunState.SUCCEEDED)
        for n in range(20, 10, -1)
    )
    old = tuple(RunSeen(run.name, 900, RunPhase.SUCCEEDED, False) for run in log)
    world = make_active(
        make_spec(), make_seen(RunPhase.SUCCEEDED, report=make_report(finished=True))
    )
    status = world.status.model_copy(update={"recent_runs": log})
    decision = decide(replace(world, status=status, runs=world.runs + old), NOW)
    assert len(decision.status.recent_runs) == 10
    forgotten = {action.name for action in decision.actions if isinstance(action, ForgetRun)}
    assert forgotten == {f"shop-c{n}-1" for n in range(11, 19)}
