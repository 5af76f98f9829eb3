"""What holds of a pipeline: one question for each condition, answered from status and observation.

Pure, and the only place with the wording of conditions. Times, and what a condition was before,
are `status`'s business, except where an answer must not flap.
"""

from collections.abc import Callable, Iterable

from icdc_api.cautions import find_cautions
from icdc_api.conditions import ConditionType
from icdc_api.errors import FailureClass, WhoActs
from icdc_api.runs import Failure, RunState
from icdc_api.spec import PinSnapshots, Trigger
from icdc_api.status import PipelineStatus, TableState, TableStatus
from icdc_operator.core import comparisons, progress, verification
from icdc_operator.core.conditions.table_lists import MAX_LISTED, list_tables
from icdc_operator.core.conditions.view import Claim, PipelineView


def _ready(view: PipelineView) -> Claim:
    if view.spec is None:
        return Claim(False, "InvalidSpec", view.observed.problem or "the spec is wrong")
    if view.observed.denied is not None:
        return Claim(False, *_denied(view.observed.denied))
    if view.suspended:
        return Claim(True, "Suspended", "suspended as asked; progress is kept")
    stalled = _stalled(view)
    if stalled.holds:
        return Claim(False, stalled.reason, stalled.message)
    if view.failure is not None:
        return Claim(False, "Retrying", _joined(view.line, _retrying(view.status, view.failure)))
    reconciling = _reconciling(view)
    if reconciling.holds:
        return Claim(False, reconciling.reason, reconciling.message)
    states = {table.state for table in view.status.tables}
    reason = "Complete" if states == {TableState.COMPLETE} else "Streaming"
    return Claim(True, reason, _joined(view.line, _duplicates(view.status.tables)))


def _reconciling(view: PipelineView) -> Claim:
    if view.spec is None:
        return Claim(False, "InvalidSpec")
    if view.observed.denied is not None:
        return Claim(False, "Stalled")
    if view.suspended:
        return Claim(False, "Suspended")
    if view.spec.suspend:
        return Claim(True, "Suspending", "the current batch is finished first")
    if _stalled(view).holds:
        return Claim(False, "Stalled")
    if not view.exported:
        return Claim(True, "Exporting", f"not every table has been exported yet{view.hindrance}")
    if not _in_effect(view):
        text = f"the spec was changed and is not yet in effect{view.hindrance}"
        return Claim(True, "NewGeneration", text)
    return Claim(False, "UpToDate")


def _in_effect(view: PipelineView) -> bool:
    """Whether a run of this generation has taken hold of every table; once so, it stays so."""
    generation = view.observed.generation
    before = view.observed.status.condition(ConditionType.RECONCILING)
    same = before is not None and before.observed_generation == generation
    # Suspended or Stalled say nothing about the spec; only UpToDate was seen working.
    if before is not None and same and before.reason == "UpToDate":
        return True
    last, run = comparisons.last_replication_run(view.status), view.following_run
    if last is not None and last.generation == generation and last.state == RunState.SUCCEEDED:
        return True
    if run is None or run.generation != generation:
        return False
    reports = (seen.report for seen in view.observed.runs if seen.name == run.name)
    report = next((each for each in reports if each is not None), None)
    looked_at = {t.name for t in (report.tables if report else ()) if progress.is_reported(t)}
    return all(table.name in looked_at for table in view.status.tables)


def _stalled(view: PipelineView) -> Claim:
    if view.spec is None:
        return Claim(True, "InvalidSpec", view.observed.problem or "the spec is wrong")
    if view.observed.denied is not None:
        return Claim(True, *_denied(view.observed.denied))
    if view.spec.suspend:
        return Claim(False, "Suspended")
    tables = view.stalled_tables
    if tables:
        return Claim(True, "TableStalled", list_tables(tables, _why))
    failure = view.failure
    if failure is not None:
        status = view.status
        waits = status.next_attempt_time is not None or view.following_run is not None
        given_up = status.consecutive_failures > 0 and not waits
        auth = failure.failure_class == FailureClass.AUTH
        if given_up or auth or view.outlasted or view.contested:
            return Claim(True, failure.reason, _stalled_by(view, failure))
    return Claim(False, "Working")


def _spec_valid(view: PipelineView) -> Claim:
    if view.spec is None:
        return Claim(False, "InvalidSpec", view.observed.problem or "the spec is wrong")
    return Claim(True, "Valid", "; ".join(find_cautions(view.spec)))


def _exported(view: PipelineView) -> Claim:
    if view.exported:
        return Claim(True, "Exported")
    missing = [table for table in view.status.tables if not progress.is_exported(table)]
    return Claim(False, "NotExported", list_tables(missing, lambda table: table.name))


def _run_active(view: PipelineView) -> Claim:
    run = view.status.current_run
    if run is None:
        return Claim(False, "Queued", view.line) if view.line else Claim(False, "NoRun")
    return Claim(run.state != RunState.PLANNED, run.state.value, f"{run.name}{view.hindrance}")


def _caught_up(view: PipelineView) -> Claim:
    tables = view.status.tables
    if tables and all(progress.is_caught_up(table) for table in tables):
        return Claim(True, "CaughtUp", _known_by(view))
    if not any(progress.is_reported(table) for table in tables):
        return Claim(None, "NotLookedAt")
    behind = [table for table in tables if not progress.is_caught_up(table)]
    return Claim(False, "Behind", list_tables(behind, _how_far))


