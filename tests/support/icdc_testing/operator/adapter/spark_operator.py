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
    condition,
    driver_pod,
    running,
    termination,
    waiting,
)
from icdc_testing.operator.adapter.sequences import Moment
from icdc_testing.operator.deciding.pipelines import caught_up


def report(*, finished: bool = False, **more: Any) -> RunReport:
    fields = {"run_id": RUN_ID, "started_at": NOW, "updated_at": NOW, "finished": finished}
    return RunReport(**fields, tables=(caught_up("shop.orders"),), **more)


def begun(*more: Moment) -> tuple[Moment, ...]:
    """Return a run that works 12 seconds after it was planned, and what follows."""
    return (
        Moment(1, ""),
        Moment(5, "SUBMITTED", pod=driver_pod("Pending", state=waiting("ContainerCreating"))),
        Moment(10, pod=driver_pod("Running", state=running())),
        Moment(12, "RUNNING", pod=WORKS),
        *more,
    )


def submit(*more: Moment) -> tuple[Moment, ...]:
    return (Moment(1, ""), Moment(5, "SUBMITTED"), *more)


WORKS = driver_pod("Running", state=running(), report=report())
WELL = driver_pod("Succeeded", state=termination(0, "Completed"), report=report(finished=True))
KILLED_DONE = driver_pod("Failed", state=termination(143), report=report(finished=True))
CRASHED = driver_pod("Failed", state=termination(1, message="ValueError: boom"))
OOM = driver_pod("Failed", state=termination(137, "OOMKilled"), report=report())
LOW = {"reason": "Evicted", "message": "The node was low on resource: memory."}
EVICTED = driver_pod("Failed", status=LOW)
UNKNOWN = driver_pod("Unknown", state=running(), report=report())
DRAINED = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "drained")
OUTCOME = Failure.of(Unauthorized("the Secret x"))
REFUSED = driver_pod("Failed", state=termination(1), report=report(finished=True, outcome=OUTCOME))
FULL = condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")
NOT_FOUND = "driver pod not found"
EXITED = "driver container failed with ExitCode: {}, Reason: {}"
SUBMIT = "failed to submit spark application: failed to run spark-submit: {}"
THERE = SUBMIT.format("driver pod already exist")


def fails(at: float, message: str, **more: Any) -> tuple[Moment, ...]:
    return (Moment(at, "FAILING", message, **more), Moment(at + 1, "FAILED", message))


def fail_submission(message: str) -> tuple[Moment, ...]:
    text = SUBMIT.format(f"failed to run spark-submit: {message}")
    return (Moment(1, ""), Moment(6, "SUBMISSION_FAILED", text), Moment(7, "FAILED", text))


def pulling() -> tuple[Moment, ...]:
    """Return one of the kubelet's two words for it, which take turns."""
    words = ("ErrImagePull", "ImagePullBackOff")
    return submit(
        *(
            Moment(at, pod=driver_pod("Pending", state=waiting(words[at // 20 % 2], "not found")))
            for at in range(6, 400, 20)
        )
    )
