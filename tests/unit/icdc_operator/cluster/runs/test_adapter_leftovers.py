"""Ends of runs leave nothing behind, also where the API server refuses at the wrong moment."""

import asyncio

import pytest

from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.core.observed import ForgetRun, StopRun
from icdc_testing.operator.adapter.fakes.api import make_fault, refuse
from icdc_testing.operator.adapter.fakes.world import (
    APPLICATION,
    CONFIG_MAP,
    CREATE,
    POD,
    FakeWorld,
)
from icdc_testing.operator.adapter.objects import RUN, make_pod, make_running, make_termination


@pytest.fixture
def world() -> FakeWorld:
    """A pipeline whose run is made, and has no driver yet."""
    made = FakeWorld()
    made.act(CREATE)
    assert {APPLICATION, CONFIG_MAP} <= made.server.objects.keys()
    return made


@pytest.mark.parametrize("graceful", [True, False])
def test_a_run_that_is_stopped_before_it_has_a_driver_leaves_no_config_map(
    world: FakeWorld, graceful: bool
) -> None:
    world.act(StopRun(RUN, graceful=graceful))
    assert not {APPLICATION, CONFIG_MAP} & world.server.objects.keys()


def test_a_driver_that_is_asked_to_end_by_itself_keeps_its_config_map(world: FakeWorld) -> None:
    world.server.add(POD, make_pod("Running", state=make_running(), epoch=CREATE.run.epoch))
    world.act(StopRun(RUN, graceful=True))
    assert {APPLICATION, CONFIG_MAP} <= world.server.objects.keys()


@pytest.mark.parametrize("part", ["configmaps", "sparkapplications"])
def test_what_could_not_be_forgotten_is_forgotten_later(world: FakeWorld, part: str) -> None:
    ended = make_pod("Failed", state=make_termination(1), epoch=CREATE.run.epoch)
    world.server.add(POD, ended)
    world.server.fault = make_fault("DELETE", part, refuse(409, "another request was faster"))
    seen = world.observe()
    with pytest.raises(api_errors.Conflict):
        asyncio.run(world.adapter.act(seen, ForgetRun(RUN)))
    # While its SparkApplication is there, the run is seen, so this is asked for again.
    assert APPLICATION in world.server.objects
    world.server.fault = lambda method, path: None
    asyncio.run(world.adapter.act(seen, ForgetRun(RUN)))
    assert not {APPLICATION, CONFIG_MAP, POD} & world.server.objects.keys()


def test_an_object_that_was_made_anew_is_left_alone(world: FakeWorld) -> None:
    api = world.server.make_api()
    asyncio.run(api.delete(kinds.CONFIG_MAP, "default", RUN, uid="of one before"))
    assert CONFIG_MAP in world.server.objects


def test_a_pod_that_takes_from_others_goes_and_the_record_of_its_run_stays(
    world: FakeWorld,
) -> None:
    ended = make_pod("Running", state=make_termination(0), epoch=CREATE.run.epoch)
    world.server.add(POD, ended)
    asyncio.run(world.adapter.act(world.observe(), ForgetRun(RUN, pods_only=True)))
    assert POD not in world.server.objects
    assert {APPLICATION, CONFIG_MAP} <= world.server.objects.keys()
