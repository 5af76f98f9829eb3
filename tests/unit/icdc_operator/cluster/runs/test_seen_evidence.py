"""Why a run does not start, or ended without a word: the evidence of pods and submissions."""

import pytest

from icdc_api.errors import FailureClass
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.objects import (
    NODE_SILENT,
    Resource,
    build_only_run,
    go_back,
    make_application,
    make_condition,
    make_pod,
    make_running,
    make_termination,
    make_waiting,
)

pytestmark = pytest.mark.unit

STDERR = """25/03/01 12:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library
Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure
\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.assertResponseCode(Op.java:1)
Caused by: org.apache.spark.SparkException: the settings are wrong
Caused by: java.lang.IllegalArgumentException: spark.executor.memory=0g is out of range
\tat org.apache.spark.internal.config.ConfigEntry.readFrom(ConfigEntry.scala:1)
"""


OOM = make_pod("Failed", state=make_termination(137, "OOMKilled"))
DISRUPTED = make_condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "drained")

# What is left of a run without an outcome: its class, its reason, a part of the message.
ENDINGS = [
    (OOM, FailureClass.OUT_OF_MEMORY, "OOMKilled", "spec.spark.driver.memory"),
    (
        make_pod("Failed", status={"reason": "Evicted", "message": "low on memory"}),
        FailureClass.NODE_LOST,
        "Evicted",
        "low on memory",
    ),
    (
        make_pod("Failed", state=make_termination(143), status=DISRUPTED),
        FailureClass.NODE_LOST,
        "EvictionByEvictionAPI",
        "drained",
    ),
    (
        make_pod("Failed", status={"reason": "NodeLost"}),
        FailureClass.NODE_LOST,
        "NodeLost",
        "pod/shop-e1-1-driver: NodeLost",
    ),
    (
        make_pod("Failed", status={"reason": "Preempting", "message": "preempted"}),
        FailureClass.NODE_LOST,
        "Preempting",
        "preempted",
    ),
    (
        make_pod("Failed", state=make_termination(143)),
        FailureClass.NODE_LOST,
        "SIGTERM",
        "ended by SIGTERM",
    ),
    (
        make_pod("Failed", state=make_termination(1), deletionTimestamp=go_back(1)),
        FailureClass.NODE_LOST,
        "PodDeleted",
        "was deleted",
    ),
    (
        make_pod("Failed", state=make_termination(1, message="ValueError: boom")),
        FailureClass.BUG,
        "NoOutcome",
        "ended with code 1 and reported no outcome; read its log: ValueError",
    ),
    (
        make_pod("Succeeded", state=make_termination(0, "Completed")),
        FailureClass.BUG,
        "NoOutcome",
        "spec.spark.image",
    ),
    (
        make_pod("Failed", state=make_termination(128, "StartError", "exec: not found")),
        FailureClass.SUBMISSION,
        "StartError",
        "exec: not found",
    ),
    (
        make_pod(
            "Failed",
            status={
                "initContainerStatuses": [
                    {"name": "fetch", "state": {"terminated": {"exitCode": 3}}}
                ]
            },
        ),
        FailureClass.SUBMISSION,
        "InitContainerFailed",
        "the init container fetch ended with 3",
    ),
]


@pytest.mark.parametrize(("pod", "failure_class", "reason", "text"), ENDINGS)
def test_a_pod_that_ended_without_an_outcome_says_why(
    pod: Resource, failure_class: FailureClass, reason: str, text: str
) -> None:
    run = build_only_run(make_application("FAILED", "driver container failed"), pod)
    assert run.failure is not None
    assert (run.failure.failure_class, run.failure.reason) == (failure_class, reason)
    assert text in run.failure.message


# What keeps a driver from starting: its class, reason, whether it may pass.
WAITS = [
    (
        make_pod("Pending", state=make_waiting("ErrImagePull", "manifest unknown")),
        (FailureClass.IMAGE_PULL, "ErrImagePull", True),
    ),
    (
        make_pod("Pending", state=make_waiting("ImagePullBackOff")),
        (FailureClass.IMAGE_PULL, "ImagePullBackOff", True),
    ),
    (
        make_pod("Pending", state=make_waiting("InvalidImageName")),
        (FailureClass.IMAGE_PULL, "InvalidImageName", True),
    ),
    (
        make_pod("Pending", state=make_waiting("CreateContainerConfigError", "no secret")),
        (FailureClass.BAD_SPEC, "CreateContainerConfigError", True),
    ),
    (
        make_pod("Pending", status=make_condition("PodScheduled", "False", "Unschedulable", "0/3")),
        (FailureClass.UNSCHEDULABLE, "Unschedulable", True),
    ),
    (
        make_pod(
            "Pending", state=make_waiting("ContainerCreating"), status={"startTime": go_back(31)}
        ),
        (FailureClass.START_TIMEOUT, "ContainerCreating", True),
    ),
    (
        make_pod("Running", state=make_running(), deletionTimestamp=go_back(61)),
        (FailureClass.NODE_LOST, "NodeNotResponding", True),
    ),
    (
        make_pod("Running", state=make_running(), status=NODE_SILENT),
        (FailureClass.NODE_LOST, "NodeNotReady", True),
    ),
    (
        make_pod(
            "Running", state=make_running(), status=NODE_SILENT, deletionTimestamp=go_back(-119)
        ),
        (FailureClass.NODE_LOST, "NodeNotResponding", True),
    ),
    (make_pod("Pending", state=make_waiting("ContainerCreating")), None),
    (make_pod("Running", state=make_running()), None),
    (make_pod("Running", state=make_running(), deletionTimestamp=go_back(-100)), None),
]


