"""Why a run does not start, or ended without a word: the evidence of pods and submissions."""

import pytest

from icdc_api.errors import FailureClass
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.objects import (
    NODE_SILENT,
    Resource,
    ago,
    condition,
    driver_pod,
    only_run,
    running,
    spark_application,
    termination,
    waiting,
)

pytestmark = pytest.mark.unit

STDERR = """25/03/01 12:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library
Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure
\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.assertResponseCode(Op.java:1)
Caused by: org.apache.spark.SparkException: the settings are wrong
Caused by: java.lang.IllegalArgumentException: spark.executor.memory=0g is out of range
\tat org.apache.spark.internal.config.ConfigEntry.readFrom(ConfigEntry.scala:1)
"""


OOM = driver_pod("Failed", state=termination(137, "OOMKilled"))
DISRUPTED = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "drained")

# What is left of a run without an outcome: its class, its reason, a part of the message.
ENDINGS = [
    (OOM, FailureClass.OUT_OF_MEMORY, "OOMKilled", "spec.spark.driver.memory"),
    (
        driver_pod("Failed", status={"reason": "Evicted", "message": "low on memory"}),
        FailureClass.NODE_LOST,
        "Evicted",
        "low on memory",
    ),
    (
        driver_pod("Failed", state=termination(143), status=DISRUPTED),
        FailureClass.NODE_LOST,
        "EvictionByEvictionAPI",
        "drained",
    ),
    (
        driver_pod("Failed", status={"reason": "NodeLost"}),
        FailureClass.NODE_LOST,
        "NodeLost",
        "pod/shop-e1-1-driver: NodeLost",
    ),
    (
        driver_pod("Failed", status={"reason": "Preempting", "message": "preempted"}),
        FailureClass.NODE_LOST,
        "Preempting",
        "preempted",
    ),
    (
        driver_pod("Failed", state=termination(143)),
        FailureClass.NODE_LOST,
        "SIGTERM",
        "ended by SIGTERM",
    ),
    (
        driver_pod("Failed", state=termination(1), deletionTimestamp=ago(1)),
        FailureClass.NODE_LOST,
        "PodDeleted",
        "was deleted",
    ),
    (
        driver_pod("Failed", state=termination(1, message="ValueError: boom")),
        FailureClass.BUG,
        "NoOutcome",
        "ended with code 1 and reported no outcome; read its log: ValueError",
    ),
    (
        driver_pod("Succeeded", state=termination(0, "Completed")),
        FailureClass.BUG,
        "NoOutcome",
        "spec.spark.image",
    ),
    (
        driver_pod("Failed", state=termination(128, "StartError", "exec: not found")),
        FailureClass.SUBMISSION,
        "StartError",
        "exec: not found",
    ),
    (
        driver_pod(
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
    run = only_run(spark_application("FAILED", "driver container failed"), pod)
    assert run.failure is not None
    assert (run.failure.failure_class, run.failure.reason) == (failure_class, reason)
    assert text in run.failure.message


# What keeps a driver from starting: its class, reason, whether it may pass.
WAITS = [
    (
        driver_pod("Pending", state=waiting("ErrImagePull", "manifest unknown")),
        (FailureClass.IMAGE_PULL, "ErrImagePull", True),
    ),
    (
        driver_pod("Pending", state=waiting("ImagePullBackOff")),
        (FailureClass.IMAGE_PULL, "ImagePullBackOff", True),
    ),
    (
        driver_pod("Pending", state=waiting("InvalidImageName")),
        (FailureClass.IMAGE_PULL, "InvalidImageName", True),
    ),
    (
        driver_pod("Pending", state=waiting("CreateContainerConfigError", "no secret")),
        (FailureClass.BAD_SPEC, "CreateContainerConfigError", True),
    ),
    (
        driver_pod("Pending", status=condition("PodScheduled", "False", "Unschedulable", "0/3")),
        (FailureClass.UNSCHEDULABLE, "Unschedulable", True),
    ),
    (
        driver_pod("Pending", state=waiting("ContainerCreating"), status={"startTime": ago(31)}),
        (FailureClass.BAD_SPEC, "ContainerCreating", True),
    ),
    (
        driver_pod("Running", state=running(), deletionTimestamp=ago(61)),
        (FailureClass.NODE_LOST, "NodeNotResponding", True),
    ),
    (
        driver_pod("Running", state=running(), status=NODE_SILENT),
        (FailureClass.NODE_LOST, "NodeNotReady", True),
    ),
    (
        driver_pod("Running", state=running(), status=NODE_SILENT, deletionTimestamp=ago(-119)),
        (FailureClass.NODE_LOST, "NodeNotResponding", True),
    ),
    (driver_pod("Pending", state=waiting("ContainerCreating")), None),
    (driver_pod("Running", state=running()), None),
    (driver_pod("Running", state=running(), deletionTimestamp=ago(-100)), None),
]


@pytest.mark.parametrize(("pod", "expected"), WAITS)
def test_a_run_that_does_not_start_says_why(
    pod: Resource, expected: tuple[FailureClass, str, bool] | None
) -> None:
    run = only_run(spark_application("SUBMITTED"), pod)
    assert run.live
    failure = run.failure
    summary = (
        None if failure is None else (failure.failure_class, failure.reason, failure.retryable)
    )
    assert summary == expected


@pytest.mark.parametrize(
    ("pod", "given_up"),
    [
        (driver_pod("Running", state=running(), deletionTimestamp=ago(-119)), False),
        (driver_pod("Running", state=running(), deletionTimestamp=ago(61)), True),
        (driver_pod("Running", state=running(), status=NODE_SILENT), False),
        (
            driver_pod("Running", state=running(), status=NODE_SILENT, deletionTimestamp=ago(0)),
            True,
        ),
        (
            driver_pod("Pending", state=waiting(""), status=NODE_SILENT, deletionTimestamp=ago(0)),
            False,
        ),
    ],
)
def test_a_pod_is_given_up_where_nobody_can_end_it(pod: Resource, given_up: bool) -> None:
    assert only_run(spark_application("RUNNING"), pod).given_up is given_up


def test_a_pod_whose_readiness_others_decide_says_nothing_of_its_node() -> None:
    pod = driver_pod("Running", state=running(), status=NODE_SILENT)
    pod["spec"]["readinessGates"] = [{"conditionType": "test/ready"}]
    assert only_run(spark_application("RUNNING"), pod).failure is None


def test_the_node_that_does_not_answer_is_named() -> None:
    pod = driver_pod("Running", state=running(), status=NODE_SILENT)
    pod["spec"]["nodeName"] = "worker-7"
    failure = only_run(spark_application("RUNNING"), pod).failure
    assert failure is not None
    assert "its node worker-7 does not answer" in failure.message


def test_a_pod_that_waits_for_its_volumes_names_the_secrets_among_them() -> None:
    pod = driver_pod("Pending", state=waiting("ContainerCreating"), status={"startTime": ago(31)})
    volumes = [{"name": "icdc-secret-1", "secret": {"secretName": "search-credentials"}}]
    pod["spec"] = {**pod.get("spec", {}), "volumes": [{"name": "run"}, *volumes]}
    failure = only_run(spark_application("SUBMITTED"), pod).failure
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
    run = only_run(spark_application(state, f"failed to submit spark application: {stderr}"))
    assert run.phase == RunPhase.FAILED
    assert run.failure is not None
    assert (run.failure.failure_class, run.failure.retryable) == (failure_class, retryable)
    assert text in run.failure.message
    assert "\n" not in run.failure.message


def test_an_application_that_nobody_looks_at_says_so_and_stays_live() -> None:
    assert only_run(spark_application(creationTimestamp=ago(119))).failure is None
    run = only_run(spark_application(creationTimestamp=ago(121)))
    assert run.live
    assert run.failure is not None
    assert run.failure.reason == "SparkOperatorNotWatching"
    assert run.failure.retryable


def test_a_submitted_run_without_a_pod_is_gone_in_the_end() -> None:
    run = spark_application("SUBMITTED")
    run["status"]["lastSubmissionAttemptTime"] = ago(61)
    assert not only_run(run).live


@pytest.mark.parametrize(
    ("pod", "count"),
    [
        (driver_pod("Pending", state=waiting("ContainerCreating"), status={"startTime": ago(s)}), s)
        for s in (121, 500)
    ],
)
def test_the_same_finding_is_said_in_the_same_words(pod: Resource, count: int) -> None:
    first = only_run(driver_pod("Pending", status={"startTime": ago(200)}))
    assert only_run(pod).failure == first.failure, count
