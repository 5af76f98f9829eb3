"""What the operator may not do: said in the status, tried again, and nothing is done blindly."""

import asyncio
from datetime import timedelta

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.runs import RunState
from icdc_operator.cluster.kube import api_errors
from icdc_operator.cluster.runs.memory import DENIAL_SECONDS
from icdc_operator.core import decide
from icdc_operator.core.observed import Decision, StopRun
from icdc_testing.operator.adapter.fakes.api import make_fault, refuse
from icdc_testing.operator.adapter.fakes.world import APPLICATION, POD, FakeWorld
from icdc_testing.operator.adapter.objects import RUN, make_application, make_pod, make_running
from icdc_testing.operator.deciding.pipelines import run_record

pytestmark = pytest.mark.unit

NO = refuse(403, 'User "u" cannot do resource "things"')
SUBMITTED = run_record(state=RunState.SUBMITTED, started_at=None)


def list_conditions(decision: Decision) -> dict[str, tuple[str, str]]:
    return {
        condition.type.value: (condition.status.value, condition.reason)
        for condition in decision.status.conditions
    }


@pytest.mark.parametrize("kind", ["sparkapplications", "pods"])
def test_runs_that_may_not_be_looked_at_are_left_alone(kind: str) -> None:
    world = FakeWorld(run=SUBMITTED)
    world.server.add(APPLICATION, make_application("FAILED", "driver pod not found"))
    world.server.fault = make_fault("GET", kind, NO)
    for _ in range(2):
        decision = world.step()
        assert decision.actions == ()
        assert decision.status.current_run == SUBMITTED
        assert decision.requeue_after == decide.DENIED_SECONDS
    conditions = list_conditions(decision)
    assert conditions["Stalled"] == ("True", "Denied")
    assert conditions["Ready"] == ("False", "Denied")
    assert conditions["Reconciling"] == ("False", "Stalled")
    world.server.fault = lambda method, path: None
    assert world.step().status.last_run is not None
    assert not world.observe().observed.blind


def test_a_run_that_may_not_be_ended_is_told_of_until_it_is_ended() -> None:
    world = FakeWorld(run=SUBMITTED)
    world.server.add(POD, make_pod("Running", state=make_running()))
    world.server.fault = make_fault("DELETE", "pods", NO)
    stop = StopRun(RUN, graceful=True)
    for _ in range(2):
        with pytest.raises(api_errors.Denied):
            world.act(stop)
        assert (
            list_conditions(decide.decide(world.observe().observed, world.now))["Stalled"][0]
            == "True"
        )
    world.server.fault = lambda method, path: None
    world.act(stop)
    assert world.observe().observed.denied is None


def test_what_nobody_asks_for_any_more_is_not_told_of_for_ever() -> None:
    world = FakeWorld(run=SUBMITTED)
    world.server.add(POD, make_pod("Running", state=make_running()))
    world.server.fault = make_fault("DELETE", "pods", NO)
    with pytest.raises(api_errors.Denied):
        world.act(StopRun(RUN, graceful=True))
    world.now += timedelta(seconds=DENIAL_SECONDS)
    assert world.observe().observed.denied is not None
    world.now += timedelta(seconds=1)
    assert world.observe().observed.denied is None


def test_a_status_that_may_not_be_written_is_an_error_of_the_look() -> None:
    world = FakeWorld(run=None)
    world.server.fault = make_fault("PATCH", "status", NO)
    with pytest.raises(api_errors.Denied):
        world.step()
    assert asyncio.run(world.adapter.observe("default", "shop")) is not None
    assert not world.observe().observed.status.holds(ConditionType.STALLED)
