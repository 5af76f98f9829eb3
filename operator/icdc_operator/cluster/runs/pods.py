"""What a driver's pod says about its run: whether it may still write, and what went wrong.

Pure functions of a pod as the API has it. Messages hold no times and no counts, so that a look
that finds the same says the same. Knows nothing of SparkApplications.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from icdc_api.errors import BadSpec, Bug, ImagePull, NodeLost, OutOfMemory, Submission, WhoActs
from icdc_api.errors import Unschedulable as NoRoom
from icdc_api.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence
from icdc_operator.manifests.roles import Role

OVERDUE_SECONDS = 60.0
"""A pod that is still there so long after it should have ended has lost its node: nobody there
says that its processes are gone."""

CREATING_SECONDS = 30.0
"""After so long without a container something that the pod mounts is missing, most likely."""

_IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_SPEC_REASONS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
    }
)
_NOT_STARTED = frozenset({"ContainerCannotRun", "StartError"})
_NO_PROGRAM = frozenset({2, 126, 127})
"""Exit codes of Python that cannot open its file, and of programs that cannot be run or found."""
_TAKEN_SIGNALS = {129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 137: "SIGKILL", 143: "SIGTERM"}
"""Exit codes of a process that somebody else ended."""


@dataclass(frozen=True)
class ContainerExit:
    """How the driver's container ended."""

    code: int
    reason: str
    message: str


def may_write(pod: Resource) -> bool:
    """Whether the driver of the pod works, or may still begin to."""
    status = _status(pod)
    if status.get("phase") in ("Succeeded", "Failed"):
        return False
    # A sidecar keeps the pod Running although the driver, which is never restarted, has ended.
    restarted = (pod.get("spec") or {}).get("restartPolicy", "Always") != "Never"
    return restarted or container_exit(pod) is None


def is_running(pod: Resource) -> bool:
    """Whether the driver was started, as far as its node can tell."""
    if _status(pod).get("phase") == "Unknown":
        return True
    return "running" in _state(pod)


def started_at(pod: Resource) -> datetime | None:
    """When the driver's process was started."""
    state = _state(pod)
    for phase in ("running", "terminated"):
        moment = (state.get(phase) or {}).get("startedAt")
        if moment:
            return evidence.moment(moment)
    return None


def container_exit(pod: Resource) -> ContainerExit | None:
    """How the driver's container ended; None while it has not, or when its node never said."""
    state = _state(pod).get("terminated")
    if not state:
        return None
    return ContainerExit(
        code=int(state.get("exitCode") or 0),
        reason=str(state.get("reason") or ""),
        message=str(state.get("message") or ""),
    )


