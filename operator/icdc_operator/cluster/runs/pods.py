"""Read a pod of a run: whether it may still write, runs, has ended, or has lost its node.

Pure functions of a pod as the API has it. Failures are derived in `pod_failures`. It must not know
SparkApplications.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence
from icdc_operator.manifests.pods.roles import Role

_MAIN_CONTAINERS = frozenset(role.container for role in Role)

OVERDUE_SECONDS = 60.0
"""A pod that still exists so long after its end was due has lost its node: no kubelet confirms that
its processes have ended."""


@dataclass(frozen=True)
class ContainerExit:
    """The end of the driver's container, as the kubelet reports it."""

    code: int
    """Exit code."""
    reason: str
    """Such as OOMKilled, Error or Completed."""
    message: str
    """The termination message of the driver, or else the end of its log."""


def may_write(pod: Resource) -> bool:
    """Return whether the driver is running, or may still start."""
    if get_status(pod).get("phase") in ("Succeeded", "Failed"):
        return False
    # A sidecar keeps the pod Running after the driver, which is never restarted, has ended.
    restarted = (pod.get("spec") or {}).get("restartPolicy", "Always") != "Never"
    return restarted or find_container_exit(pod) is None


def is_running(pod: Resource) -> bool:
    """Return whether the driver was started, as far as its node has reported."""
    # Unknown: the node is lost, and the driver may well be running there.
    if get_status(pod).get("phase") == "Unknown":
        return True
    return "running" in find_container_state(pod)


def find_start(pod: Resource) -> datetime | None:
    """Return when the driver's process was started."""
    state = find_container_state(pod)
    for phase in ("running", "terminated"):
        moment = (state.get(phase) or {}).get("startedAt")
        if moment:
            return evidence.parse_moment(moment)
    return None


def find_end(pod: Resource) -> datetime | None:
    """Return when the driver's process ended, by the clock of its node, which is its own."""
    ended = find_container_state(pod).get("terminated") or {}
    return evidence.parse_moment(ended.get("finishedAt"))


def find_container_exit(pod: Resource) -> ContainerExit | None:
    """Return the end of the driver's container; None before, or if its node never reported it."""
    state = find_container_state(pod).get("terminated")
    if not state:
        return None
    return ContainerExit(
        code=int(state.get("exitCode") or 0),
        reason=str(state.get("reason") or ""),
        message=str(state.get("message") or ""),
    )


def is_terminating(pod: Resource) -> bool:
    """Return whether the deletion of the pod was requested."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def holds_resources(pod: Resource) -> bool:
    """Return whether a pod whose driver has ended takes memory or disks from others.

    While a sidecar runs, all that the pod requested is taken. An ephemeral volume is a claim that
    Kubernetes deletes with the pod, however long ago its containers have ended.
    """
    if is_terminating(pod):
        return False
    if get_status(pod).get("phase") not in ("Succeeded", "Failed"):
        return True
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any(volume.get("ephemeral") for volume in volumes)


def get_grace_seconds(pod: Resource) -> int:
    """Return the grace period in seconds of a pod that is being deleted; else 0."""
    return int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def is_overdue(pod: Resource, now: datetime) -> bool:
    """Return whether the end of the pod is overdue: its node does not answer."""
    # deletionTimestamp already includes the grace period (Kubernetes API, ObjectMeta).
    end = evidence.parse_moment(pod["metadata"].get("deletionTimestamp"))
    return end is not None and now - end > timedelta(seconds=OVERDUE_SECONDS)


def is_silent(pod: Resource) -> bool:
    """Return whether the control plane has lost contact with the pod's node.

    The node controller then sets Ready to False and leaves the rest as the kubelet reported it
    last. A kubelet never reports Ready=False with ContainersReady=True, except for readiness gates.
    """
    if (pod.get("spec") or {}).get("readinessGates") or not is_running(pod):
        return False
    conditions = get_status(pod).get("conditions") or ()
    values = {condition.get("type"): condition.get("status") for condition in conditions}
    return values.get("Ready") in ("False", "Unknown") and values.get("ContainersReady") == "True"


def is_given_up(pod: Resource, now: datetime) -> bool:
    """Return whether to stop waiting for the pod's node, which does not answer.

    The driver there is not informed of its end, so waiting for its grace period is of no use.
    """
    return is_overdue(pod, now) or (is_terminating(pod) and is_silent(pod))


def get_status(pod: Resource) -> dict[str, Any]:
    """Return the status of a pod; empty before it has one."""
    return pod.get("status") or {}


def find_container_state(pod: Resource) -> dict[str, Any]:
    """Return the state of the container of driver or executor; empty before it has one."""
    for container in get_status(pod).get("containerStatuses") or ():
        # By name: a template may add sidecars, whose ends say nothing about the driver.
        if container.get("name") in _MAIN_CONTAINERS:
            state: dict[str, Any] = container.get("state") or {}
            return state
    return {}
