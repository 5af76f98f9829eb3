"""Find the failure of a run in its driver pod: why it does not run, or why it ended. Pure.

Messages hold no times and no counts, so that the same evidence gives the same message and writes
no status. It must not know SparkApplications.

    evidence in an ended pod, strongest first              failure
    container reason OOMKilled                             OutOfMemory
    evicted because it used more disk than its limit       DiskFull
    status.reason, condition DisruptionTarget, deletion,   NodeLost: evicted, preempted, drained
      an exit by a signal of somebody else, exit code 255    or its node was restarted
    an init container with an exit code, and no driver     Submission
    exit code 2, 126, 127 before a first report            Submission: no program, see the image
    an exit by a signal of its own, such as SIGSEGV        Bug, which is tried again
    any other exit code                                    Bug: it should have reported
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from icdc_api.errors import (
    BadSpec,
    Bug,
    DiskFull,
    ImagePull,
    NodeLost,
    OutOfMemory,
    StartTimeout,
    Submission,
)
from icdc_api.errors import Unschedulable as NoRoom
from icdc_api.status.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence, pods

CREATING_SECONDS = 30.0
"""Without a container for so long, the pod may mount something that does not exist. It may as well
pull a large image, so it has all of `timeouts.startSeconds`."""

# Why a container waits, as the kubelet writes it: it cannot get the image, or it cannot make the
# container from what the pod asks for, such as a key of a Secret that does not exist.
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
_NOT_ASKED = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""Those of them that no registry gives, so no login changes them."""
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
"""Reasons of an exit that is none: the process of the container never began."""
_NO_PROGRAM = frozenset({2, 126, 127})
"""Exit codes: Python cannot open its file (2), a shell cannot run (126) or find (127) a program."""
_TAKEN_SIGNALS = {129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 137: "SIGKILL", 143: "SIGTERM"}
"""Exit codes (128 + signal) of a process that somebody else ended."""
_CRASHES = {132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 139: "SIGSEGV"}
"""The same of one that native code ended, of a library or of Python itself."""
_LOST_CODE, _LOST_REASONS = 255, frozenset({"Unknown", "ContainerStatusUnknown"})
"""What a container runtime says of a container that is gone when it starts again, as after a power
loss of its node, and the kubelet of one that it does not find. No driver of ours ends so."""
_OWN_LIMIT = re.compile(r"exceed(s|ed) (the|its) .*limit")
"""What the kubelet says of a pod that it evicts for that pod's own use of disk. Of a node that is
low on disk it says something else."""


def explain_not_running(pod: Resource, now: datetime) -> Failure | None:
    """Return why a pod that may still write does not run; None if no reason is known."""
    where = evidence.describe(pod)
    if pods.is_given_up(pod, now):
        text = f"{where} was asked to end; {_describe_node(pod)} does not answer"
        return evidence.build_failure(NodeLost(text), "NodeNotResponding")
    if pods.is_silent(pod):
        text = (
            f"{where}: {_describe_node(pod)} does not answer; if it does not come back, the run is "
            "retried on another node once Kubernetes evicts the pod (see its tolerations)"
        )
        return evidence.build_failure(NodeLost(text), "NodeNotReady")
    # After the checks of the node: a driver on a lost node still looks as if it ran.
    return None if pods.is_running(pod) else explain_not_started(pod, now)


def explain_not_started(pod: Resource, now: datetime) -> Failure | None:
    """Return why a pod, of a driver or an executor, has not started; None if nothing is known."""
    where = evidence.describe(pod)
    for state in _list_waiting_states(pod):
        reason, text = str(state.get("reason") or ""), str(state.get("message") or "")
        message = evidence.join_foreign_text(f"{where}: {reason}", text)
        if reason in _IMAGE_REASONS:
            secrets = "" if reason in _NOT_ASKED else _describe_pull_secrets(pod)
            text = f"{message}; see spec.spark.image{secrets}"
            return evidence.build_failure(ImagePull(text), reason)
        if reason in _SPEC_REASONS:
            return evidence.build_failure(
                BadSpec(f"{message}; check what the pod refers to, such as Secrets"),
                reason,
                # It may be created at any moment, as a Secret that is applied after its pipeline.
                retryable=True,
            )
    return _find_scheduling_failure(pod, where) or _find_missing_container(pod, where, now)


