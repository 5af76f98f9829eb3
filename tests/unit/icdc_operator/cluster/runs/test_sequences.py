"""What spark-operator and kubelets write about a run from its beginning to its end, played whole.

Numbers are issues of kubeflow/spark-operator. Single states, and the evidence of single pods:
test_seen.py, test_seen_evidence.py.
"""

from dataclasses import dataclass

import pytest

from icdc_api.errors import FailureClass
from icdc_api.status.conditions import ConditionType
from icdc_testing.operator.adapter.objects import make_pod, make_termination
from icdc_testing.operator.adapter.sequences import Moment, play
from icdc_testing.operator.adapter.spark_operator import (
    CRASHED,
    CREATING,
    DRAINED,
    EVICTED,
    EXITED,
    FULL,
    KILLED_DONE,
    MISCONFIGURED,
    NOT_FOUND,
    OOM,
    REFUSED,
    SILENT,
    THERE,
    UNKNOWN,
    WELL,
    WORKS,
    begin,
    fail,
    fail_submission,
    pull_image,
    submit,
)

pytestmark = pytest.mark.unit

AT_ONCE = (0.0, 5.0)
"""Seconds until another run is created."""
BACKOFF = (10.0, 12.0)
SLOWLY = (600.0, 601.0)
POLL = (10.0, 11.0)
"""After a run that ended well the next one looks whether there is something new."""
PERSON = None


@dataclass(frozen=True)
class SequenceCase:
    """A sequence, and what must become of it."""

    steps: tuple[Moment, ...]
    then: tuple[float, float] | None
    """Between so many seconds another run is created; PERSON: none before a person acts."""
    failure: tuple[FailureClass, str] | None = None
    """Class and reason; None for a run that ended well."""
    text: str = ""
    """In the message of the failure."""
    closed: tuple[float, float] = (0.0, 700.0)
    """Between so many seconds after it was planned the run is over."""
    meanwhile: str = ""
    """What RunActive says at some time while the run is live."""
    node_dead: bool = False


LOST = FailureClass.NODE_LOST

