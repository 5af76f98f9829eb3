"""Sequences of what spark-operator and a kubelet write about one run, played to the operator.

Pods of a fake server end as real ones do: a while after they were asked to, and not at all on a
node that is dead. The clock leaps to whatever comes next, so hours take no time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunStatus
from icdc_operator.core.observed import CreateRun, Decision
from icdc_testing.operator.adapter.fakes.api import FakeAnswer, FakeServer
from icdc_testing.operator.adapter.fakes.world import APPLICATION, PLANNED, POD, FakeWorld
from icdc_testing.operator.adapter.objects import NOW, RUN, Resource, go_back

LIMIT_SECONDS = 4 * 3600.0
GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class Moment:
    """What somebody writes `at` so many seconds after the run was planned."""

    at: float
    state: str | None = None
    """Of the SparkApplication; None: as it was."""
    message: str = ""
    pod: Resource | None = None
    """The driver pod from now on; None: as it was."""
    pod_deleted: bool = False
    reported: bool = False
    """The watch tells the operator of the pod at this moment, before anything else happens."""


@dataclass
class EndingServer(FakeServer):
    """Pods end in their own time. `node_dead`: nobody at the node obeys."""

    node_dead: bool = False
    now: datetime = NOW

    def __post_init__(self) -> None:
        super().__init__()

    def _answer(self, method: str, path: str, query: str, body: Any) -> FakeAnswer:
        pod = self.objects.get(POD)
        if method == "DELETE" and path == POD and pod is not None and works(pod):
            grace = body.get("gracePeriodSeconds", GRACE_SECONDS)
            if grace > 0:
                self._ask_to_end(pod, grace)
                return FakeAnswer(200, pod)
        answer = super()._answer(method, path, query, body)
        if method == "DELETE" and path == APPLICATION and pod is not None:
            self._ask_to_end(pod, GRACE_SECONDS)  # garbage collection
        return answer

    def _ask_to_end(self, pod: Resource, grace: float) -> None:
        end = self.now + timedelta(seconds=grace)
        before = pod["metadata"].get("deletionTimestamp")
        if before is None or datetime.fromisoformat(before) > end:
            pod["metadata"]["deletionTimestamp"] = end.isoformat()
            pod["metadata"]["deletionGracePeriodSeconds"] = grace

    def find_due(self) -> datetime | None:
        """Return when the next pod ends that was asked to."""
        pod = self.objects.get(POD)
        end = None if pod is None else pod["metadata"].get("deletionTimestamp")
        return None if end is None or self.node_dead else datetime.fromisoformat(end)

    def end_pods(self) -> None:
        """Delete the pods whose grace period is over."""
        due = self.find_due()
        if due is not None and due <= self.now:
            del self.objects[POD]


def works(pod: Resource) -> bool:
    """Return whether the driver may write, by the state of its pod alone."""
    if pod["status"]["phase"] in ("Succeeded", "Failed"):
        return False
    containers = pod["status"].get("containerStatuses") or ()
    return not any("terminated" in container["state"] for container in containers)


@dataclass
class PlayedSequence:
    """What the operator made of a sequence."""

    ended: RunStatus | None = None
    """The record of the run, once it was closed."""
    closed_after: float = 0.0
    next_after: float | None = None
    """Seconds from the end of the run to the creation of another; None where there is none."""
    status: PipelineStatus = field(default_factory=PipelineStatus)
    said: list[str] = field(default_factory=list)
    """Messages of RunActive, one after the other."""
    reconciles: int = 0


def play(steps: Sequence[Moment], *, node_dead: bool = False) -> PlayedSequence:
    """Play until another run is created, or nothing more will happen by itself.

    Asserts at each reconcile that no run is created while a driver of another works.
    """
    server = EndingServer(node_dead=node_dead)
    begun = PLANNED.model_copy(update={"planned_at": NOW})
    world = FakeWorld(run=begun, server=server)
    played, left = PlayedSequence(), list(steps)
    while (world.now - NOW).total_seconds() < LIMIT_SECONDS:
        server.now = world.now
        while left and NOW + timedelta(seconds=left[0].at) <= world.now:
            _write(world, left.pop(0))
        server.end_pods()
        decision = world.step()
        if _note(played, decision, world) or (decision.requeue_after is None and not left):
            return played
        world.now = _find_next(world.now, decision, server, left)
    return played


def _note(played: PlayedSequence, decision: Decision, world: FakeWorld) -> bool:
    """Take note of one reconcile; return whether another run was created by it."""
    status, seconds = decision.status, (world.now - NOW).total_seconds()
    played.reconciles += 1
    played.status = status
    active = status.find_condition(ConditionType.RUN_ACTIVE)
    if active is not None and active.message not in played.said:
        played.said.append(active.message)
    if played.ended is None and status.last_run is not None:
        played.ended, played.closed_after = status.last_run, seconds
    for action in decision.actions:
        if isinstance(action, CreateRun) and action.run.name != RUN:
            pod = world.server.objects.get(POD)
            assert pod is None or not works(pod), "a run is created while another may write"
            played.next_after = seconds - played.closed_after
            return True
    return False


def _find_next(
    now: datetime, decision: Decision, server: EndingServer, left: Sequence[Moment]
) -> datetime:
    moments = [NOW + timedelta(seconds=left[0].at)] if left else []
    if decision.requeue_after is not None:
        moments.append(now + timedelta(seconds=max(decision.requeue_after, 0.01)))
    due = server.find_due()
    if due is not None:
        moments.append(due)
    return max(min(moments), now)


def _write(world: FakeWorld, step: Moment) -> None:
    objects = world.server.objects
    application = objects.get(APPLICATION)
    if application is not None and step.state is not None:
        status = application.setdefault("status", {})
        status["applicationState"] = {"state": step.state, "errorMessage": step.message}
        if step.state in ("SUBMITTED", "SUBMISSION_FAILED"):
            status["lastSubmissionAttemptTime"] = go_back(-step.at)
    if application is not None:
        application["metadata"].setdefault("creationTimestamp", go_back(0))
    if step.pod is not None and application is not None:
        asked = objects.get(POD, {"metadata": {}})["metadata"].get("deletionTimestamp")
        world.server.add(POD, step.pod)
        if asked is not None:
            objects[POD]["metadata"].setdefault("deletionTimestamp", asked)
        if step.reported:
            world.adapter.note_driver_pod(objects[POD])
    if step.pod_deleted:
        objects.pop(POD, None)
