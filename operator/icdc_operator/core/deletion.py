"""What becomes of a pipeline whose indices are deleted with it. Pure; `decide` asks and acts.

The operator has no credentials of OpenSearch, so a last run deletes what the pipeline has made;
our finalizer keeps the pipeline until then. A deletion must always end: the policy, an annotation
and a time-out let the pipeline go without it, and so does a namespace that takes no new run.

    no finalizer --DeleteIndices--> finalizer --deleted: the live run is stopped--> deletion run
                                       |                                     |  (again and again)
                                       +--- retained, timed out --+          +---- succeeded
                                                                  v               v
                                                             finalizer removed: it is gone
"""

import re
from datetime import datetime, timedelta
from enum import StrEnum

from icdc_api import naming
from icdc_api.runs import RunKind, RunState, RunStatus
from icdc_api.spec import DeletionPolicy, PipelineSpec, Timeouts
from icdc_api.status import PipelineStatus
from icdc_operator.core.observed import (
    Action,
    AddFinalizer,
    CreateRun,
    ForgetRun,
    Observed,
    RemoveFinalizer,
    StopRun,
)

_DELETION_RUN = re.compile(rf"-{RunKind.DELETION.letter}\d+-\d+$")


class DeletionEnd(StrEnum):
    """Why a pipeline that is being deleted may go now, in words for the log and the Event."""

    DELETED = "its indices are deleted"
    ASKED = f"the annotation {naming.ANNOTATION_RETAIN} is set"
    POLICY = "spec.deletionPolicy is Retain"
    TIMED_OUT = "timeouts.deleteSeconds is over"
    NAMESPACE = "its namespace is being deleted and takes no run that could delete them"


def is_active(observed: Observed) -> bool:
    """Whether the pipeline is being deleted and waits for its indices."""
    return observed.deleting_since is not None and observed.finalizer is True


def is_deletion_run(pipeline: str, run: str) -> bool:
    """Whether a run of that name deletes what the pipeline has made."""
    match = _DELETION_RUN.search(run)
    return match is not None and run[: match.start()] == pipeline


def deadline(observed: Observed) -> datetime | None:
    """When the pipeline goes whatever is left; None while it is not being deleted."""
    if observed.deleting_since is None:
        return None
    timeouts = Timeouts() if observed.spec is None else observed.spec.timeouts
    return observed.deleting_since + timedelta(seconds=timeouts.delete_seconds)


def find_end(status: PipelineStatus, observed: Observed, *, now: datetime) -> DeletionEnd | None:
    """Why the pipeline may go now; None while it must stay, and when it is not being deleted."""
    if not is_active(observed):
        return None
    last = last_deletion_run(status)
    quiet = status.current_run is None and not any(run.live for run in observed.runs)
    if quiet and last is not None and last.state == RunState.SUCCEEDED:
        return DeletionEnd.DELETED
    if observed.retain_asked:
        return DeletionEnd.ASKED
    if observed.spec is not None and not _deletes_indices(observed.spec):
        return DeletionEnd.POLICY
    if observed.namespace_ends:
        return DeletionEnd.NAMESPACE
    end = deadline(observed)
    return DeletionEnd.TIMED_OUT if end is not None and now >= end else None


def last_deletion_run(status: PipelineStatus) -> RunStatus | None:
    """The run that ended last, if it was to delete."""
    last = status.last_run
    return last if last is not None and last.kind == RunKind.DELETION else None


def list_last_actions(
    status: PipelineStatus, observed: Observed, why: DeletionEnd
) -> tuple[Action, ...]:
    """Lets the pipeline go, after what nothing owns: deletion runs have no owner, see
    `manifests.metadata`. The others go with their owner."""
    ours = [run for run in observed.runs if is_deletion_run(observed.name, run.name)]
    stops = tuple(StopRun(run.name, graceful=False) for run in ours if run.live)
    names = [run.name for run in ours if not run.live]
    run = status.current_run
    if run is not None and run.kind == RunKind.DELETION and run.name not in names:
        # What was made of it last may not be seen as a run yet.
        names.append(run.name)
    forgets = tuple(ForgetRun(name) for name in names)
    return (*stops, *forgets, RemoveFinalizer(why.value))


def require_finalizer(observed: Observed, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """`actions` of a pipeline that is not being deleted; no run is created before the finalizer
    is there that the policy asks for."""
    spec = observed.spec
    if observed.finalizer is None or observed.deleting_since is not None or spec is None:
        return actions
    wanted = _deletes_indices(spec) and not observed.retain_asked
    if wanted == observed.finalizer:
        return actions
    if not wanted:
        why = DeletionEnd.ASKED if _deletes_indices(spec) else DeletionEnd.POLICY
        return (*actions, RemoveFinalizer(why.value))
    return (*(each for each in actions if not isinstance(each, CreateRun)), AddFinalizer())


def next_attempt_at(status: PipelineStatus, *, now: datetime) -> datetime:
    """When the next attempt to delete is due."""
    if last_deletion_run(status) is None or status.next_attempt_time is None:
        return now
    return status.next_attempt_time


def limit_delay(wanted: float | None, spec: PipelineSpec) -> float:
    """Seconds until the next attempt; a deletion is never given up before its time-out."""
    return float(spec.retry.max_seconds) if wanted is None else wanted


def seconds_left(observed: Observed, *, now: datetime) -> float | None:
    """Until the time-out; None where there is none to wait for."""
    end = deadline(observed)
    if end is None or not is_active(observed):
        return None
    return max(0.0, (end - now).total_seconds())


def _deletes_indices(spec: PipelineSpec) -> bool:
    return spec.deletion_policy == DeletionPolicy.DELETE_INDICES
