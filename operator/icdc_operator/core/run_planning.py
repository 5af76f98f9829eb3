"""Decide what to do while no run is active: plan one, wait for its time or queue position, or rest.

    first that applies                       step
    the pipeline is being deleted            plan the deletion run, or wait for its next attempt
    a question has no answer                 plan the run that answers it
    spec invalid, or suspended               rest
    the adapter is closing                   rest
    all tables wait for the export window,
    and no rollback was requested            wait until it opens
    no run is due                            wait until one is, or until heads are read again
    a run is due, a limit is reached         record since when, wait for the queue position
    a run is due                             plan it

Whether a run is due is decided by `schedule`, what its record holds by `run_log`. Once the record
is durable, `build_creation` says how its run is created, and whether it is expected to end within a
minute, so that its JVMs need not optimise the code that they compile:

    Plan, DeadLetters, Deletion   yes: it reads no rows
    Changelog                     if it ends once caught up, soon after one that took little time
    all others                    no: they read whole tables

Pure.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from icdc_api.spec.changelog import Trigger
from icdc_api.spec.pipeline import Mode, PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import ResyncMode, RunKind, RunStatus
from icdc_operator.core import deletion, export_windows, progress, run_log, schedule
from icdc_operator.core.asked import asks, comparisons, resyncs
from icdc_operator.core.observed import Action, CreateRun, Observed

HOLD_SECONDS = 3600.0
"""Greatest wait for the export window at a time: the clock may be set meanwhile."""

SHORT_RUN = timedelta(seconds=45)
"""Greatest duration of a run after which the next one is expected to be short as well. About half
of it is the start; in a longer run, code that is not optimised costs more than optimising it."""

SOON = timedelta(minutes=15)
"""Greatest pause between the two: a backlog of a longer one may be of any size."""


@dataclass(frozen=True)
class Draft:
    """A decision whose status has no conditions yet."""

    status: PipelineStatus
    """The new status, without conditions, phase and totals."""
    actions: tuple[Action, ...] = ()
    """See `Decision.actions`."""
    requeue_after: float | None = None
    """See `Decision.requeue_after`."""
    settled: bool = False
    """See `Decision.settled`."""


def plan_next(status: PipelineStatus, observed: Observed, now: datetime) -> Draft:
    """Return the step of a pipeline of which no run is active."""
    if deletion.is_active(observed):
        return _plan_deletion(status, observed, now)
    # Before the schedule: a person waits for the answer, and it is short.
    spec, ask = observed.spec, asks.find_pending(status, observed)
    if spec is not None and ask is not None:
        if observed.queued is not None:
            # Without `mark_queued`: nextAttemptTime is that of replication, which goes on later.
            return Draft(status, requeue_after=observed.queued.poll_after)
        return Draft(asks.plan_run(status, observed, ask, now=now), requeue_after=0.0)
    if spec is None or spec.suspend:
        # No time either: a pipeline that rests has no attempt to promise in `kubectl get`.
        return Draft(status.model_copy(update={"next_attempt_time": None}), settled=True)
    if observed.closing:
        # Its nextAttemptTime stays: the next start of the adapter goes on from there.
        return Draft(status, settled=True)
    due = schedule.find_next_due(status, observed, spec, now=now)
    held = _wait_for_window(status, due, spec, now)
    if held is not None:
        return held
    if due.at is None or due.at > now:
        return _wait_until_due(status, due, now)
    if observed.queued is not None:
        # Not marked for a proof, as above: replication may be due before it.
        queued = schedule.mark_queued(status, now) if due.proof is None else status
        return Draft(queued, requeue_after=observed.queued.poll_after)
    kind = due.proof or comparisons.find_due(status, observed, spec)
    kind = kind or _choose_kind(status, spec, now=now)
    return _record_run(status, observed, spec, now=now, kind=kind)


def _wait_for_window(
    status: PipelineStatus, due: schedule.Due, spec: PipelineSpec, now: datetime
) -> Draft | None:
    """Return the step of a pipeline of which only exports are due, outside of their window.

    A rollback writes no row, so it does not wait.
    """
    if resyncs.owes_rollback(status, spec):
        return None
    hold = export_windows.find_hold(status, spec, now=now)
    if hold is None or due.proof is not None or due.at is None or due.at > hold:
        return None
    held = status.model_copy(update={"next_attempt_time": hold})
    seconds = (hold - now).total_seconds()
    return Draft(held, requeue_after=min(seconds, HOLD_SECONDS), settled=True)


def _wait_until_due(status: PipelineStatus, due: schedule.Due, now: datetime) -> Draft:
    waits = [due.poll_after] if due.poll_after is not None else []
    if due.at is not None:
        waits.append((due.at - now).total_seconds())
    return Draft(status, requeue_after=min(waits, default=None), settled=due.settled)


def _plan_deletion(status: PipelineStatus, observed: Observed, now: datetime) -> Draft:
    """Return the step of a pipeline that waits for its indices: delete them, or remove it."""
    # Again, although `decide` has asked: its status may have just recorded the end of the run.
    end = deletion.find_end(status, observed, now=now)
    if end is not None:
        return Draft(status, deletion.list_last_actions(status, observed, end), settled=True)
    if observed.spec is None:
        # Only a valid spec says which OpenSearch to delete from; the deadline ends the wait.
        return Draft(status.model_copy(update={"next_attempt_time": None}))
    due = deletion.find_next_attempt(status, now=now)
    if due > now:
        return Draft(status, requeue_after=(due - now).total_seconds())
    return _record_run(status, observed, observed.spec, now=now, kind=RunKind.DELETION)


def _choose_kind(status: PipelineStatus, spec: PipelineSpec, *, now: datetime) -> RunKind:
    """Return Export while a table is not exported or a re-export is requested, else Changelog."""
    if export_windows.find_closed(spec, now=now) is not None:
        return RunKind.CHANGELOG
    resync = resyncs.is_new(status, spec) and spec.resync.mode == ResyncMode.EXPORT
    # StreamOnly begins at tables[].startFrom and exports nothing unless a resync asks for it.
    if spec.mode == Mode.STREAM_ONLY and not resync:
        return RunKind.CHANGELOG
    exported = all(progress.is_exported(table) for table in status.tables)
    return RunKind.CHANGELOG if exported and not resync else RunKind.EXPORT


def _record_run(
    status: PipelineStatus,
    observed: Observed,
    spec: PipelineSpec,
    *,
    now: datetime,
    kind: RunKind,
) -> Draft:
    """Record the next run, which the next decision creates."""
    run = run_log.plan_run(status, observed, now=now, kind=kind)
    planned = status.model_copy(
        update={
            "current_run": run,
            "mode": run.kind,
            "next_attempt_time": None,
            # With the run, in one write: a nonce that was acted on is never acted on again.
            "observed_triggers": resyncs.record_triggers(status, spec, epoch=run.epoch),
        }
    )
    return Draft(planned, requeue_after=0.0)


def build_creation(
    status: PipelineStatus, observed: Observed, spec: PipelineSpec, run: RunStatus
) -> CreateRun:
    """Return the action for a run that was recorded and is wanted by `spec`."""
    replicates = run.kind != RunKind.DELETION and not run.kind.inspects
    # A comparison starts when the run before it has ended, so that run must not stay.
    stays = replicates and not comparisons.can_begin(status, spec)
    continuous = stays and spec.changelog.trigger == Trigger.CONTINUOUS
    linger_seconds = (spec.changelog.linger_seconds or None) if stays and not continuous else None
    return CreateRun(
        run,
        continuous,
        linger_seconds=linger_seconds,
        reexport=resyncs.build_reexport(status, spec),
        tables=comparisons.list_tables_of_run(status, spec, run),
        max_cpu=comparisons.find_max_cpu(status, spec, run),
        # A record whose question is another one by now was dropped before: it is withdrawn.
        ask=None if run.ask is None else observed.ask,
        short=not continuous and linger_seconds is None and _is_short(status, run),
    )


def _is_short(status: PipelineStatus, run: RunStatus) -> bool:
    """Return whether a run that does not stay is expected to end within a minute.

    planned     the replication before: its kind, start and end    short
    12:10:00    Changelog 12:00:00 to 12:00:40                     yes
    12:10:00    Changelog 12:00:00 to 12:01:40                     no: as long as that one
    12:10:00    Changelog 10:00:00 to 10:00:40                     no: two hours of commits
    12:10:00    Export    12:00:00 to 12:00:40                     no: it says nothing of changes
    """
    if not run.kind.needs_executors:
        return True
    last = comparisons.find_last_replication(status)
    if run.kind != RunKind.CHANGELOG or last is None or last.kind != RunKind.CHANGELOG:
        return False
    began, ended, planned = last.started_at, last.finished_at, run.planned_at
    if last.failure is not None or began is None or ended is None or planned is None:
        return False
    return ended - began <= SHORT_RUN and planned - ended <= SOON
