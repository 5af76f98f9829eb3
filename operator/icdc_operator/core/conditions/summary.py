"""What the status says about a pipeline: conditions, phase and totals. Pure.

True to kstatus: `Reconciling` only while a new generation or the first export is at work,
`Stalled` only where a person must act or know, `Ready` whatever the lag. Every condition is set
from the first visit on and says which generation it is about. Nothing is decided here.
"""

from collections.abc import Iterable
from datetime import datetime

from icdc_api import conditions as api
from icdc_api.conditions import Condition, ConditionStatus, ConditionType
from icdc_api.status import Phase, PipelineStatus, Summary, TableState
from icdc_operator.core.conditions import deleting, kstatus
from icdc_operator.core.conditions.view import PipelineView
from icdc_operator.core.observed import Observed

_STATUS = {
    True: ConditionStatus.TRUE,
    False: ConditionStatus.FALSE,
    None: ConditionStatus.UNKNOWN,
}


def build_conditions(
    status: PipelineStatus, observed: Observed, *, now: datetime
) -> api.ConditionList:
    """Every condition; the time of one whose status did not change stays."""
    view = PipelineView(status, observed, now)
    fresh = [
        Condition(
            type=kind,
            status=_STATUS[claim.holds],
            reason=claim.reason,
            message=claim.message,
            last_transition_time=now,
            observed_generation=observed.generation,
        )
        for kind, claim in (
            (kind, deleting.find_claim(kind, view) or question(view))
            for kind, question in kstatus.QUESTIONS.items()
        )
    ]
    return api.keep_transition_times(observed.status.conditions, fresh, now=now)


def summarize(status: PipelineStatus) -> PipelineStatus:
    """`status`, whose conditions are set, with the phase and the totals for people."""
    in_place = [t for t in status.tables if t.state in (TableState.STREAMING, TableState.COMPLETE)]
    summary = Summary(
        tables=f"{len(in_place)}/{len(status.tables)}",
        snapshots_behind=_greatest(table.snapshots_behind for table in status.tables),
        lag_seconds=_greatest(table.lag_seconds for table in status.tables),
    )
    return status.model_copy(update={"summary": summary, "phase": _choose_phase(status)})


def _choose_phase(status: PipelineStatus) -> Phase:
    ready = status.condition(ConditionType.READY)
    if ready is not None and ready.reason in deleting.REASONS:
        return Phase.DELETING
    if status.holds(ConditionType.STALLED):
        return Phase.STALLED
    if status.holds(ConditionType.SUSPENDED):
        return Phase.SUSPENDED
    if ready is not None and ready.reason == "Retrying":
        return Phase.RETRYING
    states = {table.state for table in status.tables}
    if states == {TableState.COMPLETE}:
        return Phase.COMPLETE
    if TableState.EXPORTING in states:
        return Phase.EXPORTING
    return Phase.PENDING if TableState.PENDING in states or not states else Phase.STREAMING


def _greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
