"""List the stories: acts of a user on one pipeline, and what must come of them. Pure.

A user acts on what the status says, as a person or a script does, so the user waits for whichever
operator is alive. These stories disturb the operator; acts on tables and on an index are
`icdc_testing.tables.scenarios`.

    Story("suspended and resumed", turns: after e1-1 suspend, once Suspended resume)
    must come of it: runs e1-1, c2-1; verdicts InProgress, Current, …; both runs kept at the end
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from icdc_api import naming
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunKind, RunState
from icdc_api.status.triggers import Ask
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.operator.adapter.played_driver import Course

LONG = 3600
"""Seconds between two runs where one is enough."""

When = Callable[[PipelineStatus], bool]


@dataclass(frozen=True)
class Turn:
    """One act of the user, once `when` is true: ask, edit the spec, or delete the pipeline."""

    when: When
    spec: Mapping[str, Any] | None
    ask: Ask | None = None

    @property
    def patch(self) -> Mapping[str, Any] | None:
        """Return the merge patch of the act; None to delete the pipeline."""
        if self.ask is not None:
            return {"metadata": {"annotations": {naming.ANNOTATION_ASK: self.ask.to_annotation()}}}
        return None if self.spec is None else {"spec": self.spec}


@dataclass(frozen=True)
class Story:
    """One pipeline. Runs are named without the name of the pipeline."""

    name: str
    runs: tuple[str, ...]
    """All that are created, in order."""
    retained: tuple[str, ...]
    """Those whose SparkApplication and ConfigMap are there at the end."""
    done: When
    verdicts: tuple[Verdict, ...]
    """What kstatus makes of it, one after the other, from when on it is played."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    courses: Mapping[str, Course] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    begins: When | None = None
    """From when on it differs from the first story, whose calls are cut there; None: at once."""

    def __str__(self) -> str:
        return self.name

    @property
    def deletes(self) -> bool:
        """Return whether the pipeline is deleted in the end."""
        return any(turn.patch is None for turn in self.turns)

    @property
    def waits(self) -> bool:
        """Return whether our finalizer holds the deleted pipeline until its indices are deleted."""
        return self.spec.get("deletionPolicy") == "DeleteIndices"


def has_ended(run: str) -> When:
    """Return a condition: the run was the last one to end, and no other is active."""

    def is_reached(status: PipelineStatus) -> bool:
        last = status.last_run
        return status.current_run is None and last is not None and last.name.endswith(f"-{run}")

    return is_reached


def is_running(run: str) -> When:
    """Return a condition: the run is running and reports."""

    def is_reached(status: PipelineStatus) -> bool:
        now = status.current_run
        return now is not None and now.name.endswith(f"-{run}") and now.state == RunState.RUNNING

    return is_reached


def is_submitted(run: str) -> When:
    """Return a condition: the run is created and has not reported yet."""

    def is_reached(status: PipelineStatus) -> bool:
        now = status.current_run
        return now is not None and now.name.endswith(f"-{run}") and now.state == RunState.SUBMITTED

    return is_reached


def has_answer(status: PipelineStatus) -> bool:
    """Return whether the question has its answer."""
    return status.observed_ask is not None and status.observed_ask.finished


def is_suspended(status: PipelineStatus) -> bool:
    """Return whether a requested suspend is reached."""
    return status.holds(ConditionType.SUSPENDED)


def is_stalled(status: PipelineStatus) -> bool:
    """Return whether a person must act."""
    return status.holds(ConditionType.STALLED)


def _poll_every(seconds: int) -> dict[str, Any]:
    return {"changelog": {"pollIntervalSeconds": seconds}}


_WORKS, _DONE, _FAILED = Verdict.IN_PROGRESS, Verdict.CURRENT, Verdict.FAILED

_MORE_TABLES = [{"name": f"shop.{name}", "identifierColumns": ["id"]} for name in ("orders", "new")]