def is_terminating(pod: Resource) -> bool:
    """Whether somebody has asked for its end."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def grace_seconds(pod: Resource) -> int:
    """How long a pod that is asked to end may take."""
    return int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def is_overdue(pod: Resource, now: datetime) -> bool:
    """Whether the pod should have ended long ago: its node does not answer."""
    # The time in the metadata is that of the request with the grace period added.
    end = evidence.moment(pod["metadata"].get("deletionTimestamp"))
    return end is not None and now - end > timedelta(seconds=OVERDUE_SECONDS)


def is_silent(pod: Resource) -> bool:
    """Whether the control plane hears nothing of the pod's node any more.

    It then says itself that the pod is not ready, and leaves all else as the node told it last. A
    node would not say so of a pod whose containers are ready, but for readiness gates.
    """
    if (pod.get("spec") or {}).get("readinessGates") or not is_running(pod):
        return False
    told = {each.get("type"): each.get("status") for each in _status(pod).get("conditions") or ()}
    return told.get("Ready") in ("False", "Unknown") and told.get("ContainersReady") == "True"


def is_given_up(pod: Resource, now: datetime) -> bool:
    """Whether nobody waits any longer for the pod's node, which does not answer.

    Its driver does not hear that it should end: to wait for its grace period would be of no use.
    """
    return is_overdue(pod, now) or (is_terminating(pod) and is_silent(pod))


def why_not_running(pod: Resource, now: datetime) -> Failure | None:
    """What keeps a pod that may still write from doing it; None where nothing is known to."""
    where = evidence.describe(pod)
    if is_given_up(pod, now):
        text = f"{where} was asked to end; {_node(pod)} does not answer"
        return evidence.failure(NodeLost(text), "NodeNotResponding")
    if is_silent(pod):
        text = (
            f"{where}: {_node(pod)} does not answer; if it does not come back, the run is tried "
            "again on another node once Kubernetes evicts the pod (see its tolerations)"
        )
        return evidence.failure(NodeLost(text), "NodeNotReady")
    if is_running(pod):
        return None
    for state in _waiting(pod):
        reason, text = str(state.get("reason") or ""), str(state.get("message") or "")
        told = evidence.join_foreign_text(f"{where}: {reason}", text)
        if reason in _IMAGE_REASONS:
            return evidence.failure(ImagePull(f"{told}; see spec.spark.image"), reason)
        if reason in _SPEC_REASONS:
            return evidence.failure(
                BadSpec(f"{told}; see what the pod names, such as Secrets"), reason, retryable=True
            )
    return _unscheduled(pod, where) or _still_creating(pod, where, now)


def why_ended(pod: Resource, *, began: bool = False) -> Failure | None:
    """Why a driver that left no outcome ended; None while it may still write.

    `began`: it reported something of its run. Its log is not quoted then, because it may be about
    rows; else only known errors of a start are (`evidence.start_error`).
    """
    if may_write(pod):
        return None
    where = evidence.describe(pod)
    state = container_exit(pod)
    if state is not None and state.reason == "OOMKilled":
        text = (
            f"{where}: the driver was killed for memory; raise spec.spark.driver.memory, or "
            "spark.driver.memoryOverhead in spec.spark.conf"
        )
        return evidence.failure(OutOfMemory(text), "OOMKilled")
    return (
        _taken_away(pod, state, where)
        or _init_failed(pod, where)
        or _of_exit(state, where, began=began)
    )


def _taken_away(pod: Resource, state: ContainerExit | None, where: str) -> Failure | None:
    """The loss of a pod that somebody else ended: the kubelet, the scheduler, a drain, a person."""
    status = _status(pod)
    reason = str(status.get("reason") or "")
    if reason:
        text = evidence.join_foreign_text(f"{where}: {reason}", str(status.get("message") or ""))
        return evidence.failure(NodeLost(text), reason)
    for each in status.get("conditions") or ():
        if each.get("type") == "DisruptionTarget" and each.get("status") == "True":
            reason = str(each.get("reason") or "DisruptionTarget")
            text = evidence.join_foreign_text(f"{where}: {reason}", str(each.get("message") or ""))
            return evidence.failure(NodeLost(text), reason)
    if is_terminating(pod):
        return evidence.failure(NodeLost(f"{where} was deleted"), "PodDeleted")
    if state is not None and state.code in _TAKEN_SIGNALS:
        name = _TAKEN_SIGNALS[state.code]
        return evidence.failure(NodeLost(f"{where}: the driver was ended by {name}"), name)
    return None


def _init_failed(pod: Resource, where: str) -> Failure | None:
    for each in _status(pod).get("initContainerStatuses") or ():
        state = (each.get("state") or {}).get("terminated") or {}
        if state.get("exitCode"):
            text = f"{where}: the init container {each.get('name')} ended with {state['exitCode']}"
            text = evidence.join_foreign_text(text, str(state.get("message") or ""))
            return evidence.failure(Submission(text), "InitContainerFailed", retryable=True)
    return None


def _of_exit(state: ContainerExit | None, where: str, *, began: bool) -> Failure:
    if state is None:
        return evidence.failure(NodeLost(f"{where} ended before its driver began"), "PodEnded")
    if state.reason in _NOT_STARTED:
        text = evidence.join_foreign_text(f"{where}: {state.reason}", state.message)
        return evidence.failure(Submission(text), state.reason)
    log = "" if began else evidence.start_error(state.message)
    if state.code in _NO_PROGRAM and state.message and not began:
        text = f"{where}: the driver did not start (code {state.code}); see spec.spark.image"
        return evidence.failure(
            Submission(evidence.join_foreign_text(text, log)), "DriverNotStarted"
        )
    text = f"{where}: the driver ended with code {state.code} and left no outcome; read its log"
    if state.code == 0:
        text += ", and see whether spec.spark.image is an image of this operator"
    return evidence.failure(Bug(evidence.join_foreign_text(text, log)), "NoOutcome")


def _unscheduled(pod: Resource, where: str) -> Failure | None:
    for each in _status(pod).get("conditions") or ():
        if each.get("type") != "PodScheduled" or each.get("status") != "False":
            continue
        reason = str(each.get("reason") or "Unschedulable")
        text = evidence.join_foreign_text(f"{where}: {reason}", str(each.get("message") or ""))
        return evidence.failure(NoRoom(text), reason)
    return None


def _still_creating(pod: Resource, where: str, now: datetime) -> Failure | None:
    since = evidence.moment(_status(pod).get("startTime"))
    if since is None or now - since <= timedelta(seconds=CREATING_SECONDS):
        return None
    # Which one only the pod's events say, which the operator has no right to read.
    secrets = ", ".join(_mounted_secrets(pod))
    text = (
        f"{where} waits for its volumes: most likely a Secret that the pipeline names is missing "
        f"(it mounts {secrets or 'none'}), or a volume cannot be attached; the events of the pod "
        "say which"
    )
    return evidence.failure(BadSpec(text), "ContainerCreating", retryable=True).model_copy(
        update={"who_acts": WhoActs.PLATFORM}
    )


def _node(pod: Resource) -> str:
    name = (pod.get("spec") or {}).get("nodeName")
    return f"its node {name}" if name else "its node"


def _mounted_secrets(pod: Resource) -> Iterator[str]:
    for each in (pod.get("spec") or {}).get("volumes") or ():
        name = (each.get("secret") or {}).get("secretName")
        if name:
            yield str(name)


def _status(pod: Resource) -> dict[str, Any]:
    return pod.get("status") or {}


def _state(pod: Resource) -> dict[str, Any]:
    """The state of the driver's container."""
    for each in _status(pod).get("containerStatuses") or ():
        if each.get("name") == Role.DRIVER.container:
            state: dict[str, Any] = each.get("state") or {}
            return state
    return {}


def _waiting(pod: Resource) -> Iterator[dict[str, Any]]:
    """What containers wait for; the driver's own first."""
    own = _state(pod).get("waiting")
    if own:
        yield own
    status = _status(pod)
    for field in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(field) or ():
            state = (each.get("state") or {}).get("waiting")
            if state:
                yield state
