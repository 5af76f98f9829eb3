"""The adapter's looks and deletions in rare situations; whole lives are in tests/api/adapter."""

import asyncio
import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from icdc_api.job.run_files import RunReport
from icdc_api.json_size import measure_stored
from icdc_api.status.runs import RunState
from icdc_operator.cluster.kube import api_errors
from icdc_operator.cluster.runs.resource import MAX_OBJECT_BYTES
from icdc_operator.core.observed import RunPhase, StopRun
from icdc_testing.kube.stored_pipelines import Resource, make_minimal
from icdc_testing.operator.adapter.fakes.api import make_fault, refuse
from icdc_testing.operator.adapter.fakes.world import (
    APPLICATION,
    CREATE,
    PIPELINE,
    PLANNED,
    POD,
    FakeWorld,
)
from icdc_testing.operator.adapter.objects import (
    EPOCH,
    NODE_SILENT,
    NOW,
    RUN,
    RUN_ID,
    go_back,
    make_application,
    make_pod,
    make_running,
    make_termination,
)
from icdc_testing.operator.deciding.pipelines import run_record
from icdc_testing.operator.deciding.worst_cases import make_many_tables

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


def test_a_cluster_without_spark_operator_can_be_looked_at(world: FakeWorld) -> None:
    world.server.fault = make_fault("GET", "sparkapplications", refuse(404, "not found"))
    assert not world.observe().observed.runs


def test_a_pod_is_read_after_its_application(world: FakeWorld) -> None:
    world.observe()
    kinds_asked = [path.rpartition("/")[2] for _, path in world.server.requests]
    assert kinds_asked == ["shop", "sparkapplications", "pods"]


def test_a_pipeline_that_is_gone_is_none(world: FakeWorld) -> None:
    del world.server.objects[PIPELINE]
    assert asyncio.run(world.adapter.observe("default", "shop")) is None


def test_a_pipeline_that_is_being_deleted_starts_nothing() -> None:
    world = FakeWorld(run=None)
    world.server.objects[PIPELINE]["metadata"]["deletionTimestamp"] = go_back(1)
    assert world.observe().observed.closing
    assert world.step().status.current_run is None


def _finish() -> RunReport:
    return RunReport(run_id=RUN_ID, started_at=NOW, updated_at=NOW, finished=True)


LAST_WORDS = [
    # What a watch tells last of a pod that was deleted, and of one that ended before.
    make_pod("Running", state=make_running(), deletionTimestamp=go_back(1), report=_finish()),
    make_pod("Succeeded", state=make_termination(0), report=_finish()),
]


@pytest.mark.parametrize("pod", LAST_WORDS)
def test_last_words_that_a_watch_heard_are_not_lost(pod: Resource) -> None:
    world = FakeWorld(run=run_record())
    world.server.add(APPLICATION, make_application("FAILED", "driver pod not found"))
    assert world.run().phase == RunPhase.MISSING
    world.adapter.note_driver_pod(pod)
    assert (world.run().phase, world.run().report) == (RunPhase.SUCCEEDED, _finish())
    # Words of a run that is over are forgotten.
    last = world.step().status.last_run
    assert last is not None
    assert last.state == RunState.SUCCEEDED
    world.step()
    assert world.run().phase == RunPhase.MISSING


def test_last_words_of_an_older_run_do_not_replace_those_of_a_newer() -> None:
    world = FakeWorld(run=run_record())
    world.server.add(APPLICATION, make_application("RUNNING"))
    world.adapter.note_driver_pod(LAST_WORDS[1])
    world.adapter.note_driver_pod(make_pod("Failed", state=make_termination(1), epoch=EPOCH - 1))
    assert world.run().phase == RunPhase.SUCCEEDED


@pytest.mark.parametrize(
    ("graceful", "metadata", "late", "expected"),
    [
        (True, {}, 0, [None]),
        (False, {}, 0, [1]),
        (True, {"deletionTimestamp": go_back(-100), "deletionGracePeriodSeconds": 120}, 0, []),
        (False, {"deletionTimestamp": go_back(-100), "deletionGracePeriodSeconds": 120}, 0, [1]),
        (False, {"deletionTimestamp": go_back(-1), "deletionGracePeriodSeconds": 1}, 0, []),
        # Its node does not answer: without force the pod would be there for ever.
        (True, {"deletionTimestamp": go_back(0), "deletionGracePeriodSeconds": 120}, 61, [0]),
        (False, {"deletionTimestamp": go_back(0), "deletionGracePeriodSeconds": 1}, 61, [0]),
    ],
)
def test_a_driver_is_given_the_time_that_is_due(
    graceful: bool, metadata: Resource, late: float, expected: list[int | None]
) -> None:
    world = FakeWorld(run=run_record())
    world.now += timedelta(seconds=late)
    world.server.add(POD, make_pod("Running", state=make_running(), **metadata))
    world.act(StopRun(RUN, graceful))
    assert [options.get("gracePeriodSeconds") for _, options in world.server.deletions] == expected


