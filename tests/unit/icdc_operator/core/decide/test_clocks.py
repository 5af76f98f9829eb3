"""The operator's clock is set forward or back amid a pipeline's life, or was wrong for a while."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from icdc_api import errors
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure, RunState
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import RunPhase, RunSeen
from icdc_testing.operator.deciding.edited_world import PHASES
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_active,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    run_record,
)
from icdc_testing.operator.deciding.spec_fields import make_base

pytestmark = pytest.mark.unit

YEAR_2099 = datetime(2099, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize("step", [HOUR, -HOUR, DAY, -DAY, YEAR_2099 - NOW], ids=str)
@pytest.mark.parametrize("phase", PHASES)
def test_a_clock_that_is_set_changes_nothing_of_what_a_pipeline_comes_to(
    phase: str, step: timedelta
) -> None:
    world, untouched = PHASES[phase](make_base()), PHASES[phase](make_base())
    world.now += step
    world.settle()
    untouched.settle()
    assert world.describe_ending() == untouched.describe_ending()
    assert world.created_epochs == sorted(set(world.created_epochs))


def measure_wait(spec: PipelineSpec, status: PipelineStatus) -> float:
    """By a level-based operator: what it writes is what it reads the next time."""
    now = NOW
    for _ in range(100):
        observed = make_observed(spec, status)
        decision = decide(observed, now)
        status = decision.status
        if status.current_run is not None:
            return (now - NOW).total_seconds()
        now += timedelta(seconds=min(decision.requeue_after or 3600.0, 3600.0))
    raise AssertionError(f"no run in {now - NOW}: next attempt at {status.next_attempt_time}")


def test_an_attempt_that_a_wrong_clock_put_off_is_made_as_late_as_any() -> None:
    failure = Failure.of(errors.TargetUnavailable("down"))
    failed = run_record(state=RunState.FAILED, failure=failure, finished_at=YEAR_2099)
    status = PipelineStatus(
        observed_generation=1,
        last_run=failed,
        recent_runs=(failed,),
        consecutive_failures=1,
        next_attempt_time=YEAR_2099,
    )
    spec = make_spec(retry={"maxSeconds": 600})
    assert measure_wait(spec, status) <= 600 * 1.1


@pytest.mark.parametrize(
    ("poll", "finished"), [(10, YEAR_2099), (10, NOW + HOUR), (86400, YEAR_2099)]
)
def test_a_poll_that_a_wrong_clock_put_off_is_made_as_late_as_any(
    poll: int, finished: datetime
) -> None:
    ended = run_record(state=RunState.SUCCEEDED, finished_at=finished)
    status = PipelineStatus(
        observed_generation=1, last_run=ended, recent_runs=(ended,), tables=(make_caught_up(),)
    )
    spec = make_spec(changelog={"trigger": "Continuous", "pollIntervalSeconds": poll})
    assert measure_wait(spec, status) <= poll


NO_IMAGE = Failure.of(errors.ImagePull("pod/x: ErrImagePull"))
WAITING = make_seen(RunPhase.PENDING)
BLOCKED = make_seen(RunPhase.PENDING, failure=NO_IMAGE)
WORKING = make_seen(RunPhase.RUNNING, report=make_report(make_caught_up()))


@pytest.mark.parametrize("ahead", [HOUR, YEAR_2099 - NOW], ids=str)
@pytest.mark.parametrize(
    ("seen", "limit"),
    [(WAITING, 600), (BLOCKED, 120), (WORKING, 300)],
    ids=["start", "hopeless", "run"],
)
def test_a_time_out_that_a_wrong_clock_put_off_is_over_as_late_as_any(
    seen: RunSeen, limit: int, ahead: timedelta
) -> None:
    started = NOW + ahead if seen is WORKING else None
    spec = make_spec(timeouts={"startSeconds": 600, "runSeconds": 300})
    world = make_active(spec, seen, planned_at=NOW + ahead, started_at=started)
    now = NOW
    while (now - NOW).total_seconds() <= limit + 10:
        decision = decide(world, now)
        if decision.actions:
            assert (now - NOW).total_seconds() > limit
            return
        world = replace(world, status=decision.status)
        now += timedelta(seconds=5)
    raise AssertionError("the run is waited for as long as the clock was ahead")


@pytest.mark.parametrize("behind", [timedelta(0), HOUR, DAY], ids=str)
def test_a_run_has_its_time_to_get_executors_although_the_clock_of_its_driver_is_behind(
    behind: timedelta,
) -> None:
    # It ran for a day, and lost its executors half a minute ago.
    planned, lost = NOW - DAY, NOW - timedelta(seconds=30)
    report = make_report(make_caught_up()).model_copy(
        update={
            "started_at": planned + timedelta(seconds=20) - behind,
            "without_executors_since": lost - behind,
        }
    )
    seen = make_seen(RunPhase.RUNNING, report=report)
    spec = make_spec(timeouts={"startSeconds": 600})
    world = make_active(spec, seen, planned_at=planned, started_at=planned)
    for seconds, actions in ((0, 0), (540, 0), (600, 1)):
        assert len(decide(world, NOW + timedelta(seconds=seconds)).actions) == actions
