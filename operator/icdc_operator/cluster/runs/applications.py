"""Judge a run by its SparkApplication, if it has no driver pod. Pure.

The state of a SparkApplication is weak evidence: FAILED does not prove that the driver is dead, a
run with "driver pod not found" may have succeeded, and SUBMITTED may last for ever. So a pod is
stronger evidence (see `seen`), and this module is for runs without one.

    state            without a driver pod
    "", NEW          Pending; after 120 s: spark-operator does not watch this namespace
    SUBMITTED        Pending; Missing after 60 s
    PENDING_RERUN…   Pending: there will be another driver
    SUSPENDED        Failed: somebody else suspended it
    FAILED…          Failed with the line of spark-submit that says why; Missing if a driver existed
    COMPLETED…       Missing: the next run does the rest
"""

import re
from datetime import datetime, timedelta

from icdc_api.errors import NodeLost, OutOfMemory, Submission
from icdc_api.errors import Unschedulable as NoRoom
from icdc_api.status.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence
from icdc_operator.core.observed import RunPhase

UNNOTICED_SECONDS = 120.0
"""Without any state for so long, spark-operator is taken not to watch the namespace."""

PODLESS_SECONDS = 60.0
"""How long a submitted run may be without a driver pod before it is Missing. spark-operator itself
waits for 10 s by default."""

_RERUN = frozenset({"PENDING_RERUN", "INVALIDATING", "RESUMING"})
"""States of a SparkApplication that was edited or resumed: there will be another driver."""
_MAY_SUBMIT = frozenset({"", "NEW", "SUBMITTED"}) | _RERUN
"""States from which a driver pod may still come."""

_HAD_DRIVER = re.compile(r"driver (pod not found|pod already exist|container)")
"""Errors of runs that were submitted once: a restarted spark-operator submits again what it had
submitted before, and reports the driver that exists as a failure."""

# What spark-submit prints of an API server or a webhook that was away for a moment. "already
# exists": what an earlier submission left by this name; the next attempt has another one.
_PASSING = re.compile(
    r"time[d ]*out|refused|reset by peer|too many requests|handshake|unknown ?host|no such host"
    r"|service unavailable|internal error|internalerror|failed calling webhook|etcdserver|\bEOF\b"
    r"|already exists",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"exceeded quota", re.IGNORECASE)
# From the most exact to the least: the first pattern that any line matches decides.
_LINES = (
    # What the API server said, as the client in spark-submit writes it.
    re.compile(r"Message: (.+?)(?: Received status:|\.? *$)"),
    re.compile(r"Caused by: (.+)"),
    re.compile(r'Exception in thread "[^"]+" (.+)'),
    re.compile(r"((?:[Ee]rror|ERROR)\b.*)"),
)


def get_state(application: Resource) -> str:
    """Return the state that spark-operator wrote; empty before it has."""
    written = (application.get("status") or {}).get("applicationState") or {}
    return str(written.get("state") or "")


def will_rerun(application: Resource) -> bool:
    """Return whether spark-operator is about to create another driver."""
    return get_state(application) in _RERUN and not application["metadata"].get("deletionTimestamp")


def has_ended(application: Resource) -> bool:
    """Return whether spark-operator has recorded the end of the run."""
    return get_state(application) in ("COMPLETED", "FAILED")


def judge_without_pod(application: Resource, now: datetime) -> tuple[RunPhase, Failure | None]:
    """Return the phase of a run without a driver pod, and why it failed or is late."""
    written = get_state(application)
    # No finalizer holds a SparkApplication, so nothing more will come of it.
    if application["metadata"].get("deletionTimestamp"):
        return RunPhase.MISSING, None
    if written in _MAY_SUBMIT:
        return _judge_before_pod(application, written, now)
    if written in ("SUSPENDING", "SUSPENDED"):
        text = (
            f"{evidence.describe(application)} was suspended by somebody else; to stop a pipeline, "
            "set its spec.suspend"
        )
        return RunPhase.FAILED, evidence.build_failure(NodeLost(text), "ApplicationSuspended")
    message = _get_message(application)
    if written in ("FAILED", "SUBMISSION_FAILED", "FAILING") and message:
        if not _HAD_DRIVER.search(message):
            return RunPhase.FAILED, build_submission_failure(message)
        return RunPhase.MISSING, _find_exit_failure(application, message)
    # There was a driver. The next run does the rest, whether or not it ended well.
    return RunPhase.MISSING, None


def build_submission_failure(message: str) -> Failure:
    """Return the failure for the error text of a submission."""
    line = find_meaningful_line(message)
    text = evidence.join_foreign_text("spark-operator could not submit the run", line)
    if _QUOTA.search(message):
        return evidence.build_failure(NoRoom(text), "QuotaExceeded")
    passing = _PASSING.search(message) is not None
    return evidence.build_failure(Submission(text), "SubmissionFailed", retryable=passing)


def find_meaningful_line(message: str) -> str:
    """Return the line of spark-submit's output that says what is wrong, not a stack frame.

    Exception in thread "main" …KubernetesClientException: …     by the third pattern
    Caused by: … Message: pods "x" is forbidden: exceeded quota  by the first: this is returned
        at io.fabric8.kubernetes.…                               never
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    for pattern in _LINES:
        matches = [match.group(1) for line in lines if (match := pattern.search(line))]
        if matches:
            # Java prints causes from the outside in: the last one is the root.
            return matches[-1]
    plain = [line for line in lines if not line.startswith("at ")]
    return plain[-1] if plain else ""


def _judge_before_pod(
    application: Resource, written: str, now: datetime
) -> tuple[RunPhase, Failure | None]:
    status = application.get("status") or {}
    if written in ("", "NEW"):
        since = evidence.parse_moment(application["metadata"].get("creationTimestamp"))
        if since is None or now - since <= timedelta(seconds=UNNOTICED_SECONDS):
            return RunPhase.PENDING, None
        text = (
            f"spark-operator has not processed {evidence.describe(application)}: either it is not "
            "running, or it does not watch this namespace (spark.jobNamespaces of its chart), or "
            "it has many others to submit first (its controller.workers; our limits.activeRuns)"
        )
        # spark-operator may only be restarting, so the run fails no earlier than startSeconds.
        wrong = evidence.build_failure(Submission(text), "SparkOperatorNotWatching", retryable=True)
        return RunPhase.PENDING, wrong
    submitted = evidence.parse_moment(status.get("lastSubmissionAttemptTime"))
    overdue = submitted is not None and now - submitted > timedelta(seconds=PODLESS_SECONDS)
    return (RunPhase.MISSING if overdue and written == "SUBMITTED" else RunPhase.PENDING), None


def _find_exit_failure(application: Resource, message: str) -> Failure | None:
    """Return the failure that spark-operator recorded of a driver whose pod was deleted since."""
    if "OOMKilled" in message:
        text = (
            f"{evidence.describe(application)}: the driver was killed because it ran out of "
            "memory; raise spec.spark.driver.memory"
        )
        return evidence.build_failure(OutOfMemory(text), "OOMKilled")
    # An exit code alone does not say whether the run had done its work.
    return None


def _get_message(application: Resource) -> str:
    written = (application.get("status") or {}).get("applicationState") or {}
    return str(written.get("errorMessage") or "")
