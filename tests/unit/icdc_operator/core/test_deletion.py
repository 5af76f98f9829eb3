"""A pipeline whose indices are deleted with it, one decision after the other."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from icdc_api import errors
from icdc_api.spec.pipeline import DeletionPolicy
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import Phase
from icdc_api.status.runs import Failure, RunKind
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import (
    AddFinalizer,
    CreateRun,
    ForgetRun,
    RemoveFinalizer,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_testing.operator.deciding.pipelines import NOW, make_observed, make_spec

from .deleted_pipeline import DeletedWorld

pytestmark = pytest.mark.unit

PASSING = Failure.of(errors.TargetUnavailable("OpenSearch cannot be reached"))
REFUSED = Failure.of(errors.Unauthorized("the credentials are not accepted"))
BROKEN = Failure.of(errors.StateCorrupt("the state document cannot be trusted"))


def run_until_following() -> DeletedWorld:
    """Return a pipeline whose first run is at work."""
    world = DeletedWorld()
    while world.find_live_run() is None:
        world.step()
    return world


def run_until_deleting() -> DeletedWorld:
    """Return a pipeline whose deletion run is at work."""
    world = run_until_following()
    world.delete()
    while world.find_live_run() != "shop-d2-1":
        world.step()
    return world


def test_the_finalizer_comes_before_the_first_run() -> None:
    refused = DeletedWorld()
    for _ in range(3):
        assert refused.step(cut_off=0).actions == (AddFinalizer(),)
    assert refused.get_reason(ConditionType.RECONCILING) == "AddingFinalizer"
    world = run_until_following()
    assert world.get_reason(ConditionType.RECONCILING) == "Exporting"
    kinds = [type(action) for action in world.done]
    assert kinds == [AddFinalizer, CreateRun]


def test_only_the_policy_brings_a_finalizer() -> None:
    world = DeletedWorld(deletionPolicy="Retain")
    while world.find_live_run() is None:
        world.step()
    assert [type(action) for action in world.done] == [CreateRun]
    world.edit(deletion_policy=DeletionPolicy.DELETE_INDICES)
    assert AddFinalizer() in world.step().actions
    world.edit(deletion_policy=DeletionPolicy.RETAIN)
    assert [action for action in world.step().actions if isinstance(action, RemoveFinalizer)]
    # Where there are no finalizers, as on one host, nothing of the kind is ever asked for.
    local = replace(make_observed(make_spec(deletionPolicy="DeleteIndices")), finalizer=None)
    assert decide(local, NOW).actions == ()


def test_the_live_run_ends_then_the_indices_go_then_the_pipeline() -> None:
    world = run_until_following()
    world.delete()
    assert world.step().actions == (StopRun("shop-e1-1", graceful=True),)
    assert (world.get_reason(), world.status.phase) == ("Deleting", Phase.DELETING)
    assert world.step().status.current_run is not None
    (create,) = world.step().actions
    assert isinstance(create, CreateRun)
    assert (create.run.kind, create.run.name) == (RunKind.DELETION, "shop-d2-1")
    assert not create.continuous
    world.end()
    actions = world.step().actions
    assert actions[0] == ForgetRun("shop-d2-1"), "nobody owns it"
    assert isinstance(actions[1], RemoveFinalizer)
    assert world.missing
    last = world.recorded[-1]
    assert (last.reason, last.warning) == ("IndicesDeleted", False)
    assert last.message == "shop.orders: deleted shop.orders-1"


def test_a_run_that_still_writes_is_waited_for_although_the_indices_are_deleted() -> None:
    world = run_until_deleting()
    world.end()
    late = RunSeen("shop-e1-1", 1, RunPhase.RUNNING, writer_alive=True)
    world.seen = replace(world.seen, runs=(*world.seen.runs, late))
    for _ in range(2):
        # The operator dies before it can stop the run that was thought to have ended.
        actions = world.step(cut_off=0).actions
        assert actions[0] == StopRun("shop-e1-1", graceful=False)
        assert not [action for action in actions if isinstance(action, RemoveFinalizer)]
    world.step()
    world.step()
    assert world.missing
    assert world.recorded[-1].reason == "IndicesDeleted"


def test_a_suspended_or_continuous_pipeline_is_deleted_like_any_other() -> None:
    world = DeletedWorld(suspend=True, changelog={"trigger": "Continuous"})
    world.step()
    world.delete()
    for _ in range(2):
        (*_, last) = world.step().actions or (None,)
    assert isinstance(last, CreateRun)
    assert (last.run.kind, last.continuous) == (RunKind.DELETION, False)
    world.step()
    assert world.find_live_run() == "shop-d1-1"
    # Its run does not end for the suspend, and nobody has resumed it.
    assert world.get_reason(ConditionType.SUSPENDED) == "Suspended"
    assert "Resumed" not in {event.reason for event in world.recorded}


@pytest.mark.parametrize(
    ("failure", "stalled"), [(PASSING, False), (REFUSED, True), (BROKEN, True)]
)
def test_a_deletion_that_fails_is_tried_until_the_time_is_up(
    failure: Failure, stalled: bool
) -> None:
    world = run_until_deleting()
    for attempt in itertools.count(2):
        world.end(failure)
        decision = world.step()
        if world.missing:
            break
        if attempt == 2:
            assert world.status.holds(ConditionType.STALLED) == stalled
            assert "retain-indices=true" in world.get_message()
            assert failure.message in world.get_message()
        wait = decision.requeue_after
        assert wait is not None
        assert wait <= 660.0, "it goes on, at maxSeconds"
        world.step(seconds=wait)
        if world.missing:
            break
        world.step()
        assert world.find_live_run() == f"shop-d2-{attempt}"
        assert attempt < 40
    assert world.seen.deleting_since is not None
    late = (world.now - world.seen.deleting_since).total_seconds()
    assert 3600 <= late < 3620
    last = world.recorded[-1]
    assert (last.reason, last.warning) == ("IndicesRetained", True)
    assert "shop.orders" in last.message
    assert "deleteSeconds" in last.message


def _edit(world: DeletedWorld) -> None:
    world.edit(deletion_policy=DeletionPolicy.RETAIN)


def _annotate(world: DeletedWorld) -> None:
    world.seen = replace(world.seen, retain_asked=True)


def _wait(world: DeletedWorld) -> None:
    world.now += timedelta(seconds=3600)


def _end_namespace(world: DeletedWorld) -> None:
    world.seen = replace(world.seen, namespace_ends=True)


@pytest.mark.parametrize("way", [_edit, _annotate, _wait, _end_namespace])
@pytest.mark.parametrize("made", [run_until_deleting, run_until_following])
def test_every_way_out_lets_go_at_once_and_leaves_nothing_of_a_deletion_run(
    way: Callable[[DeletedWorld], None], made: Callable[[], DeletedWorld]
) -> None:
    world = made()
    if world.seen.deleting_since is None:
        world.delete()
    way(world)
    world.step()
    assert world.missing
    assert not [run for run in world.seen.runs if run.live and "-d" in run.name]
    if made is run_until_deleting:
        assert StopRun("shop-d2-1", graceful=False) in world.done
        assert ForgetRun("shop-d2-1") in world.done
    assert world.recorded[-1].reason == "IndicesRetained"


@pytest.mark.parametrize("corrected", [True, False])
def test_a_wrong_spec_says_what_to_do_and_holds_nothing_for_ever(corrected: bool) -> None:
    world = run_until_following()
    spec = world.seen.spec
    world.seen = replace(world.seen, spec=None, problem="spec.tables: wrong", generation=2)
    world.step()
    world.delete()
    world.step()
    world.step()
    assert world.find_live_run() is None
    assert world.status.holds(ConditionType.STALLED)
    assert "spec.tables: wrong" in world.get_message()
    assert "retain-indices=true" in world.get_message()
    if corrected:
        world.seen = replace(world.seen, spec=spec, problem=None, generation=9)
        world.step()
        world.step()
        assert world.find_live_run() == "shop-d2-1"
    else:
        wait = world.step().requeue_after
        assert wait is not None
        assert wait > 3000
        world.step(seconds=wait)
        assert world.missing


def test_a_deletion_run_is_replaced_when_the_spec_changes_and_is_not_taken_for_done() -> None:
    world = run_until_deleting()
    world.edit(suspend=True)
    (stop,) = world.step(cut_off=0).actions
    assert stop == StopRun("shop-d2-1", graceful=True)
    # Its node is gone before it said what it did.
    (run,) = [run for run in world.seen.runs if run.live]
    world.seen = replace(
        world.seen, runs=(replace(run, phase=RunPhase.MISSING, writer_alive=False),)
    )
    world.step()
    world.step()
    assert not world.missing
    assert world.find_live_run() == "shop-d3-1"


@pytest.mark.parametrize("cut_off", [0, 1])
def test_an_operator_that_dies_between_any_two_steps_ends_the_same_way(cut_off: int) -> None:
    steps = 0
    for death in range(30):
        world = DeletedWorld()
        for number in itertools.count():
            assert number < 60
            world.step(cut_off=cut_off if number == death else None)
            if world.find_live_run() == "shop-e1-1" and world.seen.deleting_since is None:
                world.delete()
            elif world.find_live_run() == "shop-d2-1":
                world.end()
            if world.missing:
                break
        steps = max(steps, number)
        made = {action.run.name for action in world.done if isinstance(action, CreateRun)}
        assert made == {"shop-e1-1", "shop-d2-1"}
        assert not [run for run in world.seen.runs if "-d" in run.name]
        assert world.recorded[-1].reason == "IndicesDeleted"
    assert 5 < steps < 30, "every step was cut off once"
