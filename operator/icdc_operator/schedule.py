"""When the next run is due while none is at work. Pure.

A table that is stalled is looked at again by every run, and by a run of its own from time to
time: what stalls it often lies outside of the pipeline, and nobody tells when it is mended.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from icdc_api.errors import FailureClass
from icdc_api.runs import RunState, RunStatus
from icdc_api.spec import Mode, PipelineSpec, Trigger
from icdc_api.status import PipelineStatus, TableState
from icdc_operator import progress, retry
from icdc_operator.observed import Observed


@dataclass(frozen=True)
class Due:
    """When a run is due, and when to look again before that."""

    at: datetime | None
    """None: not before something changes."""
    settled: bool = False
    """See `Decision.settled`."""
    look_after: float | None = None
    """Seconds until table heads should be read again; None when they cannot matter."""


def next_due(
    known: PipelineStatus, observed: Observed, spec: PipelineSpec, *, now: datetime
) -> Due:
    """When the next run of a pipeline that may run is due."""
    last = known.last_run
    if last is None or _is_asked_for(known, last, observed, spec):
        return Due(at=now)
    if known.next_attempt_time is not None:
        return Due(at=known.next_attempt_time, settled=_waits_for_person(last))
    if known.consecutive_failures > 0:
        return Due(at=None, settled=True)
    if last.state == RunState.FAILED or last.finished_at is None:
        return Due(at=now)
    return _after_success(known, last.finished_at, observed, spec, now=now)


def _is_asked_for(
    known: PipelineStatus, last: RunStatus, observed: Observed, spec: PipelineSpec
) -> bool:
    """Whether spec or user want a run that the last one cannot have answered."""
    if last.generation != observed.generation:
        return True
    triggers = known.observed_triggers
    if triggers is not None and spec.restart_nonce > triggers.restart_nonce:
        return True
    if triggers is not None and spec.resync.nonce > triggers.resync_nonce:
        return True
    asked = observed.asked_at
    return asked is not None and last.planned_at is not None and last.planned_at < asked


def _after_success(
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
    soonest = finished + timedelta(seconds=poll)
    working = [table for table in known.tables if table.state != TableState.STALLED]
    if spec.mode == Mode.EXPORT_ONLY and all(t.state == TableState.COMPLETE for t in working):
        return Due(at=recheck, settled=True)
    if observed.heads is not None and spec.changelog.trigger == Trigger.ON_COMMIT:
        if progress.has_news(known.tables, observed.heads, spec):
            return Due(at=now)
        return Due(at=recheck, settled=True, look_after=poll)
    if not working:
        return Due(at=recheck, settled=True)
    # Only a run can tell whether there is something new, or the spec wants one to run always.
    return Due(at=soonest, settled=True)


def _waits_for_person(last: RunStatus) -> bool:
    return last.failure is not None and last.failure.failure_class == FailureClass.AUTH
