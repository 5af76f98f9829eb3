"""The last step of a decision: conditions with their times, then the phase and the totals.

True to kstatus: `Reconciling` only during a new generation or the first export, `Stalled` only
where a person must act or know, `Ready` whatever the lag. Every condition is set from the first
reconcile on and names the generation it is about. Nothing is decided here. Pure.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from icdc_api.status.conditions import ConditionList, ConditionStatus, ConditionType, restate
from icdc_api.status.pipeline_status import Phase, PipelineStatus, Summary, TableState
from icdc_operator.core.conditions import deleting, details, kstatus
from icdc_operator.core.conditions.view import Claim, PipelineView
from icdc_operator.core.observed import Observed

CLAIMS: dict[ConditionType, Callable[[PipelineView], Claim]] = {
    ConditionType.READY: kstatus.claim_ready,
    ConditionType.RECONCILING: kstatus.claim_reconciling,
    ConditionType.STALLED: kstatus.claim_stalled,
    ConditionType.SPEC_VALID: details.claim_spec_valid,
    ConditionType.EXPORTED: details.claim_exported,
    ConditionType.RUN_ACTIVE: details.claim_run_active,
    ConditionType.CAUGHT_UP: details.claim_caught_up,
    ConditionType.SUSPENDED: details.claim_suspended,
    ConditionType.SNAPSHOTS_PINNED: details.claim_snapshots_pinned,
    ConditionType.DEAD_LETTERS: details.claim_dead_letters,
    ConditionType.DUPLICATES: details.claim_duplicates,
    ConditionType.VERIFIED: details.claim_verified,
}
"""The function for each condition, in the order in which the status lists them."""

_STATUS = {
    True: ConditionStatus.TRUE,
    False: ConditionStatus.FALSE,
    None: ConditionStatus.UNKNOWN,
}


def build_conditions(status: PipelineStatus, observed: Observed, *, now: datetime) -> ConditionList:
    """Return every condition of `status`; one whose status did not change retains its time."""
    view = PipelineView(status, observed, now)
    # A deletion replaces only Ready, Reconciling and Stalled; the others stay as they are.
    claims = {
        kind: deleting.find_claim(kind, view) or claim(view) for kind, claim in CLAIMS.items()
    }
    before = {condition.type: condition for condition in observed.status.conditions}
    return tuple(
        restate(
            before.get(kind),
            kind=kind,
            status=_STATUS[claim.holds],
            reason=claim.reason,
            message=claim.message,
            generation=observed.generation,
            now=now,
        )
        for kind, claim in claims.items()
    )


def summarise(status: PipelineStatus) -> PipelineStatus:
    """Return `status`, whose conditions are set, with its phase and its totals for people."""
    ready = (TableState.STREAMING, TableState.COMPLETE)
    exported = [table for table in status.tables if table.state in ready]
    caught_up = status.find_condition(ConditionType.CAUGHT_UP)
    # The zeros of its tables are old: nothing is heard of a driver that said that all is done.
    unknown = caught_up is not None and caught_up.status is ConditionStatus.UNKNOWN
    known = () if unknown else status.tables
    summary = Summary(
        tables=f"{len(exported)}/{len(status.tables)}",
        snapshots_behind=_find_greatest(table.snapshots_behind for table in known),
        lag_seconds=_find_greatest(table.lag_seconds for table in known),
        export=_describe_exports(status),
    )
    return status.model_copy(update={"summary": summary, "phase": _choose_phase(status)})


def _describe_exports(status: PipelineStatus) -> str | None:
    """Return what `kubectl get` says of exports: `12/40, 3100 rows/s, until 2026-11-26T14:05Z`."""
    exporting = [table for table in status.tables if table.state is TableState.EXPORTING]
    exports = [table.export for table in exporting if table.export is not None]
    if not exports:
        return None
    done = sum(export.chunks_done for export in exports)
    parts = [f"{done}/{sum(export.chunks_total for export in exports)}"]
    if status.current_run is None or any(table.export_waits for table in exporting):
        # Suspended, waiting, or between two attempts: when it ends nobody knows.
        return parts[0]
    rate = sum(export.rows_per_second or 0 for export in exports)
    if rate:
        parts.append(f"{rate} rows/s")
    ends = [export.estimated_end for export in exports]
    # Of some exports alone it would be too early.
    if len(exporting) == len(estimates := [end for end in ends if end is not None]):
        parts.append(f"until {max(estimates).astimezone(UTC):%Y-%m-%dT%H:%MZ}")
    return ", ".join(parts)[:64]


def _choose_phase(status: PipelineStatus) -> Phase:
    """Return the one word that matters most: what needs a person comes before what runs."""
    # From the conditions, so that the column of `kubectl get` cannot contradict them.
    ready = status.find_condition(ConditionType.READY)
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


def _find_greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