def test_a_driver_whose_node_does_not_answer_is_given_no_time_once_it_was_evicted() -> None:
    world = FakeWorld(run=run_record())
    evicted: Resource = {
        "deletionTimestamp": go_back(-120),
        "deletionGracePeriodSeconds": 120,
    }
    world.server.add(POD, make_pod("Running", state=make_running(), status=NODE_SILENT, **evicted))
    world.act(StopRun(RUN, graceful=False))
    assert [options.get("gracePeriodSeconds") for _, options in world.server.deletions] == [0]


def test_a_wrong_spec_is_said_in_one_line_and_nothing_is_planned() -> None:
    world = FakeWorld(run=None)
    spec = {**make_minimal()["spec"], "tables": [], "mode": "Sometimes"}
    world.put_pipeline(spec=spec)
    observed = world.observe().observed
    assert observed.spec is None
    assert observed.problem is not None
    assert observed.problem.startswith("spec.mode: 'Sometimes' is not allowed")
    assert "\n" not in observed.problem
    assert world.step().status.current_run is None


def test_the_status_has_the_room_that_spec_and_metadata_leave_of_the_object(
    world: FakeWorld,
) -> None:
    pipeline = world.server.objects[PIPELINE]
    room = world.observe().observed.status_room
    assert room == MAX_OBJECT_BYTES - measure_stored({**pipeline, "status": None}) + len(
        ',"status":null'
    )
    # As client-side apply stores it; nobody but the API server limits it.
    pipeline["metadata"]["annotations"] = {"last-applied": "x" * 200_000}
    assert 0 < room - 200_000 - (world.observe().observed.status_room or 0) < 100


def test_a_spec_whose_status_may_not_fit_beside_it_is_refused() -> None:
    world = FakeWorld(run=None)
    world.put_pipeline(spec=make_many_tables()["spec"])
    assert world.observe().observed.spec is not None
    # Two that apply the spec on the server's side are in there twice.
    world.server.objects[PIPELINE]["metadata"]["managedFields"] = [{"fieldsV1": "x" * 1_000_000}]
    observed = world.observe().observed
    assert observed.spec is None
    assert observed.problem is not None
    assert re.fullmatch(
        r"spec\.tables: the status of 500 tables may need 6\d{5} bytes, and spec and "
        r"metadata leave 4\d{5} of 1500000: use fewer tables in one pipeline, or "
        r"shorter lists of columns and mappings",
        observed.problem,
    )
    assert world.step().status.current_run is None


DAMAGED = [
    ({"futureField": 1}, True),
    ({"currentRun": {**PLANNED.to_resource(), "futureField": 1}}, True),
    ({"summary": "nonsense"}, True),
    ({"tables": [{"name": 1}]}, True),
    ({"currentRun": {"name": "shop-e1-1"}}, False),
]


@pytest.mark.parametrize(("damage", "retained"), DAMAGED)
def test_a_status_is_read_as_far_as_it_can_be(damage: Resource, retained: bool) -> None:
    world = FakeWorld()
    world.server.objects[PIPELINE]["status"] |= damage
    status = world.observe().observed.status
    assert status.observed_generation == 1
    assert status.current_run == (PLANNED if retained else None)


def test_a_newer_run_of_the_name_is_left_alone_by_an_operator_that_is_behind(
    world: FakeWorld,
) -> None:
    behind = world.observe()
    newer = replace(CREATE, run=PLANNED.model_copy(update={"epoch": 2000, "run_id": "newer"}))
    world.act(newer)
    with pytest.raises(api_errors.Conflict, match="newer run"):
        asyncio.run(world.adapter.act(behind, CREATE))
    assert APPLICATION in world.server.objects


def test_times_are_those_of_the_given_clock(world: FakeWorld) -> None:
    world.server.add(APPLICATION, make_application(creationTimestamp=go_back(0)))
    assert world.run().failure is None
    world.now = _add_five_minutes(world.now)
    failure = world.run().failure
    assert failure is not None
    assert failure.reason == "SparkOperatorNotWatching"


def _add_five_minutes(moment: datetime) -> datetime:
    return moment + timedelta(seconds=300)
