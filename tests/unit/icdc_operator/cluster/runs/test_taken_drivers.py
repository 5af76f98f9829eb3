"""What a node, a kubelet or an injector does to a driver, and what is said of it."""

import pytest

from icdc_api.errors import FailureClass
from icdc_testing.operator.adapter.objects import (
    Resource,
    build_only_run,
    go_back,
    make_application,
    make_pod,
    make_running,
    make_termination,
    make_waiting,
)

pytestmark = pytest.mark.unit


def make_evicted(message: str) -> Resource:
    """Return a pod that the kubelet evicted with that message, in its words."""
    state = make_termination(137)
    return make_pod("Failed", state=state, status={"reason": "Evicted", "message": message})


LOST, FULL = FailureClass.NODE_LOST, FailureClass.DISK_FULL

# A pod as it is left, its class and reason, a part of the message.
TAKEN = [
    # A node lost its power: containerd, and CRI-O, when they start again.
    (
        make_pod("Failed", state=make_termination(255, "Unknown")),
        LOST,
        "ContainerLost",
        "restarted",
    ),
    (make_pod("Failed", state=make_termination(255, "Error")), LOST, "ContainerLost", "restarted"),
    (
        make_pod("Failed", state=make_termination(137, "ContainerStatusUnknown")),
        *(LOST, "ContainerLost", "restarted"),
    ),
    # A LimitRange gave the driver less disk than it needs.
    (
        make_evicted(
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."
        ),
        *(FULL, "DiskFull", "or a LimitRange"),
    ),
    (
        make_evicted('Container x exceeded its local ephemeral storage limit "1Gi". '),
        *(FULL, "DiskFull", "exceeded its"),
    ),
    (
        make_evicted('Usage of EmptyDir volume "spark-local-dir-1" exceeds the limit "2Gi". '),
        *(FULL, "DiskFull", "spark.localVolumes"),
    ),
    # Others may have filled this one.
    (
        make_evicted(
            "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: "
            "9Mi. Container x was using 2Gi, request is 0, has larger consumption of "
            "ephemeral-storage. "
        ),
        *(LOST, "Evicted", "low on resource"),
    ),
    # Native code of a library.
    (
        make_pod("Failed", state=make_termination(139)),
        *(FailureClass.BUG, "NoOutcome", "ended with code 139 (SIGSEGV)"),
    ),
]


@pytest.mark.parametrize(("pod", "failure_class", "reason", "text"), TAKEN)
def test_a_driver_that_was_taken_is_told_by_what_took_it_and_tried_again(
    pod: Resource, failure_class: FailureClass, reason: str, text: str
) -> None:
    failure = build_only_run(make_application("FAILED", "driver container failed"), pod).failure
    assert failure is not None
    assert (failure.failure_class, failure.reason) == (failure_class, reason)
    assert text in failure.message
    assert failure.retryable


def test_an_init_container_that_ends_after_the_driver_is_not_what_ended_it() -> None:
    """A sidecar that is an init container, as of a service mesh, is killed at the end."""
    ended = {"name": "istio-proxy", "state": {"terminated": {"exitCode": 137}}}
    pod = make_pod(
        "Failed",
        state=make_termination(1, message="ValueError: boom"),
        status={"initContainerStatuses": [ended]},
    )
    failure = build_only_run(make_application("FAILED", "driver container failed"), pod).failure
    assert failure is not None
    assert failure.reason == "NoOutcome"


MESH = {"name": "istio-proxy", "started": True, "ready": False, "state": make_running()}
NOT_YET = {"name": "later", "state": make_waiting("PodInitializing")}


@pytest.mark.parametrize(
    ("containers", "reason", "text"),
    [
        # Vault is away, and its agent waits for it.
        (
            [MESH, {"name": "vault-agent-init", "started": True, "state": make_running()}, NOT_YET],
            *("PodInitializing", "waits for its init container vault-agent-init"),
        ),
        (
            [{"name": "proxy", "started": False, "state": make_waiting("CrashLoopBackOff")}],
            *("PodInitializing", "whose log says why: CrashLoopBackOff"),
        ),
        ([NOT_YET], "ContainerCreating", "has no container yet"),
        ([MESH], "ContainerCreating", "has no container yet"),
    ],
)
def test_a_driver_that_waits_for_an_init_container_names_it(
    containers: list[Resource], reason: str, text: str
) -> None:
    status = {"startTime": go_back(31), "initContainerStatuses": containers}
    pod = make_pod("Pending", state=make_waiting("PodInitializing"), status=status)
    # A sidecar; every other one has to end before the driver begins.
    pod["spec"]["initContainers"] = [{"name": MESH["name"], "restartPolicy": "Always"}]
    failure = build_only_run(make_application("SUBMITTED"), pod).failure
    assert failure is not None
    assert (failure.failure_class, failure.reason) == (FailureClass.START_TIMEOUT, reason)
    assert text in failure.message
