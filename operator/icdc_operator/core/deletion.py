"""The deletion of a pipeline together with its indices: when it is done. Pure; `decide` acts.

The operator has no credentials of OpenSearch, so a last run deletes what the pipeline has created;
our finalizer keeps the pipeline until then. A deletion must always end: the policy, an annotation
and a time-out remove the pipeline without it, and so does a namespace that accepts no new run.

    no finalizer --DeleteIndices--> finalizer --deleted: live run is stopped--> deletion run
                                       |                                    |  (retried)
                                       +-- retained, timed out --+          +---- succeeded
                                                                 v               v
                                                    finalizer removed: the pipeline is removed
"""

import re
from datetime import datetime, timedelta
from enum import StrEnum

from icdc_api import naming
from icdc_api.spec.pipeline import DeletionPolicy, PipelineSpec, Timeouts
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunKind, RunState, RunStatus
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
    """Why a pipeline that is being deleted may be removed now; the value is for log and Event."""

    DELETED = "its indices are deleted"
    ASKED = f"the annotation {naming.ANNOTATION_RETAIN} is set"
    POLICY = "spec.deletionPolicy is Retain"
    TIMED_OUT = "spec.timeouts.deleteSeconds has passed"
    NAMESPACE = "its namespace is being deleted and accepts no run that could delete them"


def is_active(observed: Observed) -> bool:
    """Return whether the pipeline is being deleted and waits for its indices."""
    return observed.deleting_since is not None and observed.finalizer is True


def is_deletion_run(pipeline: str, run: str) -> bool:
    """Return whether the run named `run` deletes what `pipeline` has created."""
    match = _DELETION_RUN.search(run)
    return match is not None and run[: match.start()] == pipeline


def compute_deadline(observed: Observed) -> datetime | None:
    """Return when the pipeline is removed whatever is left; None if it is not being deleted."""
    if observed.deleting_since is None:
        return None
    # An invalid spec must not keep the pipeline for ever: then the default time-out counts.
    timeouts = Timeouts() if observed.spec is None else observed.spec.timeouts
    return observed.deleting_since + timedelta(seconds=timeouts.delete_seconds)


def find_end(status: PipelineStatus, observed: Observed, *, now: datetime) -> DeletionEnd | None:
    """Return why the pipeline may be removed now; None if it must stay or is not being deleted."""
    if not is_active(observed):
        return None
    # The Event names the first that applies: what was done or decided comes before what went wrong.
    last = find_last_deletion(status)
    # Also after the deadline: the indices are deleted, however late. While any run is live it is
    # not the end: what that run still writes would be left behind.
    quiet = status.current_run is None and not any(run.live for run in observed.runs)
    if quiet and last is not None and last.state == RunState.SUCCEEDED:
        return DeletionEnd.DELETED
    if observed.retain_asked:
        return DeletionEnd.ASKED
    if observed.spec is not None and not _deletes_indices(observed.spec):
        return DeletionEnd.POLICY
    if observed.namespace_ends:
        return DeletionEnd.NAMESPACE
    end = compute_deadline(observed)
    return DeletionEnd.TIMED_OUT if end is not None and now >= end else None


def find_last_deletion(status: PipelineStatus) -> RunStatus | None:
    """Return the last ended run, if it was a deletion."""
    last = status.last_run
    return last if last is not None and last.kind == RunKind.DELETION else None


def list_last_actions(
    status: PipelineStatus, observed: Observed, why: DeletionEnd
) -> tuple[Action, ...]:
    """Return the actions that remove deletion runs, then the finalizer.

    Deletion runs have no owner, see `manifests.metadata`. Kubernetes removes all other runs with
    the pipeline that owns them.
    """
    ours = [run for run in observed.runs if is_deletion_run(observed.name, run.name)]
    # Not graceful: nothing that such a run could still finish matters any more.
    stops = tuple(StopRun(run.name, graceful=False) for run in ours if run.live)
    names = [run.name for run in ours if not run.live]
    run = status.current_run
    if run is not None and run.kind == RunKind.DELETION and run.name not in names:
        # Its objects may have been created after the read of the runs.
        names.append(run.name)
    forgets = tuple(ForgetRun(name) for name in names)
    # Last: once the finalizer is removed, nobody comes back to remove the runs.
    return (*stops, *forgets, RemoveFinalizer(why.value))


def require_finalizer(observed: Observed, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return `actions` with the finalizer added or removed as the policy asks.

    No run is created before the finalizer is there: a pipeline that is deleted in between would
    leave an index that nobody deletes. Without effect while the pipeline is being deleted.
    """
    spec = observed.spec
    if observed.finalizer is None or observed.deleting_since is not None or spec is None:
        return actions
    # The annotation counts before a deletion too: then the pipeline is removed without waiting.
    required = _deletes_indices(spec) and not observed.retain_asked
    if required == observed.finalizer:
        return actions
    if not required:
        why = DeletionEnd.ASKED if _deletes_indices(spec) else DeletionEnd.POLICY
        return (*actions, RemoveFinalizer(why.value))
    allowed = [action for action in actions if not isinstance(action, CreateRun)]
    return (*allowed, AddFinalizer())


def find_next_attempt(status: PipelineStatus, *, now: datetime) -> datetime:
    """Return when the next deletion run is due."""
    if find_last_deletion(status) is None or status.next_attempt_time is None:
        return now
    return status.next_attempt_time


def limit_delay(delay: float | None, spec: PipelineSpec) -> float:
    """Return `delay` in seconds, or `retry.maxSeconds` where a replicating run would give up."""
    return float(spec.retry.max_seconds) if delay is None else delay


def compute_seconds_left(observed: Observed, *, now: datetime) -> float | None:
    """Return the seconds until the deadline; None if the pipeline is not being deleted."""
    end = compute_deadline(observed)
    if end is None or not is_active(observed):
        return None
    return max(0.0, (end - now).total_seconds())


def _deletes_indices(spec: PipelineSpec) -> bool:
    return spec.deletion_policy == DeletionPolicy.DELETE_INDICES
