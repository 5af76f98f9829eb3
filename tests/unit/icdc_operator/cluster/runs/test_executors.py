"""Why a run that waits for executors has none, from the pods of these."""

from datetime import timedelta

import pytest

from icdc_api import naming
from icdc_api.errors import FailureClass, IcdcError, NodeLost, TargetUnavailable
from icdc_api.status.conditions import ConditionType
from icdc_api.status.runs import Failure
from icdc_operator.cluster.kube import kinds
from icdc_operator.core.observed import StopRun
from icdc_testing.operator.adapter.fakes.world import APPLICATION, PIPELINE, POD, FakeWorld
from icdc_testing.operator.adapter.objects import (
    NOW,
    RUN,
    Resource,
    build_only_run,
    go_back,
    make_application,
    make_condition,
    make_metadata,
    make_pod,
    make_running,
    make_termination,
    make_waiting,
)
from icdc_testing.operator.deciding.pipelines import make_report, run_record

pytestmark = pytest.mark.unit

FULL = make_condition("PodScheduled", "False", "Unschedulable", "1 Insufficient cpu")
FULL["startTime"] = None


def make_executor(phase: str, number: int = 1, **pod: Resource) -> Resource:
    """Return the pod of an executor of the run; `pod` may have its `state` and `status`."""
    # As a kubelet writes it once the pod is on its node.
    status = {"phase": phase, "startTime": go_back(40), **pod.get("status", {})}
    if "state" in pod:
        container = {"name": "spark-kubernetes-executor", "state": pod["state"]}
        status["containerStatuses"] = [container]
    metadata = make_metadata(f"{RUN}-exec-{number}")
    metadata["labels"]["spark-role"] = "executor"
    return {"kind": "Pod", "metadata": metadata, "spec": {"restartPolicy": "Never"}} | {
        "status": status
    }


def make_world(*executors: Resource, waits: float | None = 40, planned: float = 50) -> FakeWorld:
    """Return a pipeline whose run was planned so many seconds ago, and waits so long by now."""
    started = NOW - timedelta(seconds=planned)
    world = FakeWorld(run=run_record(planned_at=started, started_at=started))
    since = None if waits is None else NOW - timedelta(seconds=waits)
    report = make_report(without_executors_since=since)
    world.server.add(APPLICATION, make_application("RUNNING"))
    world.server.add(POD, make_pod("Running", state=make_running(), report=report))
    for pod in executors:
        path = kinds.POD.build_path("default", pod["metadata"]["name"])
        world.server.add(path, pod)
    return world