def _known_by(view: PipelineView) -> str:
    """Whose look it is, where the operator itself cannot look at the catalog."""
    heads = view.observed.heads
    if view.spec is None or view.spec.changelog.trigger != Trigger.ON_COMMIT:
        return ""
    if heads is None:
        before = view.observed.status.condition(ConditionType.CAUGHT_UP)
        return before.message if before is not None and before.reason == "CaughtUp" else ""
    followed = [each for each in view.status.tables if each.state == TableState.STREAMING]
    unseen = [each for each in followed if each.name not in heads]
    if not unseen:
        return ""
    names = list_tables(unseen, lambda table: table.name)
    return (
        "by the last run: the operator cannot look itself, its log says why, so runs look, the "
        f"longer nothing changes the more seldom: {names}"
    )


def _suspended(view: PipelineView) -> Claim:
    if view.suspended:
        return Claim(True, "Suspended", "set spec.suspend to false to go on")
    if view.spec is not None and view.spec.suspend:
        return Claim(False, "Suspending", "the current batch is finished first")
    return Claim(False, "NotSuspended")


def _snapshots_pinned(view: PipelineView) -> Claim:
    if view.spec is not None and view.spec.changelog.pin_snapshots == PinSnapshots.NEVER:
        return Claim(False, "Never", "spec.changelog.pinSnapshots is Never")
    # Of an empty table there is nothing to keep.
    tables = [each for each in view.status.tables if each.applied_snapshot_id is not None]
    loose = [table for table in tables if table.snapshot_pinned is False]
    if loose:
        return Claim(False, "NotPinned", list_tables(loose, _why_not_pinned))
    if tables and all(table.snapshot_pinned for table in tables):
        return Claim(True, "Pinned")
    return Claim(None, "NotReported", "no run has said whether a tag keeps the snapshots")


def _why_not_pinned(table: TableStatus) -> str:
    return f"{table.name}: {table.pin_message}"


def _dead_letters(view: PipelineView) -> Claim:
    refused = [table for table in view.status.tables if table.dead_letters]
    if not refused:
        return Claim(False, "None")
    return Claim(
        True, "Refused", list_tables(refused, lambda t: f"{t.name}: {t.dead_letters} rows")
    )


def _verified(view: PipelineView) -> Claim:
    pending = None if view.spec is None else comparisons.describe_pending(view.status, view.spec)
    if pending is not None:
        return Claim(None, "Pending", pending)
    worst, tables = verification.find_worst(view.status.tables)
    text = "raise spec.resync.nonce with mode Verify to have index and table compared"
    told = list_tables(tables, verification.describe_table) if tables else text
    return Claim(verification.STATUS_BY_RESULT[worst], worst.value, told)


def _why(table: TableStatus) -> str:
    reason = "" if table.reason is None else table.reason.value
    return f"{table.name}: {reason}: {table.message or 'see the log of the run'}"


def _how_far(table: TableStatus) -> str:
    if table.state == TableState.STREAMING and table.snapshots_behind is not None:
        return f"{table.name}: {table.snapshots_behind} snapshots"
    return f"{table.name}: {table.state.value}"


def _retrying(status: PipelineStatus, failure: Failure) -> str:
    count = f" (failure {status.consecutive_failures})" if status.consecutive_failures else ""
    return f"retrying{count}: {failure.failure_class.value}: {failure.message}"


def _stalled_by(view: PipelineView, failure: Failure) -> str:
    """What failed, whether it is tried again, and who acts."""
    status, text = view.status, f"{failure.failure_class.value}: {failure.message}"
    if view.contested and view.spec is not None:
        return (
            f"another run has taken over {view.contested} times in a row: {text} It is tried again "
            f"about every {view.spec.retry.max_seconds} s; to act: whoever runs this pipeline "
            "elsewhere, who ends it there or suspends it here"
        )
    if failure.retryable and view.spec is not None:
        tries, every = status.consecutive_failures, view.spec.retry.max_seconds
        text = f"failed {tries} times in a row: {text}; it is tried again about every {every} s"
        if failure.who_acts == WhoActs.NOBODY:
            return f"{text} and goes on by itself"
        return f"{text}; to act: {failure.who_acts.value}"
    nobody = failure.who_acts == WhoActs.NOBODY
    who = WhoActs.DATA_ENGINEER.value if nobody else failure.who_acts.value
    then = "then raise spec.restartNonce" if status.next_attempt_time is None else "it is retried"
    return f"{text}; to act: {who}, {then}"


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)


def _denied(failure: Failure) -> tuple[str, str]:
    return failure.reason, f"{failure.message}; to act: {failure.who_acts.value}, it is retried"


def _duplicates(tables: Iterable[TableStatus]) -> str:
    found = [(t.name, t.duplicates) for t in tables if t.duplicates and t.duplicates.count]
    return "; ".join(
        f"{name}: {twins.count} keys occur in more than one row, such as "
        f"{', '.join(twins.samples[:3])}"
        for name, twins in found[:MAX_LISTED]
    )


QUESTIONS: dict[ConditionType, Callable[[PipelineView], Claim]] = {
    ConditionType.READY: _ready,
    ConditionType.RECONCILING: _reconciling,
    ConditionType.STALLED: _stalled,
    ConditionType.SPEC_VALID: _spec_valid,
    ConditionType.EXPORTED: _exported,
    ConditionType.RUN_ACTIVE: _run_active,
    ConditionType.CAUGHT_UP: _caught_up,
    ConditionType.SUSPENDED: _suspended,
    ConditionType.SNAPSHOTS_PINNED: _snapshots_pinned,
    ConditionType.DEAD_LETTERS: _dead_letters,
    ConditionType.VERIFIED: _verified,
}
