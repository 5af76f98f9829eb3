"""What a SparkApplication says about its run, where no driver pod is left to say it. Pure.

spark-operator's word is weak: FAILED does not prove that the driver is dead, "driver pod not
found" may have succeeded, and SUBMITTED may last for ever. So a pod goes before it (see `seen`),
and here is only what can be known without one.
"""

import re
from datetime import datetime, timedelta

from icdc_api.errors import NodeLost, OutOfMemory, Submission
from icdc_api.errors import Unschedulable as NoRoom
from icdc_api.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence
from icdc_operator.core.observed import RunPhase

UNNOTICED_SECONDS = 120.0
"""After so long without any state, spark-operator does not look at the namespace."""

PODLESS_SECONDS = 60.0
"""How long a submitted run may be without a driver pod before it counts as gone. spark-operator
itself waits for 10 s by default."""

_RERUN = frozenset({"PENDING_RERUN", "INVALIDATING", "RESUMING"})
"""States of a run that somebody edited or resumed: there will be another driver."""
_MAY_SUBMIT = frozenset({"", "NEW", "SUBMITTED"}) | _RERUN
"""States from which a driver pod may still come."""

_HAD_DRIVER = re.compile(r"driver (pod not found|pod already exist|container)")
"""Errors of runs whose submission went well, once: spark-operator submits again what it submitted
before it was restarted, and takes the driver that is there for a failure."""

_PASSING = re.compile(
    r"time[d ]*out|refused|reset by peer|too many requests|handshake|unknown ?host|no such host"
    r"|service unavailable|internal error|internalerror|failed calling webhook|etcdserver|\bEOF\b"
    r"|already exists",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"exceeded quota", re.IGNORECASE)
_LINES = (
    # What the API server said, as the client in spark-submit writes it.
    re.compile(r"Message: (.+?)(?: Received status:|\.? *$)"),
    re.compile(r"Caused by: (.+)"),
    re.compile(r'Exception in thread "[^"]+" (.+)'),
    re.compile(r"((?:[Ee]rror|ERROR)\b.*)"),
)


def state(application: Resource) -> str:
    """The state in spark-operator's words; empty until it has looked at the application."""
    found = (application.get("status") or {}).get("applicationState") or {}
    return str(found.get("state") or "")


def will_rerun(application: Resource) -> bool:
    """Whether spark-operator is about to make another driver, whatever became of the last."""
    return state(application) in _RERUN and not application["metadata"].get("deletionTimestamp")


def judge_without_pod(application: Resource, now: datetime) -> tuple[RunPhase, Failure | None]:
    """The phase of a run that has no driver pod, and what is known to be wrong with it."""
    found = state(application)
    if application["metadata"].get("deletionTimestamp"):
        return RunPhase.GONE, None
    if found in _MAY_SUBMIT:
        return _before_pod(application, found, now)
    if found in ("SUSPENDING", "SUSPENDED"):
        text = (
            f"{evidence.describe(application)} was suspended by somebody else; to stop a pipeline, "
            "set its spec.suspend"
        )
        return RunPhase.FAILED, evidence.failure(NodeLost(text), "ApplicationSuspended")
    message = _message(application)
    if found in ("FAILED", "SUBMISSION_FAILED", "FAILING") and message:
        if not _HAD_DRIVER.search(message):
            return RunPhase.FAILED, submission_failure(message)
        return RunPhase.GONE, _exited(application, message)
    # There was a driver, or spark-operator says that it ended well: it is gone, and what it left
    # undone the next run does.
    return RunPhase.GONE, None


def submission_failure(message: str) -> Failure:
    """The failure that the error text of a submission stands for."""
    line = meaningful_line(message)
    text = evidence.join_foreign_text("spark-operator could not submit the run", line)
    if _QUOTA.search(message):
        return evidence.failure(NoRoom(text), "QuotaExceeded")
    passing = _PASSING.search(message) is not None
    return evidence.failure(Submission(text), "SubmissionFailed", retryable=passing)


def meaningful_line(message: str) -> str:
    """The line of spark-submit's output that says what was wrong, among stacks and settings."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    for pattern in _LINES:
        found = [match.group(1) for line in lines if (match := pattern.search(line))]
        if found:
            # The last cause is the first that went wrong.
            return found[-1]
    plain = [line for line in lines if not line.startswith("at ")]
    return plain[-1] if plain else ""


def _before_pod(
    application: Resource, found: str, now: datetime
) -> tuple[RunPhase, Failure | None]:
    status = application.get("status") or {}
    if found in ("", "NEW"):
        since = evidence.moment(application["metadata"].get("creationTimestamp"))
        if since is None or now - since <= timedelta(seconds=UNNOTICED_SECONDS):
            return RunPhase.PENDING, None
        text = (
            f"spark-operator does not look at {evidence.describe(application)}: either it does not "
            "run, or it does not watch this namespace (spark.jobNamespaces of its chart)"
        )
        # It may only be restarting, so this ends with the time-out of the start.
        wrong = evidence.failure(Submission(text), "SparkOperatorNotWatching", retryable=True)
        return RunPhase.PENDING, wrong
    submitted = evidence.moment(status.get("lastSubmissionAttemptTime"))
    gone = submitted is not None and now - submitted > timedelta(seconds=PODLESS_SECONDS)
    return (RunPhase.GONE if gone and found == "SUBMITTED" else RunPhase.PENDING), None


def _exited(application: Resource, message: str) -> Failure | None:
    """What spark-operator noted of a driver whose pod is gone since."""
    if "OOMKilled" in message:
        text = (
            f"{evidence.describe(application)}: the driver was killed for memory; raise "
            "spec.spark.driver.memory"
        )
        return evidence.failure(OutOfMemory(text), "OOMKilled")
    # A code alone does not say whether the run had done its work.
    return None


def _message(application: Resource) -> str:
    found = (application.get("status") or {}).get("applicationState") or {}
    return str(found.get("errorMessage") or "")