CASES: dict[str, tuple[list[Resource], FailureClass, str, str]] = {
    "no room": (
        [make_executor("Pending", status=FULL)],
        FailureClass.UNSCHEDULABLE,
        "Unschedulable",
        f"pod/{RUN}-exec-1: Unschedulable: 1 Insufficient cpu",
    ),
    "no image": (
        [make_executor("Pending", state=make_waiting("ImagePullBackOff", "not found"))],
        FailureClass.IMAGE_PULL,
        "ImagePullBackOff",
        "not found; see spec.spark.image (the pod has no image pull Secret: chart value "
        "spark.image.pullSecrets)",
    ),
    "no Secret, as another starts": (
        [
            make_executor("Running", state=make_running()),
            make_executor("Pending", 2, state=make_waiting("CreateContainerConfigError", "no key")),
        ],
        FailureClass.BAD_SPEC,
        "CreateContainerConfigError",
        "no key",
    ),
    "no way to the driver": (
        [make_executor("Running", state=make_running())],
        FailureClass.START_TIMEOUT,
        "ExecutorsNotRegistered",
        "do not reach the driver",
    ),
    "about to start": (
        [
            make_executor(
                "Pending",
                state=make_waiting("ContainerCreating"),
                status={"startTime": go_back(5)},
            )
        ],
        FailureClass.START_TIMEOUT,
        "StartTimeout",
        "their pods are being started",
    ),
    "a large image": (
        [make_executor("Pending", state=make_waiting("ContainerCreating"))],
        FailureClass.START_TIMEOUT,
        "ContainerCreating",
        "its image is still being pulled",
    ),
    "ended": (
        [make_executor("Failed", state=make_termination(137, "OOMKilled"))],
        FailureClass.START_TIMEOUT,
        "ExecutorsMissing",
        "end before they reach the driver (OOMKilled, code 137)",
    ),
    "ended, as the next one starts": (
        [
            make_executor("Failed", state=make_termination(1)),
            make_executor("Running", 2, state=make_running()),
        ],
        FailureClass.START_TIMEOUT,
        "ExecutorsMissing",
        "end before they reach the driver (Error, code 1)",
    ),
    "no pod": ([], FailureClass.START_TIMEOUT, "ExecutorsMissing", "such as for a ResourceQuota"),
    "of another run": (
        [
            make_executor("Pending", status=FULL)
            | {
                "metadata": {
                    "name": "other-exec-1",
                    "labels": {naming.LABEL_RUN: "shop-e2-1", "spark-role": "executor"},
                }
            }
        ],
        FailureClass.START_TIMEOUT,
        "ExecutorsMissing",
        "no pod of one",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_that_waits_for_executors_says_why_there_is_none(
    case: tuple[list[Resource], FailureClass, str, str],
) -> None:
    executors, failure_class, reason, text = case
    world = make_world(*executors)
    failure = world.run().failure
    assert failure is not None
    assert (failure.failure_class, failure.reason, failure.retryable) == (
        failure_class,
        reason,
        True,
    )
    assert "the run waits for executors" in failure.message
    assert text in failure.message
    step = world.step()
    assert step.actions == ()
    active = step.status.find_condition(ConditionType.RUN_ACTIVE)
    assert active is not None
    assert text in active.message


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull"])
def test_an_image_that_no_registry_was_asked_for_is_told_without_the_pull_secrets(
    reason: str,
) -> None:
    failure = make_world(make_executor("Pending", state=make_waiting(reason, "no"))).run().failure
    assert failure is not None
    assert f"{reason}: no; see spec.spark.image" in failure.message
    assert "pull Secret" not in failure.message


def test_the_pods_of_executors_are_not_read_while_nothing_waits_for_them() -> None:
    world = make_world(make_executor("Pending", status=FULL), waits=None)
    assert world.run().failure is None
    paths = [path for method, path in world.server.requests if method == "GET"]
    assert len([path for path in paths if path.endswith("/pods")]) == 1


def test_what_is_wrong_with_the_driver_comes_first() -> None:
    world = make_world(make_executor("Pending", status=FULL))
    pod = world.server.objects[POD]
    pod["metadata"]["deletionTimestamp"] = go_back(600)
    failure = world.run().failure
    assert failure is not None
    assert failure.reason == "NodeNotResponding"


@pytest.mark.parametrize(
    ("waits", "planned", "ends"),
    [(590, 3600, False), (610, 3600, True), (3000, 500, False)],
    ids=["in time", "too long", "by a clock that is behind"],
)
def test_a_run_that_gets_no_executor_in_time_ends_as_its_cause_and_is_tried_again(
    waits: float, planned: float, ends: bool
) -> None:
    world = make_world(make_executor("Pending", status=FULL), waits=waits, planned=planned)
    step = world.step()
    stops = [action for action in step.actions if isinstance(action, StopRun)]
    assert stops == ([StopRun(RUN, graceful=False)] if ends else [])
    run = step.status.current_run
    assert run is not None
    failure = run.failure
    assert (failure is not None) == ends
    if failure is not None:
        assert (failure.failure_class, failure.retryable) == (FailureClass.UNSCHEDULABLE, True)


@pytest.mark.parametrize("waits", [None, 40])
def test_a_run_without_executors_ends_at_once_where_the_spec_is_changed(
    waits: float | None,
) -> None:
    """The change may be the mend, and its batch, which a run is given time for, would not end."""
    world = make_world(waits=waits)
    world.server.objects[PIPELINE]["metadata"]["generation"] = 2
    assert world.step().actions == (StopRun(RUN, graceful=waits is None),)


def test_a_run_without_executors_does_not_end_the_failures_before_it() -> None:
    """Else each attempt would begin the growing delays anew, and Stalled would never come."""
    for waits, left in [(None, 0), (100, 3)]:
        world = make_world(waits=waits, planned=3600)
        pipeline = world.server.objects[PIPELINE]
        pipeline["status"]["consecutiveFailures"] = 3
        assert world.step().status.consecutive_failures == left


JVM_ENDED = NodeLost("the JVM of the driver has ended")
ENDS = make_termination(1)


@pytest.mark.parametrize(
    ("error", "waits", "state", "reason"),
    [
        (JVM_ENDED, 12, ENDS, "ExecutorsMissing"),
        (JVM_ENDED, None, ENDS, "NodeLost"),
        (TargetUnavailable("no answer"), 12, ENDS, "TargetUnavailable"),
        (JVM_ENDED, 12, make_termination(137, "OOMKilled"), "OOMKilled"),
        (JVM_ENDED, 12, make_termination(143), "SIGTERM"),
    ],
    ids=["as they start", "amid the work", "another failure", "no memory", "drained"],
)
def test_a_run_that_spark_ended_for_want_of_executors_is_no_lost_node(
    error: IcdcError, waits: float | None, state: Resource, reason: str
) -> None:
    """A lost node is tried again at once and for ever, and nobody is told."""
    since = None if waits is None else NOW - timedelta(seconds=waits)
    outcome = Failure.of(error)
    report = make_report(finished=True, outcome=outcome, without_executors_since=since)
    pod = make_pod("Failed", state=state, report=report)
    run = build_only_run(make_application("FAILED"), pod)
    assert run.report is not None
    assert run.report.outcome is not None
    assert run.report.outcome.reason == reason
