"""The adapter when requests are refused, fail, or lose their answer."""

import asyncio
from datetime import timedelta

import pytest

from icdc_api.errors import FailureClass
from icdc_api.status.conditions import ConditionType
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.fakes.api import FakeAnswer, make_fault, refuse
from icdc_testing.operator.adapter.fakes.world import (
    APPLICATION,
    CONFIG_MAP,
    CREATE,
    PIPELINE,
    FakeWorld,
)
from icdc_testing.operator.adapter.objects import EPOCH, RUN

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


POLICY = "ValidatingAdmissionPolicy 'runs' with binding 'runs' denied request: not now"

REFUSALS = [
    (404, "the server could not find the requested resource", "SparkOperatorMissing", True),
    (403, "forbidden: exceeded quota: runs", "QuotaExceeded", True),
    (403, "sparkapplications is forbidden: User cannot create", "Denied", False),
    (403, 'admission webhook "policy" denied the request', "AdmissionDenied", False),
    (422, POLICY, "AdmissionDenied", False),
    (422, "spec.driver: Invalid value", "Invalid", False),
]


@pytest.mark.parametrize(("code", "text", "reason", "retryable"), REFUSALS)
def test_a_run_that_is_refused_is_seen_to_have_failed(
    world: FakeWorld, code: int, text: str, reason: str, retryable: bool
) -> None:
    world.server.fault = make_fault("POST", "sparkapplications", refuse(code, text))
    world.act(CREATE)
    run = world.run()
    assert (run.name, run.epoch, run.phase) == (RUN, EPOCH, RunPhase.FAILED)
    assert not run.live
    assert run.failure is not None
    assert (run.failure.reason, run.failure.retryable) == (reason, retryable)
    assert text in run.failure.message
    # Nothing of it is left, and the status says why.
    assert set(world.server.objects) == {PIPELINE}
    last = world.step().status.last_run
    assert last is not None
    assert last.failure == run.failure
    # It is over: the next attempt begins without it.
    assert not world.observe().observed.runs


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (403, "User cannot create"),
        (403, 'admission webhook "policy" denied the request: not now'),
        (403, POLICY),
        (422, POLICY),
    ],
)
def test_what_others_refuse_and_may_permit_is_tried_again_and_again(
    world: FakeWorld, code: int, text: str
) -> None:
    world.server.fault = make_fault("POST", "configmaps", refuse(code, text))
    world.act(CREATE)
    failure = world.run().failure
    assert failure is not None
    assert failure.failure_class == FailureClass.AUTH
    assert world.step().requeue_after is not None
    world.now += timedelta(hours=1)
    world.step()
    # The refusal was that of the run before.
    assert world.observe().observed.status.current_run is not None
    assert not world.observe().observed.runs


PASSING: dict[str, FakeAnswer | BaseException] = {
    "throttled": refuse(429, "too many requests", **{"Retry-After": "2"}),
    "broken": refuse(500, "etcdserver: request timed out"),
    "slow": TimeoutError(),
    "reset": ConnectionResetError("reset"),
    "proxy": FakeAnswer(502, b"<html>bad gateway</html>"),
    "login page": FakeAnswer(200, b"<html>login</html>"),
}


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING)
def test_a_run_that_could_not_be_made_for_now_is_made_later(
    world: FakeWorld, trouble: FakeAnswer | BaseException
) -> None:
    world.server.fault = make_fault("POST", "sparkapplications", trouble)
    with pytest.raises(api_errors.Unavailable):
        world.act(CREATE)
    assert not world.observe().observed.runs
    world.server.fault = lambda method, path: None
    world.act(CREATE)
    assert world.run().phase == RunPhase.PENDING


@pytest.mark.parametrize("kind", ["configmaps", "sparkapplications"])
@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING)
def test_a_run_whose_answer_was_lost_is_made_once(
    world: FakeWorld, kind: str, trouble: FakeAnswer | BaseException
) -> None:
    world.server.lost = make_fault("POST", kind, trouble)
    with pytest.raises(api_errors.Unavailable):
        world.act(CREATE)
    world.server.lost = lambda method, path: None
    made = dict(world.server.objects)
    world.act(CREATE)
    assert made.items() <= world.server.objects.items()
    assert set(world.server.objects) == {PIPELINE, CONFIG_MAP, APPLICATION}


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING)
@pytest.mark.parametrize("kind", ["icebergcdcpipelines", "sparkapplications", "pods"])
def test_a_look_that_misses_something_is_none(
    world: FakeWorld, kind: str, trouble: FakeAnswer | BaseException
) -> None:
    world.server.fault = make_fault("GET", kind, trouble)
    with pytest.raises(api_errors.Unavailable):
        world.observe()


def test_an_expired_page_makes_the_list_begin_anew(world: FakeWorld) -> None:
    pages = iter(
        [FakeAnswer(200, {"items": [], "metadata": {"continue": "x"}}), refuse(410, "old")]
    )
    world.server.fault = lambda method, path: next(pages, None)
    listed = asyncio.run(world.server.make_api().list_objects(kinds.PIPELINE, None))
    assert listed == []
    assert len(world.server.requests) == 3


def test_a_list_that_expires_for_ever_is_gone(world: FakeWorld) -> None:
    world.server.fault = make_fault("GET", "icebergcdcpipelines", refuse(410, "old"))
    with pytest.raises(api_errors.Expired):
        asyncio.run(world.server.make_api().list_objects(kinds.PIPELINE, None))


def test_every_request_is_counted(world: FakeWorld) -> None:
    counted: list[tuple[str, str, int | str]] = []
    api = world.server.make_api(lambda *request: counted.append(request))
    asyncio.run(api.get_pipeline("default", "shop"))
    world.server.fault = make_fault("GET", "shop", TimeoutError())
    with pytest.raises(api_errors.Unavailable):
        asyncio.run(api.get_pipeline("default", "shop"))
    plural = kinds.PIPELINE.plural
    assert counted == [("get", plural, 200), ("get", plural, "TimeoutError")]


def test_a_run_that_a_silent_webhook_keeps_from_being_created_says_so_and_fails_in_the_end(
    world: FakeWorld,
) -> None:
    silent = 'Internal error occurred: failed calling webhook "w.test": connection refused'
    world.server.fault = make_fault("POST", "sparkapplications", refuse(500, silent))
    for _ in range(2):
        with pytest.raises(api_errors.Unavailable):
            world.step()
    status = world.observe().observed.status
    active = status.find_condition(ConditionType.RUN_ACTIVE)
    assert active is not None
    assert (active.reason, silent in active.message) == ("Planned", True)
    # As one that does not start: it counts, and backs off.
    world.now += timedelta(seconds=299)
    with pytest.raises(api_errors.Unavailable):
        world.step()
    world.now += timedelta(seconds=299)
    last = world.step().status.last_run
    assert last is not None
    assert last.failure is not None
    assert (last.failure.reason, last.failure.retryable) == ("NotCreated", True)
    assert set(world.server.objects) == {PIPELINE}


def test_a_run_that_could_not_be_created_before_an_outage_is_created_after_it(
    world: FakeWorld,
) -> None:
    world.server.fault = make_fault("POST", "sparkapplications", TimeoutError())
    with pytest.raises(api_errors.Unavailable):
        world.step()
    world.server.fault = lambda method, path: None
    world.now += timedelta(hours=1)
    assert world.step().status.current_run is not None
    assert APPLICATION in world.server.objects
