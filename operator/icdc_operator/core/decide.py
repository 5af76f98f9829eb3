"""Which step a pipeline needs next. Pure: no clock, no process, no cluster, no catalog.

Level-based: each call sees everything and may be the first after any crash. The status is the
write-ahead log: a run is recorded in `status.currentRun` (Planned) by one decision and created by
a later one, which found the record durable; its name and epoch are in the record, so creating it
twice is creating it once. No run is planned or created while anything of another may still write.

    nothing at work --plan--> Planned --create--> Submitted --seen running--> Running
        ^                        |                    |    (stop asked for: Stopping)  |
        +------- dropped --------+                    +---- ended, no writer left -----+
"""

from dataclasses import replace
from datetime import datetime, timedelta

from icdc_api.runs import RunKind, RunState, RunStatus
from icdc_api.spec import Trigger
from icdc_api.status import PipelineStatus
from icdc_operator.core import (
    asks,
    comparisons,
    deletion,
    planning,
    progress,
    resyncs,
    retry,
    run_log,
)
from icdc_operator.core.conditions import summary
from icdc_operator.core.observed import (
    Action,
    CreateRun,
    Decision,
    ForgetRun,
    Observed,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_operator.core.planning import Draft

OBSERVE_SECONDS = 5.0
"""Between two looks at a live run. An adapter that is told of changes may look earlier."""

DENIED_SECONDS = 60.0
"""Until it is tried again what the adapter was not allowed to do: nobody tells of a new right."""


def decide(observed: Observed, now: datetime) -> Decision:
    """The next step for what was observed at `now` (aware).

    The answer's status must be durable before its actions are carried out.
    """
    now = _as_written(now)
    if observed.asked_at is not None:
        observed = replace(observed, asked_at=_as_written(observed.asked_at))
    step = _choose_step(_merge_observations(observed, now), observed, now)
    recorded = step.status.model_copy(
        update={"conditions": summary.build_conditions(step.status, observed, now=now)}
    )
    return Decision(
        status=summary.summarize(recorded),
        actions=deletion.require_finalizer(observed, step.actions)
        + _forget_runs(observed, step.status),
        requeue_after=_requeue_after(step, observed, now),
        settled=step.settled,
    )


def _requeue_after(step: Draft, observed: Observed, now: datetime) -> float | None:
    denied = None if observed.denied is None else DENIED_SECONDS
    waits = (step.requeue_after, denied, deletion.seconds_left(observed, now=now))
    return min((each for each in waits if each is not None), default=None)


def _as_written(moment: datetime) -> datetime:
    """To the millisecond, as a status has it after it was written and read back."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def reset_failures(before: PipelineStatus) -> PipelineStatus:
    """`before` without its failures: somebody asks for a new start, such as by `icdc run`."""
    return before.model_copy(update={"consecutive_failures": 0, "next_attempt_time": None})


def wants_stop(observed: Observed, run: RunStatus) -> bool:
    """Whether the live run should end, because its spec is not the one to run any more."""
    deletes = run.kind == RunKind.DELETION and deletion.is_active(observed)
    if observed.closing and not deletes:
        return True
    if observed.spec is None:
        return False  # a wrong spec changes nothing: the last good one goes on
    if run.generation != observed.generation:
        return True
    if run.ask is not None:
        return asks.is_withdrawn(run, observed)  # a suspended pipeline answers questions too
    if observed.spec.suspend and not deletes:
        return True
    return asks.must_make_room(observed.status, observed, run)


def _merge_observations(observed: Observed, now: datetime) -> PipelineStatus:
    """The last status, brought to this generation and filled with what the runs report."""
    before = observed.status
    if before.observed_generation != observed.generation:
        before = reset_failures(before).model_copy(
            update={"observed_generation": observed.generation}
        )
    if observed.spec is None:
        tables = before.tables
    else:
        tables = progress.match_tables(observed.spec, before.tables)
    seen = observed.seen(before.current_run)
    if before.current_run is not None and seen is not None and seen.report is not None:
        tables = progress.apply_report(tables, seen.report, before.current_run, now=now)
    elif before.current_run is None and observed.heads is not None:
        tables = progress.apply_heads(tables, observed.heads)
    return before.model_copy(
        update={"tables": tables, "operator_version": observed.operator_version}
    )


def _choose_step(known: PipelineStatus, observed: Observed, now: datetime) -> Draft:
    ending = deletion.find_end(known, observed, now=now)
    if ending is not None:
        return Draft(known, deletion.list_last_actions(known, observed, ending), settled=True)
    if observed.blind:
        return Draft(known)
    run = known.current_run
    seen = observed.seen(run)
    strays = _stop_strays(observed, run)
    if run is None:
        if strays:
            return Draft(known, strays, OBSERVE_SECONDS)
        return planning.plan_next(known, observed, now)
    if seen is None and run.state == RunState.PLANNED:
        return _handle_planned_run(known, run, observed, strays=strays)
    if seen is not None and seen.live:
        step = _handle_live_run(known, run, seen, observed, now=now)
        return replace(step, actions=strays + step.actions)
    closed = _close_run(known, run, seen, observed, now=now)
    if strays:
        return Draft(closed, strays, OBSERVE_SECONDS)
    return planning.plan_next(closed, observed, now)


def _stop_strays(observed: Observed, run: RunStatus | None) -> tuple[Action, ...]:
    """Stops for runs that still write although no record asks for them."""
    current = None if run is None else (run.name, run.epoch)
    return tuple(
        StopRun(seen.name, graceful=False)
        for seen in observed.runs
        if seen.live and (seen.name, seen.epoch) != current
    )


def _handle_planned_run(
    known: PipelineStatus, run: RunStatus, observed: Observed, *, strays: tuple[Action, ...]
) -> Draft:
    """The record is there, the run is not: create it, or drop the record if it is outdated."""
    if observed.status.current_run != run or strays:
        return Draft(known, strays, OBSERVE_SECONDS)
    if observed.spec is None or wants_stop(observed, run):
        return Draft(known.model_copy(update={"current_run": None}), (), 0.0)
    follows = run.kind != RunKind.DELETION and not run.kind.inspects
    continuous = follows and observed.spec.changelog.trigger == Trigger.CONTINUOUS
    # A comparison waits for the end of the run that comes before it.
    continuous = continuous and comparisons.find_requested(known, observed.spec) is None
    compares = run.kind.inspects and run.ask is None
    create = CreateRun(
        run,
        continuous,
        reexport=resyncs.build_reexport(known, observed.spec),
        tables=comparisons.table_names(known, observed.spec) if compares else None,
    )
    return Draft(known, (create,), OBSERVE_SECONDS)


def _handle_live_run(
    known: PipelineStatus, run: RunStatus, seen: RunSeen, observed: Observed, *, now: datetime
) -> Draft:
    """The run lives: note how it does, and stop it where that is due."""
    started = run.started_at or seen.started_at
    if started is None and seen.phase != RunPhase.PENDING:
        started = now
    working = seen.phase == RunPhase.RUNNING and seen.report is not None
    state = run.state
    if state != RunState.STOPPING:
        state = RunState.RUNNING if working else RunState.SUBMITTED
    run = run.model_copy(update={"state": state, "started_at": started})
    stop = _find_stop(run, seen, observed, now)
    if stop is not None:
        run = stop[0]
    known = known.model_copy(update={"current_run": run})
    if run_log.has_proved_itself(run, seen, now=now):
        known = reset_failures(known)
    return Draft(known, () if stop is None else (stop[1],), OBSERVE_SECONDS)


def _find_stop(
    run: RunStatus, seen: RunSeen, observed: Observed, now: datetime
) -> tuple[RunStatus, StopRun] | None:
    """The run as stopping and the action for it; None while it may go on."""
    spec = observed.spec
    wanted = run.state == RunState.STOPPING or wants_stop(observed, run)
    if not wanted and spec is not None:
        failure = run_log.find_hopeless_failure(run, seen, now=now)
        failure = failure or run_log.find_start_timeout(run, seen, spec, now=now)
        run = run.model_copy(update={"failure": failure})
        wanted = failure is not None or run_log.has_overrun(run, spec, now=now)
    if not wanted:
        return None
    run = run.model_copy(update={"state": RunState.STOPPING})
    # A run that does not even report cannot be asked to end by itself.
    return run, StopRun(run.name, graceful=run.failure is None)


def _close_run(
    known: PipelineStatus,
    run: RunStatus,
    seen: RunSeen | None,
    observed: Observed,
    *,
    now: datetime,
) -> PipelineStatus:
    """The run has ended and nothing of it writes any more: into the history with it."""
    if run.ask is not None:
        return asks.close_run(known, run, seen, observed, now)
    ended = run_log.finish_run(run, seen, now=now)
    known = known.model_copy(
        update={
            "current_run": None,
            "last_run": ended,
            "recent_runs": run_log.add_to_log(known.recent_runs, ended),
        }
    )
    if run.kind.inspects:
        return comparisons.close_run(known, run, seen, observed, now)
    if run.state == RunState.STOPPING and run.failure is None:
        # It was asked to end, so how it ended says nothing about the one that follows.
        return known.model_copy(update={"next_attempt_time": now})
    if observed.spec is None:
        return known
    deletes = run.kind == RunKind.DELETION
    failure = ended.failure or (None if deletes else retry.find_passing_failure(known.tables))
    if failure is None:
        return reset_failures(known)
    verdict = retry.judge(
        failure,
        policy=observed.spec.retry,
        failures=known.consecutive_failures,
        newest_first=known.recent_runs,
        key=f"{observed.namespace}/{observed.name}",
    )
    # A deletion is never given up before its time-out.
    delay = deletion.limit_delay(verdict.delay, observed.spec) if deletes else verdict.delay
    wait = None if delay is None else now + timedelta(seconds=delay)
    failures = known.consecutive_failures + (1 if verdict.counted else 0)
    return known.model_copy(update={"consecutive_failures": failures, "next_attempt_time": wait})


def _forget_runs(observed: Observed, after: PipelineStatus) -> tuple[Action, ...]:
    """Ended runs that neither the record nor the kept history holds."""
    kept = {run.name for run in run_log.select_retained(after.recent_runs, observed.spec)}
    if after.current_run is not None:
        kept.add(after.current_run.name)
    if after.observed_ask is not None:
        kept.add(after.observed_ask.run)  # its pod holds the answer
    # What is left of an attempt may have the name of another that still writes.
    kept |= {seen.name for seen in observed.runs if seen.live}
    return tuple(
        ForgetRun(seen.name) for seen in observed.runs if not seen.live and seen.name not in kept
    )
