"""What holds of a pipeline that is being deleted with its indices: who must act, and how it ends.

Pure, and the only place with these words. They stand in the place of those of `claims`.
"""

from icdc_api import naming
from icdc_api.conditions import ConditionType
from icdc_api.errors import FailureClass, WhoActs
from icdc_api.pins import PIN_AGE
from icdc_api.runs import Failure, RunKind, RunState
from icdc_api.status import TableReason
from icdc_operator.core import deletion
from icdc_operator.core.conditions.view import Claim, PipelineView
from icdc_operator.core.deletion import DeletionEnd
from icdc_operator.core.observed import AddFinalizer

REASON_DELETING = "Deleting"
REASON_DELETED = "IndicesDeleted"
REASON_RETAINED = "IndicesRetained"
REASONS = frozenset({REASON_DELETING, REASON_DELETED, REASON_RETAINED})
"""Reasons of Ready while a pipeline is being deleted."""

_ADDING = (
    f"before the first run the finalizer {naming.FINALIZER} is added; if this lasts, the operator "
    f"has no right to patch {naming.PLURAL}: to act: {WhoActs.PLATFORM.value}"
)

MAX_NAMES = 400
"""Characters of the names of indices in a message; the others are counted."""


def find_claim(kind: ConditionType, view: PipelineView) -> Claim | None:
    """The answer for Ready, Reconciling and Stalled; None where `claims` has it."""
    if kind is ConditionType.RECONCILING and _waits_for_finalizer(view):
        return Claim(True, "AddingFinalizer", _ADDING)
    if not deletion.is_active(view.observed):
        return None
    ending = deletion.find_end(view.status, view.observed, now=view.now)
    match kind:
        case ConditionType.READY if ending is not None:
            reason = REASON_DELETED if ending is DeletionEnd.DELETED else REASON_RETAINED
            return Claim(False, reason, _describe_end(view, ending))
        case ConditionType.READY:
            return Claim(False, REASON_DELETING, _describe_progress(view))
        case ConditionType.RECONCILING:
            return Claim(not _needs_person(view), REASON_DELETING)
        case ConditionType.STALLED:
            stalled = ending is None and _needs_person(view)
            return Claim(stalled, REASON_DELETING, _describe_progress(view) if stalled else "")
    return None


def _waits_for_finalizer(view: PipelineView) -> bool:
    run = view.status.current_run
    planned = run is not None and run.state == RunState.PLANNED
    return planned and AddFinalizer() in deletion.require_finalizer(view.observed, ())


def _describe_end(view: PipelineView, ending: DeletionEnd) -> str:
    if ending is DeletionEnd.DELETED:
        told = [table.message for table in view.status.tables if table.message]
        return "; ".join(told) or "nothing was left to delete"
    # Those of others are not ours to speak of.
    tables = [t for t in view.status.tables if t.reason is not TableReason.ALIAS_TAKEN]
    names, count = "", 0
    for table in tables:
        if count and len(names) + len(table.index) > MAX_NAMES:
            break
        names += f", {table.index}" if names else table.index
        count += 1
    rest = f" and {len(tables) - count} more" if count < len(tables) else ""
    return (
        f"the pipeline goes because {ending.value}; what may be left of {names}{rest} stays. To "
        "delete it by hand, for each INDEX: the indices INDEX-NNNNNN and "
        f"INDEX{naming.DEAD_LETTERS_SUFFIX}, the document INDEX in {naming.STATE_INDEX}, and the "
        f"tags {naming.tag_name('INDEX')}-* of its table, which expire after {PIN_AGE.days} days"
    )


def _describe_progress(view: PipelineView) -> str:
    """What is under way, or who must act, and when the pipeline goes in any case."""
    end = deletion.deadline(view.observed)
    limit = "" if end is None else f" without waiting for {end:%Y-%m-%d %H:%M:%S} UTC"
    way_out = f"to keep the indices{limit}, set the annotation {naming.ANNOTATION_RETAIN}=true"
    if view.observed.spec is None:
        problem = (view.observed.problem or "the spec is wrong")[:400]
        return f"nothing can be deleted with a wrong spec: correct it, or {way_out}: {problem}"
    run, failure = view.status.current_run, _find_failure(view)
    if failure is not None:
        text = f"{failure.failure_class.value}: {failure.message[:500]}"
        who = "" if failure.who_acts == WhoActs.NOBODY else f"; to act: {failure.who_acts.value}"
        return f"deleting the indices failed and is tried again{who}; {way_out}; {text}"
    if run is None:
        return "the indices are about to be deleted"
    if run.kind != RunKind.DELETION:
        return f"the run {run.name} ends before the indices are deleted"
    return f"the run {run.name} deletes the indices"


def _find_failure(view: PipelineView) -> Failure | None:
    """What keeps the run at work from going on, or else why the last attempt failed."""
    run = view.status.current_run
    if run is not None and run.kind == RunKind.DELETION and view.held_up is not None:
        return view.held_up
    last = deletion.last_deletion_run(view.status)
    return None if last is None else last.failure


def _needs_person(view: PipelineView) -> bool:
    """Whether trying again is most likely of no use."""
    spec = view.observed.spec
    if spec is None:
        return True
    last = deletion.last_deletion_run(view.status)
    if last is None or last.failure is None:
        return False
    failure = last.failure
    if not failure.retryable and failure.failure_class != FailureClass.NODE_LOST:
        return failure.who_acts != WhoActs.NOBODY
    tries = view.status.consecutive_failures
    return failure.failure_class == FailureClass.AUTH or tries >= spec.retry.max_attempts