STORIES = (
    Story(
        "created, exported, idle",
        verdicts=(_WORKS, _DONE),
        runs=("e1-1",),
        retained=("e1-1",),
        spec=_poll_every(LONG),
        done=has_ended("e1-1"),
    ),
    Story(
        "a changelog run, after which the export is forgotten",
        verdicts=(_DONE,),
        runs=("e1-1", "c2-1"),
        retained=("c2-1",),
        begins=has_ended("e1-1"),
        spec={**_poll_every(60), "history": {"successful": 1, "failed": 1}},
        done=has_ended("c2-1"),
    ),
    Story(
        "a run that fails and is tried again",
        verdicts=(_WORKS, _DONE),
        runs=("e1-1", "e1-2"),
        retained=("e1-1", "e1-2"),
        begins=is_running("e1-1"),
        spec={**_poll_every(LONG), "retry": {"initialSeconds": 15}},
        courses={"e1-1": Course.FAILS},
        done=has_ended("e1-2"),
    ),
    Story(
        "a fault that outlasts the retries and then passes",
        verdicts=(_WORKS, _FAILED, _DONE),
        runs=("e1-1", "e1-2"),
        retained=("e1-1", "e1-2"),
        begins=is_running("e1-1"),
        spec={
            **_poll_every(LONG),
            "retry": {"maxAttempts": 1, "initialSeconds": 15, "maxSeconds": 15},
        },
        courses={"e1-1": Course.FAILS},
        done=has_ended("e1-2"),
    ),
    Story(
        "a person does not wait for the next attempt",
        verdicts=(_WORKS, _FAILED, _WORKS, _DONE),
        runs=("e1-1", "e2-1"),
        retained=("e1-1", "e2-1"),
        begins=is_running("e1-1"),
        spec={**_poll_every(LONG), "retry": {"maxAttempts": 1}},
        courses={"e1-1": Course.FAILS},
        turns=(Turn(is_stalled, {"restartNonce": 1}),),
        done=has_ended("e2-1"),
    ),
    Story(
        "suspended while a run is active, and resumed",
        verdicts=(_WORKS, _DONE, _WORKS, _DONE),
        runs=("e1-1", "e2-1"),
        retained=("e1-1", "e2-1"),
        spec=_poll_every(LONG),
        courses={"e1-1": Course.HOLDS},
        begins=is_running("e1-1"),
        turns=(
            Turn(is_running("e1-1"), {"suspend": True}),
            Turn(is_suspended, {"suspend": False}),
        ),
        done=has_ended("e2-1"),
    ),
    Story(
        "the spec changes while a run is active",
        verdicts=(_WORKS, _DONE),
        runs=("e1-1", "e2-1"),
        retained=("e1-1", "e2-1"),
        spec=_poll_every(LONG),
        courses={"e1-1": Course.HOLDS},
        begins=is_running("e1-1"),
        turns=(Turn(is_running("e1-1"), {"tables": _MORE_TABLES}),),
        done=has_ended("e2-1"),
    ),
    Story(
        "a resync is asked for",
        verdicts=(_DONE, _WORKS, _DONE),
        runs=("e1-1", "e2-1"),
        retained=("e1-1", "e2-1"),
        spec=_poll_every(LONG),
        begins=has_ended("e1-1"),
        turns=(Turn(has_ended("e1-1"), {"resync": {"nonce": 1}}),),
        done=has_ended("e2-1"),
    ),
    Story(
        "somebody asks what would come next",
        verdicts=(_DONE,),
        runs=("e1-1", "p2-1"),
        retained=("e1-1", "p2-1"),
        spec=_poll_every(LONG),
        begins=has_ended("e1-1"),
        turns=(Turn(has_ended("e1-1"), None, Ask(id="q", mode=RunKind.PLAN)),),
        done=has_answer,
    ),
    Story(
        "a run that does not start in time, and another that does",
        verdicts=(_WORKS, _DONE),
        runs=("e1-1", "e1-2"),
        retained=("e1-2",),
        begins=is_submitted("e1-1"),
        spec={**_poll_every(LONG), "timeouts": {"startSeconds": 30}},
        courses={"e1-1": Course.STUCK},
        done=has_ended("e1-2"),
    ),
    Story(
        "deleted while a run is active",
        verdicts=(_WORKS,),
        runs=("e1-1",),
        retained=(),
        spec=_poll_every(LONG),
        courses={"e1-1": Course.HOLDS},
        turns=(Turn(is_running("e1-1"), None),),
        done=lambda status: False,
    ),
    Story(
        "deleted with its indices while a run is active",
        verdicts=(_WORKS, Verdict.TERMINATING),
        runs=("e1-1", "d2-1"),
        retained=(),
        begins=is_running("e1-1"),
        spec={**_poll_every(LONG), "deletionPolicy": "DeleteIndices"},
        courses={"e1-1": Course.HOLDS},
        turns=(Turn(is_running("e1-1"), None),),
        done=lambda status: False,
    ),
)
