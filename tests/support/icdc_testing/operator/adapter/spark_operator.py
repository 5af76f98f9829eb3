"""Parts of sequences: what spark-operator writes about a run, and the pods it writes it about.

States, messages and their order are those of kubeflow/spark-operator v2.5.2, read in
internal/controller/sparkapplication/controller.go and submission.go: with restartPolicy Never a
run goes NEW, SUBMITTED, RUNNING, then SUCCEEDING, COMPLETED or FAILING, FAILED; a submission that
fails goes SUBMISSION_FAILED, FAILED.
"""

from typing import Any

from icdc_api.errors import Unauthorized
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure
from icdc_testing.operator.adapter.objects import (
    NOW,
    RUN_ID,
    go_back,
    make_condition,
    make_pod,
    make_running,
    make_termination,
    make_waiting,
)
from icdc_testing.operator.adapter.sequences import Moment
from icdc_testing.operator.deciding.pipelines import make_caught_up


def make_report(*, finished: bool = False, **more: Any) -> RunReport:
    fields = {"run_id": RUN_ID, "started_at": NOW, "updated_at": NOW, "finished": finished}
    return RunReport(**fields, tables=(make_caught_up("shop.orders"),), **more)


def begin(*more: Moment) -> tuple[Moment, ...]:
    """Return a run that works 12 seconds after it was planned, and what follows."""
    return (
        Moment(1, ""),
        Moment(5, "SUBMITTED", pod=make_pod("Pending", state=make_waiting("ContainerCreating"))),
        Moment(10, pod=make_pod("Running", state=make_running())),
        Moment(12, "RUNNING", pod=WORKS),
        *more,
    )


def submit(*more: Moment) -> tuple[Moment, ...]:
    return (Moment(1, ""), Moment(5, "SUBMITTED"), *more)


WORKS = make_pod("Running", state=make_running(), report=make_report())
WELL = make_pod(
    "Succeeded", state=make_termination(0, "Completed"), report=make_report(finished=True)
)
KILLED_DONE = make_pod("Failed", state=make_termination(143), report=make_report(finished=True))
CREATING = make_pod(
    "Pending", state=make_waiting("ContainerCreating"), status={"startTime": go_back(-6)}
)
MISCONFIGURED = make_pod("Pending", state=make_waiting("CreateContainerConfigError", "x"))
CRASHED = make_pod("Failed", state=make_termination(1, message="ValueError: boom"))
OOM = make_pod("Failed", state=make_termination(137, "OOMKilled"), report=make_report())
LOW = {"reason": "Evicted", "message": "The node was low on resource: memory."}
EVICTED = make_pod("Failed", status=LOW)
UNKNOWN = make_pod("Unknown", state=make_running(), report=make_report())
SILENT = make_pod(
    "Running", state=make_running(), report=make_report(), deletionTimestamp=go_back(-330)
)
DRAINED = make_condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "drained")
OUTCOME = Failure.of(Unauthorized("the Secret x"))
REFUSED = make_pod(
    "Failed", state=make_termination(1), report=make_report(finished=True, outcome=OUTCOME)
)
FULL = make_condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")
NOT_FOUND = "driver pod not found"
EXITED = "driver container failed with ExitCode: {}, Reason: {}"
SUBMIT = "failed to submit spark application: failed to run spark-submit: {}"
THERE = SUBMIT.format("driver pod already exist")


def fail(at: float, message: str, **more: Any) -> tuple[Moment, ...]:
    return (Moment(at, "FAILING", message, **more), Moment(at + 1, "FAILED", message))


def fail_submission(message: str) -> tuple[Moment, ...]:
    text = SUBMIT.format(f"failed to run spark-submit: {message}")
    return (Moment(1, ""), Moment(6, "SUBMISSION_FAILED", text), Moment(7, "FAILED", text))


def pull_image() -> tuple[Moment, ...]:
    """Return one of the kubelet's two words for it, which take turns."""
    words = ("ErrImagePull", "ImagePullBackOff")
    return submit(
        *(
            Moment(
                at, pod=make_pod("Pending", state=make_waiting(words[at // 20 % 2], "not found"))
            )
            for at in range(6, 400, 20)
        )
    )
