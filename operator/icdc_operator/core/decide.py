"""Decide the next step of a pipeline. Pure: no clock, no process, no cluster, no catalog.

Level-based: each call sees everything and may be the first after any crash. The status is the
write-ahead log: a run is recorded in `status.currentRun` (Planned) by one decision and created by
a later one, which read the record back; its name and epoch are in the record, so creating it
twice is creating it once. No run is planned or created while anything of another may still write.

    no run --plan--> Planned --create--> Submitted --reported running--> Running
      ^                 |                    |    (asked to stop: Stopping)  |
      +---- dropped ----+                    +---- ended, no writer left ----+

    situation, the first that applies             action
    a deletion has reached its end                remove deletion runs and the finalizer
    runs cannot be read (`blind`)                 none until the permission is there
    no current run, but another run writes        stop it; plan nothing
    no current run, nothing writes                plan one if due, see `planning`
    Planned, not created                          create it; drop it if the spec moved on, and
                                                  end it if that is tried in vain for too long
    current run live, spec unchanged              record its report; read it again after 5 s
    ... and asked to compare or repair            ask it, until its report has the answer
    ... lingers, and something else is due        ask it to end; that is a success
    current run live, spec changed or suspended   ask it to end after its batch
    current run live, cannot start or overran     stop it
    current run live, reported its end long ago   stop it
    current run ended, nothing of it writes       move it to the log; plan the next
"""

from dataclasses import replace
from datetime import datetime, timedelta

