"""What the adapter sees and does of a deletion; whole lives are in tests/api/process."""

import asyncio
from typing import Any

import pytest

from icdc_api import naming
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.core.observed import Action, AddFinalizer, RemoveFinalizer
from icdc_testing.operator.adapter.fakes.api import FakeAnswer, make_fault, refuse
from icdc_testing.operator.adapter.fakes.world import PIPELINE, FakeWorld
from icdc_testing.operator.adapter.objects import go_back, make_application

pytestmark = pytest.mark.unit

OTHERS = "somebody.else/keeps-it"
ENDING = "unable to create new content in namespace x because it is being terminated"


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld(run=None)


def get_metadata(world: FakeWorld) -> dict[str, Any]:
    metadata_of_pipeline: dict[str, Any] = world.server.objects[PIPELINE]["metadata"]
    return metadata_of_pipeline


def delete(world: FakeWorld) -> None:
    get_metadata(world)["deletionTimestamp"] = go_back(1)


def test_only_our_finalizer_comes_and_goes(world: FakeWorld) -> None:
    get_metadata(world)["finalizers"] = [OTHERS]
    steps: list[tuple[Action, list[str]]] = [
        (AddFinalizer(), [OTHERS, naming.FINALIZER]),
        (AddFinalizer(), [OTHERS, naming.FINALIZER]),
        (RemoveFinalizer("for a test"), [OTHERS]),
        (RemoveFinalizer("for a test"), [OTHERS]),
    ]
    for action, expected in steps:
        asyncio.run(world.adapter.act(world.observe(), action))
        assert get_metadata(world)["finalizers"] == expected
    seen = world.observe()
    get_metadata(world)["resourceVersion"] = "99"
    with pytest.raises(api_errors.Conflict):
        asyncio.run(world.adapter.act(seen, AddFinalizer()))
    del world.server.objects[PIPELINE]
    asyncio.run(world.adapter.act(seen, RemoveFinalizer("it is gone")))


@pytest.mark.parametrize(("value", "asked"), [("true", True), ("false", False), ("", False)])
def test_the_annotation_says_true(value: str, asked: bool, world: FakeWorld) -> None:
    get_metadata(world)["annotations"] = {naming.ANNOTATION_RETAIN: value}
    assert world.observe().observed.retain_asked is asked


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        (None, False),
        (refuse(403, ENDING), True),
        (refuse(403, "no right to do that"), False),
        (refuse(404, "namespaces not found"), False),
        (refuse(500, "a webhook does not answer"), False),
    ],
)
def test_a_namespace_that_ends_is_known_before_a_run_is_tried(
    answer: FakeAnswer | None, ends: bool, world: FakeWorld
) -> None:
    delete(world)
    if answer is not None:
        world.server.fault = make_fault("POST", "configmaps", answer)
    assert not world.observe().observed.namespace_ends, "nothing is asked without our finalizer"
    get_metadata(world)["finalizers"] = [naming.FINALIZER]
    observed = world.observe().observed
    assert (observed.finalizer, observed.namespace_ends) == (True, ends)
    assert not [path for path in world.server.objects if "configmaps" in path]


@pytest.mark.parametrize(
    ("name", "ours"), [("shop-d1-1", True), ("shop-e1-1", False), ("shop-x-d1-1", False)]
)
def test_a_run_that_nobody_owns_is_ours_if_it_deletes(
    name: str, ours: bool, world: FakeWorld
) -> None:
    made = make_application("RUNNING", ownerReferences=[])
    made["metadata"]["name"] = name
    made["metadata"]["annotations"][f"{naming.LABEL_PREFIX}run-id"] = f"{name}.1000"
    world.server.add(kinds.APPLICATION.build_path("default", name), made)
    assert [run.name for run in world.observe().observed.runs] == ([name] if ours else [])
