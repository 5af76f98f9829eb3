"""The conditions beside kstatus's three: one function for each, from view to claim.

They answer one question each and change neither Ready nor Stalled. Transition times are added by
`summary`. Pure.
"""

from icdc_api import naming
from icdc_api.base import format_count
from icdc_api.spec.cautions import find_cautions
from icdc_api.spec.changelog import PinSnapshots, Trigger
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import Duplicates, TableState, TableStatus
from icdc_api.status.runs import RunState
from icdc_operator.core import progress
from icdc_operator.core.asked import comparisons, proofs, verification
from icdc_operator.core.conditions.kstatus import describe_problem
from icdc_operator.core.conditions.messages import (
    AFTER_DIFFERENCES,
    AFTER_REFUSALS,
    join_clauses,
    list_some,
    list_tables,
)
from icdc_operator.core.conditions.view import Claim, PipelineView


def claim_spec_valid(view: PipelineView) -> Claim:
    """Return SpecValid, with cautions about what is allowed but should not be wanted."""
    if view.spec is None:
        return Claim(False, "InvalidSpec", describe_problem(view))
    cautions = list(find_cautions(view.spec))
    return Claim(True, "Valid", list_some(cautions, total=len(cautions)))


def claim_exported(view: PipelineView) -> Claim:
    """Return Exported: readers of every index see a whole snapshot."""
    if view.exported:
        return Claim(True, "Exported")
    missing = [table for table in view.status.tables if not progress.is_exported(table)]
    names = list_tables(missing, lambda table: table.name)
    return Claim(False, "NotExported", f"not exported yet: {names}" if names else "")


def claim_run_active(view: PipelineView) -> Claim:
    """Return RunActive: a run was created and has not ended; its state is the reason."""
    run = view.status.current_run
    if run is not None:
        text = f"run {run.name}{view.hindrance}"
        return Claim(run.state != RunState.PLANNED, run.state.value, text)
    if view.queue_position:
        return Claim(False, "Queued", view.queue_position)
    if view.export_wait:
        return Claim(False, "ExportWindow", view.export_wait)
    return Claim(False, "NoRun")


def claim_caught_up(view: PipelineView) -> Claim:
    """Return CaughtUp: every index equals the newest snapshot known of its table."""
    tables = view.status.tables
    # `all` of no table holds, and a pipeline whose spec was never valid has none.
    caught_up = bool(tables) and all(progress.is_caught_up(table) for table in tables)
    if caught_up and view.unheard:
        return Claim(None, "NotReported", view.unheard)
    if caught_up:
        return Claim(True, "CaughtUp", _describe_unread_tables(view))
    if not any(progress.is_reported(table) for table in tables):
        return Claim(None, "NotReported", "no run has reported a table yet")
    behind = [table for table in tables if not progress.is_caught_up(table)]
    return Claim(False, "Behind", list_tables(behind, _describe_lag))


def _describe_unread_tables(view: PipelineView) -> str:
    """Name the tables that are only known to be caught up as of the last run."""
    heads = view.observed.heads
    if view.spec is None or view.spec.changelog.trigger != Trigger.ON_COMMIT:
        return ""
    if heads is None:
        # Heads are not read during a run; the message stays, so that it does not flap.
        before = view.observed.status.find_condition(ConditionType.CAUGHT_UP)
        return before.message if before is not None and before.reason == "CaughtUp" else ""
    streaming = [table for table in view.status.tables if table.state == TableState.STREAMING]
    unread = [table for table in streaming if table.name not in heads]
    if not unread:
        return ""
    names = list_tables(unread, lambda table: table.name)
    return (
        "as of the last run: the operator cannot read the catalog (see its log), so runs poll it, "
        f"less often while nothing changes: {names}"
    )


def _describe_lag(table: TableStatus) -> str:
    if table.state == TableState.STREAMING and table.snapshots_behind is not None:
        return f"{table.name}: {format_count(table.snapshots_behind, 'snapshot')} behind"
    return f"{table.name}: {table.state.value}"