def explain_end(pod: Resource, *, began: bool = False) -> Failure | None:
    """Return why a driver ended that left no outcome; None while it may still write.

    `began`: it reported something of its run. Its log is not quoted then, because it may be about
    rows; else only known errors of a start are (`evidence.find_start_error`).
    """
    if pods.may_write(pod):
        return None
    where = evidence.describe(pod)
    state = pods.find_container_exit(pod)
    # First: such a pod may be evicted as well, but NodeLost would only be tried again, and only
    # more memory helps.
    if state is not None and state.reason == "OOMKilled":
        text = (
            f"{where}: the driver was killed because it ran out of memory; raise "
            "spec.spark.driver.memory, or spark.driver.memoryOverhead in spec.spark.conf"
        )
        return evidence.build_failure(OutOfMemory(text), "OOMKilled")
    return (
        _find_eviction(pod, state, where)
        # A driver that began proves that all of them had done their work. A sidecar among them may
        # end with any code, after the driver.
        or (_find_init_failure(pod, where) if state is None else None)
        or _judge_exit(state, where, began=began)
    )


def _find_eviction(pod: Resource, state: pods.ContainerExit | None, where: str) -> Failure | None:
    """Return the failure of a pod that somebody else ended: kubelet, scheduler, drain, a person."""
    status = pods.get_status(pod)
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason:
        text = evidence.join_foreign_text(f"{where}: {reason}", message)
        if reason == "Evicted" and _OWN_LIMIT.search(message):
            # No node is at fault: NodeLost would be tried again at once, and for ever.
            text += (
                "; raise the limit of ephemeral-storage (the driver's template, or a LimitRange of "
                "the namespace), or that of the volume, or set spec.spark.localVolumes"
            )
            return evidence.build_failure(DiskFull(text), "DiskFull")
        return evidence.build_failure(NodeLost(text), reason)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reason = str(condition.get("reason") or "DisruptionTarget")
            message = str(condition.get("message") or "")
            text = evidence.join_foreign_text(f"{where}: {reason}", message)
            return evidence.build_failure(NodeLost(text), reason)
    if pods.is_terminating(pod):
        return evidence.build_failure(NodeLost(f"{where} was deleted"), "PodDeleted")
    if state is not None and (state.code == _LOST_CODE or state.reason in _LOST_REASONS):
        text = f"{where}: its container was lost, as when its node is restarted"
        return evidence.build_failure(NodeLost(text), "ContainerLost")
    # Last: what evicts or deletes a pod ends its processes by a signal too, and says why.
    if state is not None and state.code in _TAKEN_SIGNALS:
        name = _TAKEN_SIGNALS[state.code]
        return evidence.build_failure(NodeLost(f"{where}: the driver was ended by {name}"), name)
    return None


def _find_init_failure(pod: Resource, where: str) -> Failure | None:
    for container in pods.get_status(pod).get("initContainerStatuses") or ():
        state = (container.get("state") or {}).get("terminated") or {}
        if state.get("exitCode"):
            name, code = container.get("name"), state["exitCode"]
            text = f"{where}: the init container {name} ended with {code}"
            text = evidence.join_foreign_text(text, str(state.get("message") or ""))
            return evidence.build_failure(Submission(text), "InitContainerFailed", retryable=True)
    return None


