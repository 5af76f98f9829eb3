"""The schedule: when the next run is due while no run is active. Pure.

    situation after the last run                   next run is due
    none yet, new generation, nonce, `icdc run`    now
    a failure with a next attempt                  at status.nextAttemptTime
    a comparison was requested                     now
    a table is to be proven again (`proofs`)       when nothing else is; later, before all else
    a new snapshot since the last run began        now
    a snapshot that the last run should apply      as a table whose catalog cannot be read
    the catalog cannot be read by the operator     as long as nothing changed before, <= 10 min
    Continuous, or no snapshot is known            after pollIntervalSeconds
    a table is stalled until a person acts         after retry.maxSeconds, whatever else is due
    tags of applied snapshots grow old             after 10 days (`icdc_api.pins`)
    the last run ended in the future               now: the clock was set back since
    an export waits for its window                 when that opens
    ExportOnly and complete                        never

A stalled table is retried from time to time because its cause often lies outside of the pipeline,
and nothing reports when it has ended. A table whose catalog the operator cannot read is polled by
runs: unchanged for 1, 2, 4 minutes, it is polled again after 1, 2, 4 more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from icdc_api.errors import FailureClass
from icdc_api.pins import RENEW_AFTER
from icdc_api.spec.changelog import Trigger
from icdc_api.spec.pipeline import Mode, PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus
from icdc_api.status.runs import RunKind, RunState, RunStatus
from icdc_operator.core import export_windows, progress, retry
from icdc_operator.core.asked import asks, comparisons, proofs, resyncs
from icdc_operator.core.asked.proofs import ProofTimes
from icdc_operator.core.observed import Observed, RunSeen

BLIND_SECONDS = 600.0
"""Greatest wait between two runs that poll a table; pollIntervalSeconds if that is longer."""

LOST_SECONDS = 7200.0
"""Seconds between two reconciles where the adapter watches heads. Only a safety net for a lost
change: the adapter has one of its own, and many idle pipelines must not cost requests."""


@dataclass(frozen=True)
class Due:
    """When a run is due, and when to poll again before that."""

    at: datetime | None
    """Time of the run; None if none is due before something changes."""
    settled: bool = False
    """See `Decision.settled`."""
    poll_after: float | None = None
    """Seconds until current snapshots should be polled again; None when they cannot matter."""
    proof: RunKind | None = None
    """Kind of the comparison by `spec.verify` that is due; None where another run is."""


def find_next_due(
    status: PipelineStatus, observed: Observed, spec: PipelineSpec, *, now: datetime
) -> Due:
    """Return when the next run of a pipeline is due that is neither suspended nor being deleted."""
    last = comparisons.find_last_replication(status)
    if last is None or _is_requested(status, last, observed, spec):
        return Due(at=now)
    proof = _find_proof_times(status, spec)
    has_failed = last.state != RunState.SUCCEEDED or status.consecutive_failures > 0
    # Before a run's turn in the queue, or the rest of one that made room for it.
    if proof is not None and proof.latest <= now and not has_failed:
        return Due(at=now, proof=proofs.choose_kind(spec))
    # Before everything that depends on success: the backoff of a failure is never shortened.
    if status.next_attempt_time is not None:
        return Due(at=status.next_attempt_time, settled=_is_stalled(status, last, spec))
    if status.consecutive_failures > 0:
        # Earlier versions gave up a passing fault and left it without a next attempt.
        failure = last.failure or retry.find_passing_failure(status.tables)
        passing = failure is not None and retry.may_pass(failure)
        return Due(at=now if passing else None, settled=True)
    # Nobody has judged this failure: the spec was invalid when the run ended.
    if last.state == RunState.FAILED or last.finished_at is None:
        return Due(at=now)
    # After the failures: what is compared must be as the spec asks, see `comparisons`.
    if comparisons.find_due(status, observed, spec) is not None:
        return Due(at=now)
    due = _find_due_after_success(status, last.finished_at, observed, spec, now=now)
    return due if proof is None else _give_way(due, proof, observed, spec, now=now)


def _find_proof_times(status: PipelineStatus, spec: PipelineSpec) -> ProofTimes | None:
    """Return when a comparison by `spec.verify` is due; None while a requested one is not made."""
    requested = comparisons.find_requested(status, spec) is not None
    return None if requested else proofs.find_times_of_run(status, spec)


def _give_way(
    due: Due, proof: ProofTimes, observed: Observed, spec: PipelineSpec, *, now: datetime
) -> Due:
    """Return what is due where a proof is, too, that gives way to replication."""
    # Heads are read soon after a run has ended: until then nobody knows what is due.
    unread = observed.heads_watched and observed.heads is None
    if unread or (due.at is not None and due.at <= now):
        return due
    if proof.at <= now:
        return Due(at=now, proof=proofs.choose_kind(spec))
    return replace(due, at=_find_earliest(due.at, proof.at))


def mark_queued(status: PipelineStatus, now: datetime) -> PipelineStatus:
    """Return `status` with the time since when its run is queued, as nextAttemptTime.

    The queue is ordered by that time, so it is the same after a restart of the operator.
    """
    # Never in the future: a position in the queue is as old as its first wait.
    since = min(status.next_attempt_time or now, now)
    return status.model_copy(update={"next_attempt_time": since})


def may_wait_for_heads(spec: PipelineSpec) -> bool:
    """Return whether a pipeline of `spec` ever waits for new snapshots."""
    return spec.changelog.trigger == Trigger.ON_COMMIT and not spec.suspend


def waits_for_heads(observed: Observed) -> bool:
    """Return whether current snapshots decide when the next run is due: only then are they polled.

    Each case in which `find_next_due` answers without them is False here: a catalog is not asked
    for what nobody uses.
    """
    status, spec = observed.status, observed.spec
    if spec is None or observed.closing or not may_wait_for_heads(spec):
        return False
    if status.current_run is not None:
        return False
    if any(run.live for run in observed.runs):
        return False
    last = comparisons.find_last_replication(status)
    if last is None or last.finished_at is None or _is_requested(status, last, observed, spec):
        return False
    if comparisons.find_due(status, observed, spec) is not None:
        return False
    if status.next_attempt_time is not None or status.consecutive_failures > 0:
        return False
    return last.state != RunState.FAILED and not _is_complete(status.tables, spec)


def lingers(seen: RunSeen | None) -> bool:
    """Return whether the run stays only for later commits: every table has been caught up once."""
    # Not whether all are at this moment: of many tables with many commits they never may be.
    return seen is not None and seen.report is not None and seen.report.lingers is True


def must_end_lingering(
    status: PipelineStatus, observed: Observed, run: RunStatus, *, now: datetime
) -> bool:
    """Return whether the live run stays only for later commits while something else is due."""
    spec = observed.spec
    if spec is None or not lingers(observed.find_run(run)):
        return False
    return (
        observed.others_wait
        or asks.find_pending(status, observed) is not None
        or comparisons.can_begin(status, spec)
        or proofs.must_end_lingering(status, spec, now)
        or _is_requested(status, run, observed, spec)
    )


def _is_requested(
    status: PipelineStatus, last: RunStatus, observed: Observed, spec: PipelineSpec
) -> bool:
    """Return whether spec or user ask for a run that the last one cannot have answered."""
    if last.generation != observed.generation:
        return True
    triggers = status.observed_triggers
    if triggers is not None and spec.restart_nonce > triggers.restart_nonce:
        return True
    if resyncs.is_new(status, spec):
        return True
    asked = observed.asked_at
    return asked is not None and last.planned_at is not None and last.planned_at < asked


def _find_due_after_success(
    status: PipelineStatus,
    finished: datetime,
    observed: Observed,
    spec: PipelineSpec,
    *,
    now: datetime,
) -> Due:
    """Return when the next run is due after a success, which may have stalled tables."""
    stalled = any(retry.waits_for_person(table) for table in status.tables)
    recheck = finished + timedelta(seconds=spec.retry.max_seconds) if stalled else None
    poll = float(spec.changelog.poll_interval_seconds)
    # First, because an index in mode ExportOnly is finished whatever the current snapshots are.
    complete = _is_complete(status.tables, spec)
    opening = export_windows.find_next_run(status, finished, spec, now=now)
    if finished - now > progress.CLOCK_TOLERANCE and (stalled or not complete):
        # The clock was ahead then. How long ago that was is not known, so waiting may take years.
        return Due(at=now, settled=True)
    if complete:
        return Due(at=_find_earliest(recheck, opening), settled=True)
    if spec.changelog.trigger == Trigger.ON_COMMIT and observed.heads is not None:
        poll_after = max(poll, LOST_SECONDS) if observed.heads_watched else poll
        changed = _find_due_by_heads(
            status, finished, observed.heads, observed=observed, spec=spec, now=now
        )
        at = _find_earliest(recheck, changed, _find_tag_renewal(status, finished), opening)
        return Due(at, settled=True, poll_after=poll_after)
    if observed.heads_watched:
        # Not read since the last run; the adapter reconciles as soon as they are.
        at = _find_earliest(recheck, _find_tag_renewal(status, finished), opening)
        return Due(at, settled=True, poll_after=max(poll, LOST_SECONDS))
    if all(table.state == TableState.STALLED for table in status.tables):
        return Due(at=recheck, settled=True)
    # Only a run can read the tables, or the spec asks for one that keeps running.
    ended = finished if status.last_run is None else status.last_run.finished_at or finished
    return Due(at=ended + timedelta(seconds=poll), settled=True)


def _find_earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _find_tag_renewal(status: PipelineStatus, finished: datetime) -> datetime | None:
    """Return when a run is due only to renew the tags of applied snapshots; None without tags.

    Without renewal, a snapshot that was applied long ago would be expired as soon as the next
    commit replaces it, and the changes since then would be lost.
    """
    pinned = any(table.snapshot_pinned for table in status.tables)
    return finished + RENEW_AFTER if pinned else None


def _find_due_by_heads(
    status: PipelineStatus,
    finished: datetime,
    heads: Mapping[str, str | None],
    *,
    observed: Observed,
    spec: PipelineSpec,
    now: datetime,
) -> datetime | None:
    """Return when a run is due because of `heads`; None if every table is caught up."""
    is_closed = export_windows.find_closed(spec, now=now) is not None
    tables = [t for t in status.tables if not (is_closed and export_windows.is_blocked(t, spec))]
    changed = progress.select_changed(tables, heads, spec)
    if any(table.name not in observed.old_heads for table in changed):
        return now
    # The last run could have applied these heads and did not, or only runs can read the table.
    done = TableState.COMPLETE if spec.mode == Mode.EXPORT_ONLY else None
    news = {table.name for table in changed}
    # Polled like tables whose catalog cannot be read: another run at once would do no more.
    unclear = [
        table
        for table in tables
        if table.state not in (TableState.STALLED, done)
        and (table.name in news or table.name not in heads)
    ]
    return finished + _compute_poll_delay(unclear, status, finished, spec) if unclear else None


def _compute_poll_delay(
    tables: Sequence[TableStatus], status: PipelineStatus, finished: datetime, spec: PipelineSpec
) -> timedelta:
    """Return how long `tables` had not changed when the last run ended, within the bounds."""
    poll = timedelta(seconds=spec.changelog.poll_interval_seconds)
    if any(table.state == TableState.EXPORTING for table in tables):
        return poll  # an export that was stopped halfway is not quiet
    # A table without any applied snapshot has been quiet for as long as the log reaches.
    began = min((run.planned_at for run in status.recent_runs if run.planned_at), default=finished)
    quiet = min(finished - (table.applied_at or began) for table in tables)
    return max(poll, min(quiet, timedelta(seconds=BLIND_SECONDS)))


def _is_complete(tables: Sequence[TableStatus], spec: PipelineSpec) -> bool:
    """Return whether every table that is not stalled is exported and is not replicated."""
    # A stalled table has its own time, `recheck`, and must not keep complete ones from resting.
    advancing = [table for table in tables if table.state != TableState.STALLED]
    return spec.mode == Mode.EXPORT_ONLY and all(t.state == TableState.COMPLETE for t in advancing)


def _is_stalled(status: PipelineStatus, last: RunStatus, spec: PipelineSpec) -> bool:
    """Return whether a person should know of the failure that waits for its next attempt."""
    failure = last.failure or retry.find_passing_failure(status.tables)
    if failure is None:
        return False
    failures = status.consecutive_failures
    # The same failures as `RetryVerdict.stalls`, but judged from the record: no status holds the
    # verdict.
    if failure.failure_class == FailureClass.FENCED:
        return retry.count_takeovers(status.recent_runs) > retry.QUICK_TAKEOVERS
    if retry.is_lost_for_long(failure, status.recent_runs) or retry.is_retried_slowly(failure):
        return True
    return retry.outlasts(failure, policy=spec.retry, failures=failures)
