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
class Draft:
    """What one decision has found out so far."""

    status: PipelineStatus
    actions: tuple[Action, ...] = ()
    requeue_after: float | None = None
    settled: bool = False


def plan_next(known: PipelineStatus, observed: Observed, now: datetime) -> Draft:
    """Nothing is at work: plan a run, wait for its time or its turn, or rest."""
    if deletion.is_active(observed):
        return _plan_deletion(known, observed, now)
    spec, ask = observed.spec, asks.find_pending(known, observed)
    if spec is not None and ask is not None:
        if observed.queued is not None:
            return Draft(known, requeue_after=observed.queued.look_after)
        return Draft(asks.plan_run(known, observed, spec, ask, now=now), requeue_after=0.0)
    if spec is None or spec.suspend:
        return Draft(known.model_copy(update={"next_attempt_time": None}), settled=True)
    if observed.closing:
        return Draft(known, settled=True)
    due = schedule.find_next_due(known, observed, spec, now=now)
    if due.at is None or due.at > now:
        waits = [due.look_after] if due.look_after is not None else []
        if due.at is not None:
            waits.append((due.at - now).total_seconds())
        return Draft(known, requeue_after=min(waits, default=None), settled=due.settled)
    if observed.queued is not None:
        return Draft(schedule.mark_queued(known, now), requeue_after=observed.queued.look_after)
    return _record_run(known, observed, spec, now=now)


def _plan_deletion(known: PipelineStatus, observed: Observed, now: datetime) -> Draft:
    """Nothing is at work on a pipeline that waits for its indices: delete them, or let it go."""
    ending = deletion.find_end(known, observed, now=now)
    if ending is not None:
        return Draft(known, deletion.list_last_actions(known, observed, ending), settled=True)
    if observed.spec is None:
        return Draft(known.model_copy(update={"next_attempt_time": None}))
    due = deletion.next_attempt_at(known, now=now)
    if due > now:
        return Draft(known, requeue_after=(due - now).total_seconds())
    return _record_run(known, observed, observed.spec, now=now, kind=RunKind.DELETION)


def _record_run(
    known: PipelineStatus,
    observed: Observed,
    spec: PipelineSpec,
    *,
    now: datetime,
    kind: RunKind | None = None,
) -> Draft:
    """Records the next run; `kind` None: what the tables need."""
    run = run_log.plan_run(known, observed, spec, now=now, kind=kind)
    planned = known.model_copy(
        update={
            "current_run": run,
            "mode": run.kind,
            "next_attempt_time": None,
            "observed_triggers": resyncs.record_triggers(known, spec, epoch=run.epoch),
        }
    )
    return Draft(planned, requeue_after=0.0)