def _judge_exit(state: pods.ContainerExit | None, where: str, *, began: bool) -> Failure:
    if state is None:
        return evidence.build_failure(
            NodeLost(f"{where} ended before its driver began"), "PodEnded"
        )
    if state.reason in _NOT_STARTED:
        text = evidence.join_foreign_text(f"{where}: {state.reason}", state.message)
        return evidence.build_failure(Submission(text), state.reason)
    log = "" if began else evidence.find_start_error(state.message)
    if state.code in _NO_PROGRAM and state.message and not began:
        text = f"{where}: the driver did not start (code {state.code}); see spec.spark.image"
        return evidence.build_failure(
            Submission(evidence.join_foreign_text(text, log)), "DriverNotStarted"
        )
    crash = _CRASHES.get(state.code)
    how = f"code {state.code}" + (f" ({crash})" if crash else "")
    text = f"{where}: the driver ended with {how} and reported no outcome; read its log"
    if state.code == 0:
        # Our driver ends well only with a report, so this was another program.
        text += ", and check that spec.spark.image is an image of this operator"
    # A crash depends on memory and timing as well: the next attempt may not meet it.
    again = True if crash else None
    bug = Bug(evidence.join_foreign_text(text, log))
    return evidence.build_failure(bug, "NoOutcome", retryable=again)


def _find_scheduling_failure(pod: Resource, where: str) -> Failure | None:
    for condition in pods.get_status(pod).get("conditions") or ():
        if condition.get("type") != "PodScheduled" or condition.get("status") != "False":
            continue
        reason = str(condition.get("reason") or "Unschedulable")
        text = evidence.join_foreign_text(f"{where}: {reason}", str(condition.get("message") or ""))
        return evidence.build_failure(NoRoom(text), reason)
    return None


def _find_missing_container(pod: Resource, where: str, now: datetime) -> Failure | None:
    since = evidence.parse_moment(pods.get_status(pod).get("startTime"))
    if since is None or now - since <= timedelta(seconds=CREATING_SECONDS):
        return None
    if waits := _describe_init_wait(pod):
        return evidence.build_failure(StartTimeout(f"{where} {waits}"), "PodInitializing")
    # Only the pod's Events say which, and the operator has no permission to read those.
    secrets = ", ".join(_list_mounted_secrets(pod))
    text = (
        f"{where} has no container yet: its image is still being pulled, or a Secret that the "
        f"pipeline names is missing (it mounts {secrets or 'none'}), or a volume cannot be "
        "attached; the events of the pod say which"
    )
    return evidence.build_failure(StartTimeout(text), "ContainerCreating")


def _describe_init_wait(pod: Resource) -> str:
    """Return for which init container a pod waits; empty if for none, or if that is not known."""
    declared = (pod.get("spec") or {}).get("initContainers") or ()
    sidecars = {one.get("name") for one in declared if one.get("restartPolicy") == "Always"}
    for container in pods.get_status(pod).get("initContainerStatuses") or ():
        # Ready: one that has ended well. Started is any that runs; the pod goes on beside those
        # alone that are sidecars.
        started = container.get("started") and container.get("name") in sidecars
        if started or container.get("ready"):
            continue
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        # Before any of them was started, the pod lacks something else.
        if "running" not in state and waiting.get("reason") in (None, "PodInitializing"):
            return ""
        text = f"waits for its init container {container.get('name')}, whose log says why"
        return evidence.join_foreign_text(text, str(waiting.get("reason") or ""))
    return ""


def _describe_node(pod: Resource) -> str:
    name = (pod.get("spec") or {}).get("nodeName")
    return f"its node {name}" if name else "its node"


def _list_mounted_secrets(pod: Resource) -> Iterator[str]:
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        name = (volume.get("secret") or {}).get("secretName")
        if name:
            yield str(name)


def _describe_pull_secrets(pod: Resource) -> str:
    """Return the Secrets by which the kubelet logs in to the registry, as the end of a sentence.

    One that does not exist is told by an Event alone, and the registry then says the same as for a
    wrong login, or that there is no such image.
    """
    listed = (pod.get("spec") or {}).get("imagePullSecrets") or ()
    names = ", ".join(str(one.get("name")) for one in listed)
    if not names:
        return " (the pod has no image pull Secret: chart value spark.image.pullSecrets)"
    return f" (image pull Secrets that must be in this namespace: {names})"


def _list_waiting_states(pod: Resource) -> Iterator[dict[str, Any]]:
    """Yield the waiting states of containers; the driver's own first, because it matters most."""
    own = pods.find_container_state(pod).get("waiting")
    if own:
        yield own
    status = pods.get_status(pod)
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            state = (container.get("state") or {}).get("waiting")
            if state:
                yield state