def claim_suspended(view: PipelineView) -> Claim:
    """Return Suspended: a requested suspend is reached."""
    if view.suspended:
        return Claim(True, "Suspended", "set spec.suspend to false to resume")
    before = view.observed.status.find_condition(ConditionType.SUSPENDED)
    if view.spec is None and before is not None and before.status is ConditionStatus.TRUE:
        return Claim(True, "Suspended", "a spec that is wrong resumes nothing: correct it")
    if view.spec is not None and view.spec.suspend:
        return Claim(False, "Suspending", view.ending)
    return Claim(False, "NotSuspended")


def claim_snapshots_pinned(view: PipelineView) -> Claim:
    """Return SnapshotsPinned: a tag keeps each applied snapshot from being expired."""
    if view.spec is not None and view.spec.changelog.pin_snapshots == PinSnapshots.NEVER:
        return Claim(False, "Never", "spec.changelog.pinSnapshots is Never")
    # An empty table has no snapshot that could expire.
    tables = [table for table in view.status.tables if table.applied_snapshot_id is not None]
    # None is not False: no run has tried yet.
    unpinned = [table for table in tables if table.snapshot_pinned is False]
    if unpinned:
        text = list_tables(unpinned, _describe_pin)
        return Claim(False, "NotPinned", text)
    if tables and all(table.snapshot_pinned for table in tables):
        return Claim(True, "Pinned")
    return Claim(None, "NotReported", "no run has reported yet whether the snapshots are tagged")


def _describe_pin(table: TableStatus) -> str:
    return f"{table.name}: {table.pin_message or 'see the log of the run'}"


def claim_dead_letters(view: PipelineView) -> Claim:
    """Return DeadLetters: an index refuses rows, which are stored as dead letters."""
    tables = [table for table in view.status.tables if table.dead_letters]
    if not tables:
        return Claim(False, "None")
    text = list_tables(tables, _describe_dead_letters)
    return Claim(True, "Refused", join_clauses(text, AFTER_REFUSALS))


def _describe_dead_letters(table: TableStatus) -> str:
    stored = naming.name_dead_letters_index(table.index)
    refused = format_count(table.dead_letters, "refused row")
    return f"{table.name}: {refused}, stored in {stored}"


def claim_duplicates(view: PipelineView) -> Claim:
    """Return Duplicates: keys occur in more than one row, of which one is the document."""
    tables = [table for table in view.status.tables if table.duplicates and table.duplicates.count]
    if not tables:
        return Claim(False, "Unique")
    return Claim(True, "Found", list_tables(tables, _describe_duplicates))


def _describe_duplicates(table: TableStatus) -> str:
    found = table.duplicates or Duplicates()
    text = f"{table.name}: {format_count(found.count, 'key')} in more than one row"
    return text + (", such as " if found.samples else "") + ", ".join(found.samples[:3])


def claim_verified(view: PipelineView) -> Claim:
    """Return Verified: the last comparison found index and table equal, or repaired."""
    pending = None
    if view.spec is not None:
        pending = comparisons.describe_pending(view.status, view.spec)
    if pending is not None:
        return Claim(None, "Pending", pending)
    result, tables = verification.find_worst(view.status.tables)
    holds = verification.STATUS_BY_RESULT[result]
    # A difference comes first: somebody must act on it, however old it is.
    if holds is not False and view.spec is not None:
        unproven = proofs.list_unproven(view.status, view.spec)
        if unproven:
            return Claim(None, "NotVerified", list_tables(unproven, proofs.describe_table))
        overdue = proofs.list_overdue(view.status, view.spec, now=view.now)
        if overdue:
            return Claim(None, "Overdue", list_tables(overdue, proofs.describe_table))
    text = "raise spec.resync.nonce with mode Verify to compare index and table"
    if tables:
        text = list_tables(tables, verification.describe_table)
    age = "" if view.spec is None else proofs.describe_age(view.status, view.spec)
    text += age
    if holds is False:
        text = join_clauses(text, AFTER_DIFFERENCES)
    return Claim(holds, result.value, text)
