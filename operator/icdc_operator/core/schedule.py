"""When the next run is due while none is at work. Pure.

A table that is stalled is looked at again by every run, and by a run of its own from time to
time: what stalls it often lies outside of the pipeline, and nobody tells when it is mended.

A table whose head cannot be looked at is looked at by runs, less often the longer it stays as it
is: after a change the next run comes soon, and each one that finds nothing doubles the wait.

A pipeline that has nothing to do gets a run when its tags are to be renewed (`icdc_api.pins`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from icdc_api.errors import FailureClass
from icdc_api.pins import RENEW_AFTER
from icdc_api.runs import RunState, RunStatus
from icdc_api.spec import Mode, PipelineSpec, Trigger
from icdc_api.status import PipelineStatus, TableState, TableStatus
from icdc_operator.core import comparisons, progress, resyncs, retry
from icdc_operator.core.observed import Observed

BLIND_SECONDS = 600.0
"""Between two runs that look for what no head tells, at most; pollIntervalSeconds if longer."""

LOST_SECONDS = 7200.0
"""Until the next look where an adapter tells of new heads, in case that what it told was lost: an
adapter has a net of its own, and many idle pipelines must not cost requests."""


@dataclass(frozen=True)
class Due:
    """When a run is due, and when to look again before that."""

    at: datetime | None
    """None: not before something changes."""
    settled: bool = False
    """See `Decision.settled`."""
    look_after: float | None = None
    """Seconds until table heads should be read again; None when they cannot matter."""


def find_next_due(
    known: PipelineStatus, observed: Observed, spec: PipelineSpec, *, now: datetime
) -> Due:
    """When the next run of a pipeline that may run is due."""
    last = comparisons.last_replication_run(known)
    if last is None or _is_requested(known, last, observed, spec):
        return Due(at=now)
    if known.next_attempt_time is not None:
        return Due(at=known.next_attempt_time, settled=_is_stalled(known, last, spec))
    if known.consecutive_failures > 0:
        # Earlier versions left a passing fault without a next attempt when they gave it up.
        failure = last.failure or retry.find_passing_failure(known.tables)
        passing = failure is not None and retry.may_pass(failure)
        return Due(at=now if passing else None, settled=True)
    if last.state == RunState.FAILED or last.finished_at is None:
        return Due(at=now)
    if comparisons.find_due(known, observed, spec) is not None:
        return Due(at=now)
    return _find_due_after_success(known, last.finished_at, observed, spec, now=now)


def mark_queued(known: PipelineStatus, now: datetime) -> PipelineStatus:
    """`known` of a pipeline whose run is due and waits for its turn, with the time since when: so
    that after a restart the line is the same."""
    since = min(known.next_attempt_time or now, now)
    return known.model_copy(update={"next_attempt_time": since})


def may_wait_for_heads(spec: PipelineSpec) -> bool:
    """Whether a pipeline of that spec ever waits for table heads."""
    return spec.changelog.trigger == Trigger.ON_COMMIT and not spec.suspend


def waits_for_heads(observed: Observed) -> bool:
    """Whether table heads decide when the next run of the pipeline is due."""
    known, spec = observed.status, observed.spec
    if spec is None or observed.closing or not may_wait_for_heads(spec):
        return False
    if known.current_run is not None:
        return False
    if any(run.live for run in observed.runs):
        return False
    last = comparisons.last_replication_run(known)
    if last is None or last.finished_at is None or _is_requested(known, last, observed, spec):
        return False
    if comparisons.find_due(known, observed, spec) is not None:
        return False
    if known.next_attempt_time is not None or known.consecutive_failures > 0:
        return False
    return last.state != RunState.FAILED and not _is_complete(known.tables, spec)


def _is_requested(
    known: PipelineStatus, last: RunStatus, observed: Observed, spec: PipelineSpec
) -> bool:
    """Whether spec or user want a run that the last one cannot have answered."""
    if last.generation != observed.generation:
        return True
    triggers = known.observed_triggers
    if triggers is not None and spec.restart_nonce > triggers.restart_nonce:
        return True
    if resyncs.is_new(known, spec):
        return True
    asked = observed.asked_at
    return asked is not None and last.planned_at is not None and last.planned_at < asked


def _find_due_after_success(
    known: PipelineStatus,
    finished: datetime,
    observed: Observed,
    spec: PipelineSpec,
    *,
    now: datetime,
) -> Due:
    """The last run of this very spec went well, which stalled tables are part of."""
    stalled = any(retry.waits_for_person(table) for table in known.tables)
    recheck = finished + timedelta(seconds=spec.retry.max_seconds) if stalled else None
    poll = float(spec.changelog.poll_interval_seconds)
    if _is_complete(known.tables, spec):
        return Due(at=recheck, settled=True)
    if spec.changelog.trigger == Trigger.ON_COMMIT and observed.heads is not None:
        look_after = max(poll, LOST_SECONDS) if observed.heads_told else poll
        asked = _find_due_by_heads(known, finished, observed.heads, observed, spec, now=now)
        at = _earliest(recheck, asked, _find_tag_renewal(known, finished))
        return Due(at, settled=True, look_after=look_after)
    if observed.heads_told:
        at = _earliest(recheck, _find_tag_renewal(known, finished))
        return Due(at, settled=True, look_after=max(poll, LOST_SECONDS))
    if all(table.state == TableState.STALLED for table in known.tables):
        return Due(at=recheck, settled=True)
    # Only a run can tell whether there is something new, or the spec wants one to run always.
    ended = finished if known.last_run is None else known.last_run.finished_at or finished
    return Due(at=ended + timedelta(seconds=poll), settled=True)


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((each for each in moments if each is not None), default=None)


def _find_tag_renewal(known: PipelineStatus, finished: datetime) -> datetime | None:
    """When a run is due that does nothing but renew the tags of the applied snapshots.

    Without it a snapshot that was applied long ago would be expired together with the commit that
    comes after it, and the changes since then would be lost.
    """
    pinned = any(table.snapshot_pinned for table in known.tables)
    return finished + RENEW_AFTER if pinned else None


def _find_due_by_heads(
    known: PipelineStatus,
    finished: datetime,
    heads: Mapping[str, str | None],
    observed: Observed,
    spec: PipelineSpec,
    *,
    now: datetime,
) -> datetime | None:
    """When the heads ask for a run; None for not at all."""
    news = progress.select_changed(known.tables, heads, spec)
    if any(table.name not in observed.old_heads for table in news):
        return now
    # A run that had the chance did not take these in, or nobody but a run can look at them.
    done = TableState.COMPLETE if spec.mode == Mode.EXPORT_ONLY else None
    unclear = [
        table
        for table in known.tables
        if table.state not in (TableState.STALLED, done)
        and (table in news or table.name not in heads)
    ]
    return finished + _poll_delay(unclear, known, finished, spec) if unclear else None


def _poll_delay(
    tables: Sequence[TableStatus], known: PipelineStatus, finished: datetime, spec: PipelineSpec
) -> timedelta:
    """As long as the tables have been without a change when the last run ended, bounded."""
    poll = timedelta(seconds=spec.changelog.poll_interval_seconds)
    if any(table.state == TableState.EXPORTING for table in tables):
        return poll
    began = min((run.planned_at for run in known.recent_runs if run.planned_at), default=finished)
    quiet = min(finished - (table.applied_at or began) for table in tables)
    return max(poll, min(quiet, timedelta(seconds=BLIND_SECONDS)))


def _is_complete(tables: Sequence[TableStatus], spec: PipelineSpec) -> bool:
    """Whether all that is not stalled was exported and shall not be followed."""
    working = [table for table in tables if table.state != TableState.STALLED]
    return spec.mode == Mode.EXPORT_ONLY and all(t.state == TableState.COMPLETE for t in working)


def _is_stalled(known: PipelineStatus, last: RunStatus, spec: PipelineSpec) -> bool:
    """Whether the failure that waits for its next attempt is one that a person should know of."""
    failure = last.failure or retry.find_passing_failure(known.tables)
    if failure is None:
        return False
    failures = known.consecutive_failures
    match failure.failure_class:
        case FailureClass.AUTH:
            return True
        case FailureClass.FENCED:
            return retry.takeovers_in_a_row(known.recent_runs) > retry.QUICK_TAKEOVERS
    return retry.outlasts(failure, policy=spec.retry, failures=failures)
