"""The reconcile core when an adapter knows what holds a live run up, before a time-out says so."""

from dataclasses import replace
from datetime import timedelta

import pytest

from icdc_api import errors
from icdc_api.errors import FailureClass
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.runs import Failure, RunState
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import Decision, RunPhase, StopRun
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_active,
    make_caught_up,
    make_report,
    make_seen,
    make_spec,
)

pytestmark = pytest.mark.unit

IMAGE = errors.ImagePull("pod/x: ErrImagePull; see spec.spark.image")
SECRET = errors.BadSpec("pod/x: CreateContainerConfigError: no Secret y")
ROOM = errors.Unschedulable("pod/x: no node has room")
NODE = errors.NodeLost("pod/x was asked to end; its node does not answer")
SILENT = errors.NodeLost("pod/x: its node does not answer")


def decide_about(error: errors.IcdcError, *, waited: float, reports: bool = False) -> Decision:
    """Return the decision about a run that was planned so many seconds ago and is held up."""
    run = make_seen(
        RunPhase.RUNNING if reports else RunPhase.PENDING,
        failure=Failure.of(error),
        report=make_report(make_caught_up()) if reports else None,
        given_up=error is NODE,
    )
    planned = NOW - timedelta(seconds=waited)
    return decide(make_active(make_spec(), run, planned_at=planned, started_at=None), NOW)


@pytest.mark.parametrize(
    ("error", "waited", "ends"),
    [
        (IMAGE, 60.0, False),
        (IMAGE, 121.0, True),
        (SECRET, 60.0, False),
        (SECRET, 121.0, True),
        (ROOM, 121.0, False),
        (ROOM, 601.0, True),
        (NODE, 1.0, True),
        (SILENT, 121.0, False),
    ],
)
def test_what_will_not_start_is_ended_when_waiting_is_of_no_use(
    error: errors.IcdcError, waited: float, ends: bool
) -> None:
    decision = decide_about(error, waited=waited)

    run = decision.status.current_run
    assert run is not None
    if ends:
        assert decision.actions == (StopRun(run.name, graceful=False),)
        assert (run.state, run.failure) == (RunState.STOPPING, Failure.of(error))
    else:
        assert decision.actions == ()
        assert (run.state, run.failure) == (RunState.SUBMITTED, None)


@pytest.mark.parametrize(
    ("error", "ends"), [(IMAGE, False), (SECRET, False), (NODE, True), (SILENT, False)]
)
def test_a_run_that_reports_is_ended_only_with_its_node(
    error: errors.IcdcError, ends: bool
) -> None:
    assert bool(decide_about(error, waited=3600.0, reports=True).actions) is ends


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (SILENT, ConditionStatus.UNKNOWN, SILENT.message),
        (NODE, ConditionStatus.UNKNOWN, NODE.message),
        (ROOM, ConditionStatus.TRUE, ""),
    ],
)
def test_tables_of_which_nothing_is_heard_are_not_said_to_be_caught_up(
    error: errors.IcdcError, status: ConditionStatus, message: str
) -> None:
    decision = decide_about(error, waited=3600.0, reports=True)
    caught_up = decision.status.find_condition(ConditionType.CAUGHT_UP)
    assert caught_up is not None
    assert caught_up.status is status
    assert caught_up.message.endswith(message)


def test_the_conditions_say_meanwhile_what_is_waited_for() -> None:
    status = decide_about(ROOM, waited=60.0).status

    for kind in (ConditionType.RUN_ACTIVE, ConditionType.READY, ConditionType.RECONCILING):
        condition = status.find_condition(kind)
        assert condition is not None
        assert condition.message.endswith(": pod/x: no node has room")
    assert not status.holds(ConditionType.STALLED)


def test_a_run_that_was_ended_for_its_image_fails_with_that_reason() -> None:
    asked = decide_about(IMAGE, waited=121.0).status
    missing = make_active(make_spec(), make_seen(RunPhase.MISSING))
    ended = decide(replace(missing, status=asked), NOW).status

    assert ended.last_run is not None
    assert ended.last_run.failure is not None
    assert ended.last_run.failure.failure_class == FailureClass.IMAGE_PULL