CASES: dict[str, SequenceCase] = {
    "COMPLETED": SequenceCase(
        begin(Moment(60, pod=WELL), Moment(61, "SUCCEEDING"), Moment(62, "COMPLETED")),
        then=POLL,
        closed=(60, 65),
    ),
    "killed after it had finished, FAILED (#2775)": SequenceCase(
        begin(Moment(60, pod=KILLED_DONE), *fail(61, EXITED.format(143, "Error"))),
        then=POLL,
        closed=(60, 65),
    ),
    "driver pod not found after success, and the watch had told (#2755)": SequenceCase(
        begin(Moment(60, pod=WELL, reported=True), *fail(60.1, NOT_FOUND, pod_deleted=True)),
        then=POLL,
    ),
    "driver pod not found after success, and nobody saw it end (#2755, #2302)": SequenceCase(
        begin(Moment(60, pod=WELL), *fail(60, NOT_FOUND, pod_deleted=True)),
        then=AT_ONCE,
        failure=(LOST, "NodeLost"),
        text="ended without reporting an outcome",
    ),
    "driver pod not found, never made": SequenceCase(
        submit(*fail(16, NOT_FOUND)),
        then=AT_ONCE,
        failure=(LOST, "NodeLost"),
        closed=(16, 25),
    ),
    "SUBMITTED for ever, without a driver": SequenceCase(
        submit(),
        then=AT_ONCE,
        failure=(LOST, "NodeLost"),
        closed=(65, 75),
    ),
    "FAILED while its driver works, which ends well (#2788)": SequenceCase(
        (
            Moment(1, ""),
            Moment(4, pod=make_pod("Pending")),
            Moment(7, pod=WORKS),
            Moment(20, "SUBMISSION_FAILED", THERE),
            Moment(21, "FAILED", THERE),
            Moment(900, pod=WELL),
        ),
        then=POLL,
        closed=(900, 905),
    ),
    "FAILED while its driver works, which is evicted and collected (#2788)": SequenceCase(
        (
            Moment(1, ""),
            Moment(7, pod=WORKS),
            Moment(20, "SUBMISSION_FAILED", THERE),
            Moment(21, "FAILED", THERE),
            Moment(300, pod_deleted=True),
        ),
        then=AT_ONCE,
        failure=(LOST, "NodeLost"),
        closed=(300, 305),
    ),
    "SUBMITTED for ever, its image cannot be pulled (#2667)": SequenceCase(
        pull_image(),
        then=BACKOFF,
        failure=(FailureClass.IMAGE_PULL, "ImagePullBackOff"),
        text="see spec.spark.image",
        closed=(120, 130),
        meanwhile="not found; see spec.spark.image",
    ),
    "SUBMITTED for ever, no node has room (#1737)": SequenceCase(
        submit(Moment(6, pod=make_pod("Pending", status=FULL))),
        then=BACKOFF,
        failure=(FailureClass.UNSCHEDULABLE, "Unschedulable"),
        text="0/3 nodes are available",
        closed=(600, 640),
        meanwhile="Unschedulable: 0/3 nodes are available",
    ),
    "SUBMITTED for ever, a Secret is missing": SequenceCase(
        submit(Moment(6, pod=MISCONFIGURED)),
        then=BACKOFF,
        failure=(FailureClass.BAD_SPEC, "CreateContainerConfigError"),
        text="check what the pod refers to, such as Secrets",
        closed=(120, 160),
    ),
    "SUBMITTED for ever, a volume is not mounted": SequenceCase(
        submit(Moment(6, pod=CREATING)),
        then=BACKOFF,
        failure=(FailureClass.START_TIMEOUT, "ContainerCreating"),
        closed=(600, 640),
    ),
    "RUNNING for ever, and never a word": SequenceCase(
        (*begin()[:3], Moment(12, "RUNNING")),
        then=BACKOFF,
        failure=(FailureClass.START_TIMEOUT, "StartTimeout"),
        closed=(600, 640),
    ),
    "NEW for ever": SequenceCase(
        (Moment(1, ""),),
        then=BACKOFF,
        failure=(FailureClass.SUBMISSION, "SparkOperatorNotWatching"),
        text="spark.jobNamespaces",
        closed=(600, 610),
        meanwhile="spark-operator has not processed",
    ),
    "OOMKilled": SequenceCase(
        begin(Moment(60, pod=OOM), *fail(61, EXITED.format(137, "OOMKilled"))),
        then=BACKOFF,
        failure=(FailureClass.OUT_OF_MEMORY, "OOMKilled"),
        text="raise spec.spark.driver.memory",
    ),
    "OOMKilled, and its pod is gone": SequenceCase(
        begin(Moment(60, "FAILED", EXITED.format(137, "OOMKilled"), pod_deleted=True)),
        then=BACKOFF,
        failure=(FailureClass.OUT_OF_MEMORY, "OOMKilled"),
    ),
    "Evicted": SequenceCase(
        begin(Moment(60, pod=EVICTED), *fail(61, "driver container status missing")),
        then=AT_ONCE,
        failure=(LOST, "Evicted"),
        text="low on resource: memory",
    ),
    "Evicted, and its pod is gone": SequenceCase(
        begin(Moment(60, "FAILED", "driver container status missing", pod_deleted=True)),
        then=AT_ONCE,
        failure=(LOST, "NodeLost"),
    ),
    "drained": SequenceCase(
        begin(
            Moment(60, pod=make_pod("Failed", state=make_termination(143), status=DRAINED)),
            *fail(61, EXITED.format(143, "Error")),
        ),
        then=AT_ONCE,
        failure=(LOST, "EvictionByEvictionAPI"),
    ),
    "the node is lost, its pod stays": SequenceCase(
        begin(Moment(300, "UNKNOWN", pod=SILENT)),
        then=AT_ONCE,
        failure=(LOST, "NodeNotResponding"),
        text="its node does not answer",
        closed=(390, 440),
        node_dead=True,
    ),
    "UNKNOWN for a while, then all is well": SequenceCase(
        begin(
            Moment(60, "UNKNOWN", pod=UNKNOWN),
            Moment(240, "RUNNING", pod=WORKS),
            Moment(300, "SUCCEEDING", pod=WELL),
        ),
        then=POLL,
        closed=(300, 305),
    ),
    "a driver that crashes without a word": SequenceCase(
        (*begin()[:3], Moment(60, pod=CRASHED), *fail(61, EXITED.format(1, "Error"))),
        then=PERSON,
        failure=(FailureClass.BUG, "NoOutcome"),
        text="read its log: ValueError",
    ),
    "a driver that says why": SequenceCase(
        begin(Moment(60, pod=REFUSED), *fail(61, EXITED.format(1, "Error"))),
        then=SLOWLY,
        failure=(FailureClass.AUTH, "Unauthorized"),
    ),
    "SUBMISSION_FAILED, the settings are wrong": SequenceCase(
        fail_submission("Caused by: java.lang.IllegalArgumentException: memory=0g is out of range"),
        then=SLOWLY,
        failure=(FailureClass.SUBMISSION, "SubmissionFailed"),
        text="memory=0g is out of range",
        closed=(6, 10),
    ),
    "SUBMISSION_FAILED, a webhook does not answer": SequenceCase(
        fail_submission("failed calling webhook: context deadline exceeded, connection refused"),
        then=BACKOFF,
        failure=(FailureClass.SUBMISSION, "SubmissionFailed"),
    ),
    "SUBMISSION_FAILED, the quota is used up": SequenceCase(
        fail_submission('Message: pods "x" is forbidden: exceeded quota: q.'),
        then=BACKOFF,
        failure=(FailureClass.UNSCHEDULABLE, "QuotaExceeded"),
    ),
    "INVALIDATING and PENDING_RERUN: somebody edited the run": SequenceCase(
        begin(
            Moment(60, "INVALIDATING"),
            Moment(90, "PENDING_RERUN", pod_deleted=True),
            Moment(95, "SUBMITTED", pod=make_pod("Pending")),
            Moment(100, "RUNNING", pod=WORKS),
            Moment(200, "SUCCEEDING", pod=WELL),
        ),
        then=POLL,
        closed=(200, 205),
    ),
    "SUSPENDED by somebody else": SequenceCase(
        begin(Moment(60, "SUSPENDING"), Moment(90, "SUSPENDED", pod_deleted=True)),
        then=AT_ONCE,
        failure=(LOST, "ApplicationSuspended"),
        text="to stop a pipeline, set its spec.suspend",
        closed=(90, 95),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_ends_as_what_became_of_it(case: SequenceCase) -> None:
    played = play(case.steps, node_dead=case.node_dead)
    ended = played.ended
    assert ended is not None, played.status
    summary = None if ended.failure is None else (ended.failure.failure_class, ended.failure.reason)
    assert summary == case.failure, ended.failure
    assert case.text in ("" if ended.failure is None else ended.failure.message)
    assert case.closed[0] <= played.closed_after <= case.closed[1]
    assert case.meanwhile in "\n".join(played.said)
    stalled = played.status.find_condition(ConditionType.STALLED)
    assert stalled is not None
    if case.then is None:
        assert (played.next_after, stalled.status) == (None, "True")
        assert "; action required: " in stalled.message
    else:
        assert played.next_after is not None
        assert case.then[0] <= played.next_after <= case.then[1]
    # Every 5 s at most while something runs, and no look that only waits for the next.
    assert played.reconciles <= 20 + (played.closed_after + (played.next_after or 0.0)) / 4