@pytest.mark.parametrize(("pod", "expected"), WAITS)
def test_a_run_that_does_not_start_says_why(
    pod: Resource, expected: tuple[FailureClass, str, bool] | None
) -> None:
    run = build_only_run(make_application("SUBMITTED"), pod)
    assert run.live
    failure = run.failure
    summary = (
        None if failure is None else (failure.failure_class, failure.reason, failure.retryable)
    )
    assert summary == expected


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ([], "the pod has no image pull Secret: chart value spark.image.pullSecrets"),
        (["a", "b"], "image pull Secrets that must be in this namespace: a, b"),
    ],
)
def test_an_image_that_cannot_be_pulled_is_told_with_the_secrets_that_the_pod_names(
    secrets: list[str], said: str
) -> None:
    pod = make_pod("Pending", state=make_waiting("ErrImagePull", "401 Unauthorized"))
    pod["spec"]["imagePullSecrets"] = [{"name": name} for name in secrets]
    failure = build_only_run(make_application("SUBMITTED"), pod).failure
    assert failure is not None
    assert failure.message.endswith(f"401 Unauthorized; see spec.spark.image ({said})")


@pytest.mark.parametrize(
    ("pod", "given_up"),
    [
        (make_pod("Running", state=make_running(), deletionTimestamp=go_back(-119)), False),
        (make_pod("Running", state=make_running(), deletionTimestamp=go_back(61)), True),
        (make_pod("Running", state=make_running(), status=NODE_SILENT), False),
        (
            make_pod(
                "Running", state=make_running(), status=NODE_SILENT, deletionTimestamp=go_back(0)
            ),
            True,
        ),
        (
            make_pod(
                "Pending", state=make_waiting(""), status=NODE_SILENT, deletionTimestamp=go_back(0)
            ),
            False,
        ),
    ],
)
def test_a_pod_is_given_up_where_nobody_can_end_it(pod: Resource, given_up: bool) -> None:
    assert build_only_run(make_application("RUNNING"), pod).given_up is given_up


def test_a_pod_whose_readiness_others_decide_says_nothing_of_its_node() -> None:
    pod = make_pod("Running", state=make_running(), status=NODE_SILENT)
    pod["spec"]["readinessGates"] = [{"conditionType": "test/ready"}]
    assert build_only_run(make_application("RUNNING"), pod).failure is None


def test_the_node_that_does_not_answer_is_named() -> None:
    pod = make_pod("Running", state=make_running(), status=NODE_SILENT)
    pod["spec"]["nodeName"] = "worker-7"
    failure = build_only_run(make_application("RUNNING"), pod).failure
    assert failure is not None
    assert "its node worker-7 does not answer" in failure.message


def test_a_pod_that_waits_for_its_volumes_names_the_secrets_among_them() -> None:
    pod = make_pod(
        "Pending", state=make_waiting("ContainerCreating"), status={"startTime": go_back(31)}
    )
    volumes = [{"name": "icdc-secret-1", "secret": {"secretName": "search-credentials"}}]
    pod["spec"] = {**pod.get("spec", {}), "volumes": [{"name": "run"}, *volumes]}
    failure = build_only_run(make_application("SUBMITTED"), pod).failure
    assert failure is not None
    assert "it mounts search-credentials" in failure.message


SUBMISSIONS = [
    (STDERR, FailureClass.SUBMISSION, False, "spark.executor.memory=0g is out of range"),
    (
        "Failure: POST. Message: pods is forbidden: exceeded quota: q. Received status: S",
        FailureClass.UNSCHEDULABLE,
        True,
        ": pods is forbidden: exceeded quota: q.",
    ),
    ("java.net.SocketTimeoutException: timeout", FailureClass.SUBMISSION, True, "timeout"),
    ("failed calling webhook: connection refused", FailureClass.SUBMISSION, True, "webhook"),
    ("Error: pods are forbidden", FailureClass.SUBMISSION, False, "pods are forbidden"),
]


@pytest.mark.parametrize("state", ["SUBMISSION_FAILED", "FAILED"])
@pytest.mark.parametrize(("stderr", "failure_class", "retryable", "text"), SUBMISSIONS)
def test_a_submission_that_failed_says_the_line_that_matters(
    state: str, stderr: str, failure_class: FailureClass, retryable: bool, text: str
) -> None:
    run = build_only_run(make_application(state, f"failed to submit spark application: {stderr}"))
    assert run.phase == RunPhase.FAILED
    assert run.failure is not None
    assert (run.failure.failure_class, run.failure.retryable) == (failure_class, retryable)
    assert text in run.failure.message
    assert "\n" not in run.failure.message


def test_an_application_that_nobody_looks_at_says_so_and_stays_live() -> None:
    assert build_only_run(make_application(creationTimestamp=go_back(119))).failure is None
    run = build_only_run(make_application(creationTimestamp=go_back(121)))
    assert run.live
    assert run.failure is not None
    assert run.failure.reason == "SparkOperatorNotWatching"
    assert run.failure.retryable


def test_a_submitted_run_without_a_pod_is_gone_in_the_end() -> None:
    run = make_application("SUBMITTED")
    run["status"]["lastSubmissionAttemptTime"] = go_back(61)
    assert not build_only_run(run).live


@pytest.mark.parametrize(
    ("pod", "count"),
    [
        (
            make_pod(
                "Pending", state=make_waiting("ContainerCreating"), status={"startTime": go_back(s)}
            ),
            s,
        )
        for s in (121, 500)
    ],
)
def test_the_same_finding_is_said_in_the_same_words(pod: Resource, count: int) -> None:
    first = build_only_run(make_pod("Pending", status={"startTime": go_back(200)}))
    assert build_only_run(pod).failure == first.failure, count