from icdc_api.base import to_milliseconds
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunKind, RunState, RunStatus
from icdc_operator.core import deletion, lag, progress, retry, run_log, schedule
from icdc_operator.core.asked import asks, comparisons, continuous_run
from icdc_operator.core.conditions import summary
from icdc_operator.core.limits import status_size
from icdc_operator.core.observed import (
    Action,
    Decision,
    ForgetRun,
    Observed,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_operator.core.run_planning import Draft, build_creation, plan_next

OBSERVE_SECONDS = 5.0
"""Seconds between two reads of a live run. An adapter that watches its objects reads earlier."""

DENIED_SECONDS = 60.0
"""Seconds until a denied operation is retried: no watch reports that a permission was added."""


def decide(observed: Observed, now: datetime) -> Decision:
    """Return the next step for what was observed at `now`, a time with a zone.

    The status of the decision must be durable before its actions are carried out. The package has
    an example.
    """
    # As a status holds times after it was written and read: comparisons then agree with it.
    now = to_milliseconds(now)
    if observed.asked_at is not None:
        observed = replace(observed, asked_at=to_milliseconds(observed.asked_at))
    # Reports first: what a run has done must be in the status before anything is decided on it.
    draft = _choose_step(_merge_observations(observed, now), observed, now)
    recorded = draft.status.model_copy(
        update={"conditions": summary.build_conditions(draft.status, observed, now=now)}
    )
    return Decision(
        status=status_size.fit(summary.summarise(recorded), observed.status_room),
        actions=(
            *deletion.require_finalizer(observed, draft.actions),
            *run_log.list_removals(observed, draft.status),
        ),
        requeue_after=_compute_requeue_after(draft, observed, now),
        settled=draft.settled,
    )


def _compute_requeue_after(draft: Draft, observed: Observed, now: datetime) -> float | None:
    denied = None if observed.denied is None else DENIED_SECONDS
    # A live run is observed often enough.
    idle = draft.status.current_run is None
    lags = lag.compute_refresh_seconds(draft.status.tables, now=now) if idle else None
    waits = (draft.requeue_after, denied, deletion.compute_seconds_left(observed, now=now), lags)
    return min((seconds for seconds in waits if seconds is not None), default=None)


def must_stop(observed: Observed, run: RunStatus) -> bool:
    """Return whether the live run should end because the spec no longer asks for it."""
    deletes = run.kind == RunKind.DELETION and deletion.is_active(observed)
    if observed.closing and not deletes:
        return True
    if observed.spec is None:
        return False  # an invalid spec changes nothing: the last valid one goes on
    # A run never reads a newer spec. Where the same is in it, `adopt_generation` has updated this.
    if run.generation != observed.generation:
        return True
    if run.ask is not None:
        return asks.is_withdrawn(run, observed)  # a suspended pipeline answers questions too
    if observed.spec.suspend and not deletes:
        return True
    return continuous_run.must_make_room(observed.status, observed, run)


def _merge_observations(observed: Observed, now: datetime) -> PipelineStatus:
    """Return the last status, moved to this generation and updated from report or heads."""
    before = observed.status
    if before.observed_generation != observed.generation:
        # The new spec may be the correction that the failures waited for: try it without backoff.
        generation = {"observed_generation": observed.generation}
        before = retry.reset_failures(before).model_copy(update=generation)
    before = continuous_run.adopt_generation(before, observed)
    before = retry.limit_wait(before, observed.spec, now=now)
    if observed.spec is None:
        tables = before.tables
    else:
        tables = progress.match_tables(observed.spec, before.tables, now=now)
    seen = observed.find_run(before.current_run)
    if before.current_run is not None and seen is not None and seen.report is not None:
        tables = progress.apply_report(tables, seen.report, before.current_run, now=now)
    elif before.current_run is None and observed.heads is not None:
        # During a run only its report counts: it knows what is already in the index.
        tables = progress.apply_heads(tables, observed.heads, now=now)
    tables = progress.refresh_lags(observed.status.tables, tables, now=now)
    return before.model_copy(
        update={"tables": tables, "operator_version": observed.operator_version}
    )


def _choose_step(status: PipelineStatus, observed: Observed, now: datetime) -> Draft:
    """Return the step of the first situation in the module's table that applies."""
    # Before `blind`: a missing permission must not hold a deleted pipeline past its deadline.
    end = deletion.find_end(status, observed, now=now)
    if end is not None:
        return Draft(status, deletion.list_last_actions(status, observed, end), settled=True)
    if observed.blind:
        # Without reading runs, one that still writes could be missed, and another one created.
        return Draft(status)
    run = status.current_run
    seen = observed.find_run(run)
    strays = _stop_strays(observed, run)
    if run is None:
        if strays:
            return Draft(status, strays, OBSERVE_SECONDS)
        return plan_next(status, observed, now)
    if seen is None and run.state == RunState.PLANNED:
        return _handle_planned_run(status, run, observed, strays=strays, now=now)
    if seen is not None and seen.live:
        draft = _handle_live_run(status, run, seen, observed, now=now)
        return replace(draft, actions=strays + draft.actions)
    # Before the next run is planned, so that one decision both ends and plans: no idle round trip.
    closed = _close_run(status, run, seen, observed, now=now)
    if strays:
        return Draft(closed, strays, OBSERVE_SECONDS)
    return plan_next(closed, observed, now)


def _stop_strays(observed: Observed, run: RunStatus | None) -> tuple[Action, ...]:
    """Return stops for live runs that no record asks for, such as after a lost status."""
    current = None if run is None else (run.name, run.epoch)
    return tuple(
        StopRun(seen.name, graceful=False)
        for seen in observed.runs
        if seen.live and (seen.name, seen.epoch) != current
    )


def _handle_planned_run(
    status: PipelineStatus,
    run: RunStatus,
    observed: Observed,
    *,
    strays: tuple[Action, ...],
    now: datetime,
) -> Draft:
    """Create the run of the record, or drop the record if the spec moved on."""
    # The record was read back, so it is durable: a decision that plans never creates.
    if strays:
        return Draft(status, strays, OBSERVE_SECONDS)
    if observed.spec is None or must_stop(observed, run):
        # Nothing of it exists, so nothing is stopped; the next plan may take its name.
        return Draft(status.model_copy(update={"current_run": None}), (), 0.0)
    failure = run_log.find_creation_timeout(run, observed, now=now)
    if failure is not None:
        # As one that does not start: else nobody would learn that it is tried in vain.
        failed = run.model_copy(update={"failure": failure})
        draft = plan_next(_close_run(status, failed, None, observed, now=now), observed, now)
        # A part of it may exist, which is found by its name alone.
        return replace(draft, actions=(ForgetRun(run.name), *draft.actions))
    create = build_creation(status, observed, observed.spec, run)
    return Draft(status, (create,), OBSERVE_SECONDS)


def _handle_live_run(
    status: PipelineStatus, run: RunStatus, seen: RunSeen, observed: Observed, *, now: datetime
) -> Draft:
    """Record the state of the live run, and stop it where that is due."""
    run = run_log.limit_times(run, now=now)
    started = run.started_at or seen.started_at
    if started is None and seen.phase != RunPhase.PENDING:
        started = now
    running = seen.phase == RunPhase.RUNNING and seen.report is not None
    state = run.state
    # Stopping is final: a report that says Running was written before the request to stop.
    if state != RunState.STOPPING:
        state = RunState.RUNNING if running else RunState.SUBMITTED
    run = run.model_copy(update={"state": state, "started_at": started})
    stop = _find_stop(run, seen, observed, now)
    if stop is not None:
        run = stop[0]
    status = status.model_copy(update={"current_run": run})
    # During the run, not at its end: a continuous run may never end.
    if run_log.has_proved_itself(run, seen, now=now):
        status = retry.reset_failures(status)
    if stop is not None:
        return Draft(status, (stop[1],), OBSERVE_SECONDS)
    if run_log.hangs_at_its_end(seen.report, now=now):
        # Not Stopping: how it ended is in its report, and is judged as of any other run.
        return Draft(status, (StopRun(run.name, graceful=True),), OBSERVE_SECONDS)
    return Draft(*continuous_run.advance(status, run, seen, observed, now=now), OBSERVE_SECONDS)


def _find_stop(
    run: RunStatus, seen: RunSeen, observed: Observed, now: datetime
) -> tuple[RunStatus, StopRun] | None:
    """Return the run as Stopping and its stop action; None while it may go on."""
    spec = observed.spec
    due = run.state == RunState.STOPPING or must_stop(observed, run)
    due = due or schedule.must_end_lingering(observed.status, observed, run, now=now)
    # The time-outs are in the spec: while it is invalid, a live run is not limited by any.
    if not due and spec is not None:
        failure = run_log.find_hopeless_failure(run, seen, now=now)
        failure = failure or run_log.find_start_timeout(run, seen, spec, now=now)
        run = run.model_copy(update={"failure": failure})
        due = failure is not None or run_log.has_overrun(run, spec, now=now)
    if not due:
        return None
    run = run.model_copy(update={"state": RunState.STOPPING})
    # A run that does not even report cannot be asked to end by itself. Without executors it writes
    # nothing, and its batch would not end.
    graceful = run.failure is None and not seen.waits_for_executors
    return run, StopRun(run.name, graceful=graceful)


def _close_run(
    status: PipelineStatus,
    run: RunStatus,
    seen: RunSeen | None,
    observed: Observed,
    *,
    now: datetime,
) -> PipelineStatus:
    """Move the ended run, of which nothing writes any more, to the log; judge its failure."""
    # A question stands beside the spec: its run counts neither as last run nor as failure.
    if run.ask is not None:
        return asks.close_run(status, run, seen, observed=observed, now=now)
    ended = run_log.finish_run(run, seen, now=now)
    status = status.model_copy(
        update={
            "current_run": None,
            "last_run": ended,
            "recent_runs": run_log.add_to_log(status.recent_runs, ended),
        }
    )
    if run.kind.inspects:
        return comparisons.close_run(status, run, seen, observed=observed, now=now)
    done = schedule.lingers(seen) and not any(map(progress.is_behind, status.tables))
    if run.state == RunState.STOPPING and run.failure is None and not done:
        # It was asked to end, so how it ended says nothing about the next run. What it had not
        # done yet is due now, also where no head has changed since.
        return status.model_copy(update={"next_attempt_time": now})
    if observed.spec is None:
        return status  # no policy to judge by; a corrected spec is a new generation, due at once
    deletes = run.kind == RunKind.DELETION
    failure = ended.failure or (None if deletes else retry.find_passing_failure(status.tables))
    if failure is None:
        return retry.reset_failures(status)
    verdict = retry.judge(
        failure,
        policy=observed.spec.retry,
        failures=status.consecutive_failures,
        newest_first=status.recent_runs,
        key=f"{observed.namespace}/{observed.name}",
    )
    # Only the time-out of a deletion ends its attempts.
    delay = deletion.limit_delay(verdict.delay, observed.spec) if deletes else verdict.delay
    next_attempt = None if delay is None else now + timedelta(seconds=delay)
    failures = status.consecutive_failures + (1 if verdict.counted else 0)
    return status.model_copy(
        update={"consecutive_failures": failures, "next_attempt_time": next_attempt}
    )
