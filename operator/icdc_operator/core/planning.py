"""What is to be done while no run is at work: plan one, wait for its time or its turn, or rest.

Pure. Whether a run is due is `schedule`'s business, what its record holds `run_log`'s.
"""

from dataclasses import dataclass
from datetime import datetime

from icdc_api.runs import RunKind
from icdc_api.spec import PipelineSpec
from icdc_api.status import PipelineStatus
from icdc_operator.core import asks, deletion, resyncs, run_log, schedule
from icdc_operator.core.observed import Action, Observed


@dataclass(frozen=True)
class Step:
    """What one decision has found out so far."""

    status: PipelineStatus
    actions: tuple[Action, ...] = ()
    requeue_after: float | None = None
    settled: bool = False


def next_run(known: PipelineStatus, observed: Observed, now: datetime) -> Step:
    """Nothing is at work: plan a run, wait for its time or its turn, or rest."""
    if deletion.is_at_work(observed):
        return _next_deletion(known, observed, now)
    spec, ask = observed.spec, asks.pending(known, observed)
    if spec is not None and ask is not None:
        if observed.queued is not None:
            return Step(known, requeue_after=observed.queued.look_after)
        return Step(asks.planned(known, observed, spec, ask, now=now), requeue_after=0.0)
    if spec is None or spec.suspend:
        return Step(known.model_copy(update={"next_attempt_time": None}), settled=True)
    if observed.closing:
        return Step(known, settled=True)
    due = schedule.next_due(known, observed, spec, now=now)
    if due.at is None or due.at > now:
        waits = [due.look_after] if due.look_after is not None else []
        if due.at is not None:
            waits.append((due.at - now).total_seconds())
        return Step(known, requeue_after=min(waits, default=None), settled=due.settled)
    if observed.queued is not None:
        return Step(schedule.in_line(known, now), requeue_after=observed.queued.look_after)
    return _planned_run(known, observed, spec, now=now)


def _next_deletion(known: PipelineStatus, observed: Observed, now: datetime) -> Step:
    """Nothing is at work on a pipeline that waits for its indices: delete them, or let it go."""
    ending = deletion.ending(known, observed, now=now)
    if ending is not None:
        return Step(known, deletion.last_actions(known, observed, ending), settled=True)
    if observed.spec is None:
        return Step(known.model_copy(update={"next_attempt_time": None}))
    due = deletion.due(known, now=now)
    if due > now:
        return Step(known, requeue_after=(due - now).total_seconds())
    return _planned_run(known, observed, observed.spec, now=now, kind=RunKind.DELETION)


def _planned_run(
    known: PipelineStatus,
    observed: Observed,
    spec: PipelineSpec,
    *,
    now: datetime,
    kind: RunKind | None = None,
) -> Step:
    """Records the next run; `kind` None: what the tables need."""
    run = run_log.planned(known, observed, spec, now=now, kind=kind)
    planned = known.model_copy(
        update={
            "current_run": run,
            "mode": run.kind,
            "next_attempt_time": None,
            "observed_triggers": resyncs.observed(known, spec, epoch=run.epoch),
        }
    )
    return Step(planned, requeue_after=0.0)
