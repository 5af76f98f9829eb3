"""Ready, Reconciling and Stalled of a pipeline that is being deleted together with its indices.

They replace those of `kstatus` from the deletion on: a person who waits for `kubectl delete` needs
to know what it waits for, who must act, and when it ends in any case.

    situation                          Ready                   Reconciling      Stalled
    a run deletes, or will be retried  False Deleting          True  Deleting   False Deleting
    retrying is most likely of no use  False Deleting          False Deleting   True  Deleting
    indices are deleted                False IndicesDeleted    (as above)       False Deleting
    it ends without deleting them      False IndicesRetained   (as above)       False Deleting

Reconciling also says that the finalizer is being added before the first run. Pure.
"""

from icdc_api import naming
from icdc_api.errors import FailureClass, WhoActs
from icdc_api.pins import PIN_AGE
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableReason
from icdc_api.status.runs import Failure, RunKind, RunState
from icdc_operator.core import deletion
from icdc_operator.core.conditions.kstatus import describe_problem
from icdc_operator.core.conditions.messages import join_clauses, list_some, require_action
from icdc_operator.core.conditions.view import Claim, PipelineView
from icdc_operator.core.deletion import DeletionEnd
from icdc_operator.core.observed import AddFinalizer

REASON_DELETING = "Deleting"
REASON_DELETED = "IndicesDeleted"
REASON_RETAINED = "IndicesRetained"
REASONS = frozenset({REASON_DELETING, REASON_DELETED, REASON_RETAINED})
"""Reasons of Ready while a pipeline is being deleted."""

_ADDING_FINALIZER = (
    f"adding the finalizer {naming.FINALIZER} before the first run; if this message stays, the "
    f"operator has no permission to patch {naming.PLURAL}: {require_action(WhoActs.PLATFORM)}"
)

MAX_NAME_CHARACTERS = 400
"""Characters of index names in a message; further indices are counted."""

_MAX_PROBLEM, _MAX_FAILURE = 400, 500
"""Characters of a problem or failure, so that what to do still fits into a message."""


def find_claim(kind: ConditionType, view: PipelineView) -> Claim | None:
    """Return the claim for a condition of `kind`; None where the usual one stands."""
    if kind is ConditionType.RECONCILING and _waits_for_finalizer(view):
        return Claim(True, "AddingFinalizer", _ADDING_FINALIZER)
    if not deletion.is_active(view.observed):
        return None
    end = deletion.find_end(view.status, view.observed, now=view.now)
    match kind:
        case ConditionType.READY if end is not None:
            reason = REASON_DELETED if end is DeletionEnd.DELETED else REASON_RETAINED
            return Claim(False, reason, _describe_end(view, end))
        case ConditionType.READY:
            return Claim(False, REASON_DELETING, _describe_progress(view))
        case ConditionType.RECONCILING:
            # Never both: kstatus takes an object for failed only while nothing is in progress.
            return Claim(not _needs_person(view), REASON_DELETING)
        case ConditionType.STALLED:
            stalled = end is None and _needs_person(view)
            text = _describe_progress(view) if stalled else ""
            return Claim(stalled, REASON_DELETING, text)
    return None


def _waits_for_finalizer(view: PipelineView) -> bool:
    run = view.status.current_run
    planned = run is not None and run.state == RunState.PLANNED
    return planned and AddFinalizer() in deletion.require_finalizer(view.observed, ())


def _describe_end(view: PipelineView, end: DeletionEnd) -> str:
    """Return what was deleted, or what is left and how to delete it by hand."""
    if end is DeletionEnd.DELETED:
        deleted = [table.message for table in view.status.tables if table.message]
        return list_some(deleted, total=len(deleted)) or "nothing was left to delete"
    # An index that belongs to another pipeline is not ours to advise deleting.
    tables = [t for t in view.status.tables if t.reason is not TableReason.ALIAS_TAKEN]
    names, count = "", 0
    for table in tables:
        if count and len(names) + len(table.index) > MAX_NAME_CHARACTERS:
            break
        names += f", {table.index}" if names else table.index
        count += 1
    rest = f" and {len(tables) - count} more" if count < len(tables) else ""
    return (
        f"the pipeline is removed without deleting its indices because {end.value}; what is left "
        f"of {names}{rest} stays. To delete it by hand, for each INDEX: the indices INDEX-NNNNNN "
        f"and INDEX{naming.DEAD_LETTERS_SUFFIX}, the document INDEX in {naming.STATE_INDEX}, and "
        f"the tags {naming.name_tag('INDEX')}-* of its table, which expire after {PIN_AGE.days} "
        "days"
    )


def _describe_progress(view: PipelineView) -> str:
    """Return what is under way or who must act, and how to end the deletion sooner."""
    deadline = deletion.compute_deadline(view.observed)
    limit = "" if deadline is None else f" without waiting for {deadline:%Y-%m-%d %H:%M:%S} UTC"
    way_out = f"to keep the indices{limit}, set the annotation {naming.ANNOTATION_RETAIN}=true"
    if view.observed.spec is None:
        problem = describe_problem(view)[:_MAX_PROBLEM]
        # Only the spec says which OpenSearch has the indices, so no run could find them.
        text = "an invalid spec keeps the indices from being deleted: correct it"
        return f"{text}, or {way_out}: {problem}"
    run, failure = view.status.current_run, _find_failure(view)
    if failure is not None:
        nobody = failure.who_acts == WhoActs.NOBODY
        return join_clauses(
            "deleting the indices failed and is retried",
            "" if nobody else require_action(failure.who_acts),
            way_out,
            f"{failure.failure_class.value}: {failure.message[:_MAX_FAILURE]}",
        )
    if run is None:
        return "the run that deletes the indices is about to start"
    if run.kind != RunKind.DELETION:
        return f"run {run.name} is ending before the indices are deleted"
    return f"run {run.name} is deleting the indices"


def _find_failure(view: PipelineView) -> Failure | None:
    """Return what blocks the current deletion run, or else why the last attempt failed."""
    run = view.status.current_run
    # What blocks the run that is there now is nearer than why the one before failed.
    if run is not None and run.kind == RunKind.DELETION and view.blocking_failure is not None:
        return view.blocking_failure
    last = deletion.find_last_deletion(view.status)
    return None if last is None else last.failure


def _needs_person(view: PipelineView) -> bool:
    """Return whether retrying is most likely of no use."""
    spec = view.observed.spec
    if spec is None:
        return True
    last = deletion.find_last_deletion(view.status)
    if last is None or last.failure is None:
        return False
    failure = last.failure
    # It is retried all the same, until the deadline (`deletion.limit_delay`).
    if not failure.retryable and failure.failure_class != FailureClass.NODE_LOST:
        return failure.who_acts != WhoActs.NOBODY
    failures = view.status.consecutive_failures
    return failure.failure_class == FailureClass.AUTH or failures >= spec.retry.max_attempts
