"""Build the runs of one pipeline from its SparkApplications and driver pods, for `decide`. Pure.

A driver pod is the truth about whether anything may still write, whatever its SparkApplication
says. The driver's report is the truth about what it did, whatever its exit code says. A pod
without its SparkApplication is a run too.

    pod that may write        live      Running once its process is, else Pending
    pod that has ended        ended     by the report, else by the evidence of the pod
    no pod                    ended     unless spark-operator may still make one
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from icdc_api import naming
from icdc_api.errors import FailureClass
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import applications, executors, pod_failures, pods, reports
from icdc_operator.core import deletion, run_log
from icdc_operator.core.observed import RunPhase, RunSeen
from icdc_operator.manifests.metadata import ANNOTATION_RUN_ID, read_epoch


@dataclass(frozen=True)
class RunObjects:
    """The objects of one attempt of a run."""

    name: str
    """Name of the run."""
    epoch: int
    """Fencing number of the attempt; 0 if it is unknown."""
    run_id: str
    """Identity of the attempt; empty if it is unknown."""
    application: Resource | None = None
    """Its SparkApplication; None where only driver pods of it are left."""
    pods: tuple[Resource, ...] = field(default=())
    """Its driver pods: one, unless spark-operator submitted twice."""

    @property
    def writers(self) -> tuple[Resource, ...]:
        """Return the driver pods that may still write."""
        return tuple(pod for pod in self.pods if pods.may_write(pod))


def group_by_attempt(
    pipeline: str, listed: Iterable[Resource], driver_pods: Iterable[Resource]
) -> tuple[RunObjects, ...]:
    """Group the SparkApplications and driver pods of the pipeline by attempt.

    A SparkApplication that no pipeline of that name owns is not a run of ours. The exception is a
    deletion run: it has no owner, because it outlives the pipeline.
    """
    attempts: dict[tuple[str, int], RunObjects] = {}
    by_name: dict[str, RunObjects] = {}
    for application in listed:
        if not _is_owned(application, pipeline) and not _is_deletion(application, pipeline):
            continue
        name = application["metadata"]["name"]
        one = RunObjects(name, read_epoch(application) or 0, _get_run_id(application), application)
        attempts[one.name, one.epoch] = by_name[name] = one
    for pod in driver_pods:
        name = _get_run_name(pod)
        epoch = read_epoch(pod)
        if epoch is None:
            # Somebody removed the annotation: the pod belongs to the run that its label names.
            epoch = by_name[name].epoch if name in by_name else 0
        one = attempts.get((name, epoch)) or RunObjects(name, epoch, _get_run_id(pod))
        attempts[name, epoch] = replace(one, pods=(*one.pods, pod))
    return tuple(attempts.values())


def build_runs(
    attempts: Iterable[RunObjects],
    *,
    now: datetime,
    ended_pods: Mapping[str, Resource] | None = None,
) -> tuple[RunSeen, ...]:
    """Return the attempts as `decide` takes them.

    `ended_pods` holds, by run id, ended pods that were deleted since: their reports are still true.
    """
    remembered = ended_pods or {}
    return tuple(_build_run(attempt, remembered.get(attempt.run_id), now) for attempt in attempts)


def _build_run(attempt: RunObjects, remembered: Resource | None, now: datetime) -> RunSeen:
    writers = attempt.writers
    # Before anything else: while one pod may write, no end of another pod ends the run.
    if writers:
        pod = _find_newest(writers)
        report, _ = reports.read_report(pod, attempt.run_id)
        running = any(pods.is_running(writer) for writer in writers)
        return RunSeen(
            attempt.name,
            attempt.epoch,
            RunPhase.RUNNING if running else RunPhase.PENDING,
            writer_alive=True,
            started_at=pods.find_start(pod),
            report=report,
            report_bytes=reports.measure_report(pod),
            failure=pod_failures.explain_not_running(pod, now),
            given_up=pods.is_given_up(pod, now),
        )
    application = attempt.application
    # Before the ended pod: spark-operator replaces that one by another driver.
    if application is not None and applications.will_rerun(application):
        return RunSeen(attempt.name, attempt.epoch, RunPhase.PENDING, writer_alive=False)
    left = _find_newest(attempt.pods) if attempt.pods else remembered
    if left is not None:
        return _build_ended_run(attempt, left)
    if application is None:
        return RunSeen(attempt.name, attempt.epoch, RunPhase.MISSING, writer_alive=False)
    phase, failure = applications.judge_without_pod(application, now)
    return RunSeen(attempt.name, attempt.epoch, phase, writer_alive=False, failure=failure)


def _build_ended_run(attempt: RunObjects, pod: Resource) -> RunSeen:
    report, unreadable = reports.read_report(pod, attempt.run_id)
    evidence = pod_failures.explain_end(pod, began=report is not None)
    if report is not None and report.finished:
        report = _explain_outcome(report, evidence, pods.find_end(pod))
        good, failure = report.outcome is None, None
    else:
        state = pods.find_container_exit(pod)
        good = state is not None and state.code == 0
        failure = _choose_failure(evidence, unreadable)
    return RunSeen(
        attempt.name,
        attempt.epoch,
        RunPhase.SUCCEEDED if good else RunPhase.FAILED,
        writer_alive=False,
        started_at=pods.find_start(pod),
        report=report,
        failure=failure,
        holds=_holds_resources(attempt),
    )


def _holds_resources(attempt: RunObjects) -> bool:
    """Return whether pods of an ended attempt take disks or memory from others."""
    application = attempt.application
    # Not before spark-operator has seen the end: it records a pod that is gone as a failure.
    if application is not None and not applications.has_ended(application):
        return False
    return any(map(pods.holds_resources, attempt.pods))


def _explain_outcome(
    report: RunReport, evidence: Failure | None, ended: datetime | None
) -> RunReport:
    """Return the report with the cause of its outcome, where the driver could not know it.

    A driver whose JVM is killed for memory sees only refused connections, and reports NodeLost.
    That would be tried again at once and for ever; OutOfMemory waits for a person. One whose JVM is
    killed while it starts reports Submission, and cannot know why either.
    """
    outcome = report.outcome
    if outcome is None or not outcome.may_hide_cause:
        return report
    seen_classes = {FailureClass.OUT_OF_MEMORY, FailureClass.DISK_FULL, FailureClass.NODE_LOST}
    if ended is not None and run_log.hangs_at_its_end(report, now=ended):
        # What took it came long after its outcome, such as our own end of a driver that lives on.
        seen_classes.remove(FailureClass.NODE_LOST)
    if evidence is not None and evidence.failure_class in seen_classes:
        return report.model_copy(update={"outcome": evidence})
    if executors.ended_run(report):
        return report.model_copy(update={"outcome": executors.EXECUTORS_ENDED})
    return report


def _choose_failure(evidence: Failure | None, unreadable: Failure | None) -> Failure | None:
    """Return the failure that says more: an unreadable report beats only an exit code."""
    if unreadable is None or evidence is None:
        return evidence or unreadable
    return unreadable if evidence.failure_class == FailureClass.BUG else evidence


def _find_newest(driver_pods: Iterable[Resource]) -> Resource:
    # These times are UTC without fractions, so that their texts sort as they do.
    return max(driver_pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))


def _is_owned(application: Resource, pipeline: str) -> bool:
    """Return whether a pipeline of that name owns it: this one, or a deleted one before it."""
    return any(
        (owner.get("kind"), owner.get("name")) == (naming.KIND, pipeline)
        and str(owner.get("apiVersion", "")).startswith(f"{naming.GROUP}/")
        for owner in application["metadata"].get("ownerReferences") or ()
    )


def _is_deletion(application: Resource, pipeline: str) -> bool:
    """Return whether it is a deletion run of the pipeline, by its name and annotations."""
    name = application["metadata"]["name"]
    if application["metadata"].get("ownerReferences"):
        return False
    same = _get_run_id(application) == f"{name}.{read_epoch(application)}"
    return same and deletion.is_deletion_run(pipeline, name)


def _get_annotations(resource: Resource) -> Mapping[str, str]:
    annotations: Mapping[str, str] = resource["metadata"].get("annotations") or {}
    return annotations


def _get_run_name(pod: Resource) -> str:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get(naming.LABEL_RUN) or pod["metadata"]["name"])


def _get_run_id(resource: Resource) -> str:
    return _get_annotations(resource).get(ANNOTATION_RUN_ID, "")
