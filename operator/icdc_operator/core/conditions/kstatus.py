"""The three conditions that kstatus, Argo CD and Flux read: Ready, Reconciling and Stalled.

    situation                              Ready              Reconciling          Stalled
    spec invalid                           False InvalidSpec  False InvalidSpec    True InvalidSpec
    a permission is missing                False, its reason  False Stalled        True, its reason
    suspended                              True  Suspended    False Suspended      False Suspended
    suspend requested, a run is ending     False Suspending   True  Suspending     False Suspended
    a table or the pipeline needs a person False, its reason  False Stalled        True, its reason
    a passing fault, retries left          False Retrying     (as below)           False Working
    first export not finished              False Exporting    True  Exporting      False Working
    new generation not applied yet         False NewGener...  True  NewGeneration  False Working
    replicating, whatever the lag          True  Streaming    False UpToDate       False Working

The first line that applies counts, from the top. Transition times are added by `summary`. Knows
earlier conditions only where an answer must not flap. Pure.
"""

from icdc_api.base import drop_name
from icdc_api.errors import WhoActs
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus
from icdc_api.status.runs import Failure, RunState
from icdc_operator.core import progress, retry
from icdc_operator.core.asked import comparisons
from icdc_operator.core.conditions.messages import (
    join_clauses,
    list_tables,
    require_action,
    require_owners,
)
from icdc_operator.core.conditions.view import Claim, PipelineView


def claim_ready(view: PipelineView) -> Claim:
    """Return Ready: every table is exported and the last run succeeded. Lag never flips it."""
    if view.spec is None:
        return Claim(False, "InvalidSpec", describe_problem(view))
    if view.observed.denied is not None:
        return Claim(False, *_describe_denial(view.observed.denied))
    # True, because kstatus takes Ready False for a rollout in progress: `helm --wait` and Flux
    # would wait for ever for a pipeline that is applied with suspend: true.
    if view.suspended:
        return Claim(True, "Suspended", "suspended by spec.suspend; progress is retained")
    stalled = claim_stalled(view)
    if stalled.holds:
        return Claim(False, stalled.reason, stalled.message)
    if view.failure is not None:
        text = join_clauses(view.queue_position, _describe_retry(view.status, view.failure))
        return Claim(False, "Retrying", text)
    reconciling = claim_reconciling(view)
    if reconciling.holds:
        return Claim(False, reconciling.reason, reconciling.message)
    states = {table.state for table in view.status.tables}
    reason = "Complete" if states == {TableState.COMPLETE} else "Streaming"
    # In the wide columns of `kubectl get`, which show this message beside a lag that is not known.
    return Claim(True, reason, join_clauses(view.queue_position, view.export_wait, view.unheard))


def claim_reconciling(view: PipelineView) -> Claim:
    """Return Reconciling: a new generation or the first export is not finished yet."""
    if view.spec is None:
        return Claim(False, "InvalidSpec")
    if view.observed.denied is not None:
        return Claim(False, "Stalled")
    if view.suspended:
        return Claim(False, "Suspended")
    if view.spec.suspend:
        return Claim(True, "Suspending", view.ending)
    # kstatus takes an object for failed only while nothing is in progress: never both at once.
    if claim_stalled(view).holds:
        return Claim(False, "Stalled")
    if not view.exported:
        return Claim(True, "Exporting", f"the first export is not finished{view.hindrance}")
    if not _is_spec_in_effect(view):
        return Claim(True, "NewGeneration", f"the new spec is not in effect yet{view.hindrance}")
    return Claim(False, "UpToDate")


def claim_stalled(view: PipelineView) -> Claim:
    """Return Stalled: nothing advances, or not for long, before a person acts."""
    if view.spec is None:
        return Claim(True, "InvalidSpec", describe_problem(view))
    if view.observed.denied is not None:
        return Claim(True, *_describe_denial(view.observed.denied))
    if view.spec.suspend:
        return Claim(False, "Suspended")
    tables = view.stalled_tables
    if tables:
        text = list_tables(tables, _describe_stalled_table)
        return Claim(True, "TableStalled", join_clauses(text, require_owners(tables)))
    failure = view.failure
    if failure is not None:
        status = view.status
        waits = status.next_attempt_time is not None or view.replication_run is not None
        given_up = status.consecutive_failures > 0 and not waits
        slow = retry.is_retried_slowly(failure)
        # All but `given_up` hold during an attempt too, or Stalled would flap with each retry.
        if given_up or slow or view.outlasted or view.takeovers or view.losses:
            return Claim(True, failure.reason, _describe_stall(view, failure))
    return Claim(False, "Working")


def describe_problem(view: PipelineView) -> str:
    """Return what is wrong with the spec: each field, its value and what is allowed."""
    return view.observed.problem or "the spec is invalid"


def _is_spec_in_effect(view: PipelineView) -> bool:
    """Return whether a run of this generation has reported every table; once so, it stays so."""
    generation = view.observed.generation
    before = view.observed.status.find_condition(ConditionType.RECONCILING)
    same = before is not None and before.observed_generation == generation
    # Suspended and Stalled say nothing about the spec; only UpToDate saw a run of it.
    if before is not None and same and before.reason == "UpToDate":
        return True
    last, run = comparisons.find_last_replication(view.status), view.replication_run
    if last is not None and last.generation == generation and last.state == RunState.SUCCEEDED:
        return True
    if run is None or run.generation != generation:
        return False
    reports = (seen.report for seen in view.observed.runs if seen.name == run.name)
    report = next((report for report in reports if report is not None), None)
    # In the report, not in the status: the status retains what runs of older generations said.
    reported = {t.name for t in (report.tables if report else ()) if progress.is_reported(t)}
    return all(table.name in reported for table in view.status.tables)


def _describe_stalled_table(table: TableStatus) -> str:
    reason = "" if table.reason is None else table.reason.value
    message = drop_name(table.name, table.message or "see the log of the run")
    return f"{table.name}: {reason}: {message}"


def _describe_retry(status: PipelineStatus, failure: Failure) -> str:
    count = f" (failure {status.consecutive_failures})" if status.consecutive_failures else ""
    return f"retrying{count}: {failure.failure_class.value}: {failure.message}"


def _describe_stall(view: PipelineView, failure: Failure) -> str:
    """Return what failed, when it is retried, and who must act."""
    status, text = view.status, f"{failure.failure_class.value}: {failure.message}"
    nobody = failure.who_acts == WhoActs.NOBODY
    if view.takeovers and view.spec is not None:
        return join_clauses(
            f"another run has taken over {view.takeovers} times in a row: {text}",
            _describe_retries(view, view.spec),
            require_action("end the pipeline that runs elsewhere, or suspend this one"),
        )
    if failure.retryable and view.spec is not None:
        failures = max(status.consecutive_failures, view.losses)
        times = f" {failures} times in a row" if failures > 1 else ""
        by_itself = "" if view.observed.gives_up else "resumes by itself"
        if view.losses:
            by_itself = require_action(WhoActs.PLATFORM)
        return join_clauses(
            f"failed{times}: {text}",
            _describe_retries(view, view.spec),
            by_itself if nobody else require_action(failure.who_acts),
        )
    # Nothing retries it, so somebody must: the author is who sees this message first.
    who = require_action(WhoActs.DATA_ENGINEER if nobody else failure.who_acts)
    # An attempt that is under way is the next one.
    again = status.next_attempt_time is not None or view.replication_run is not None
    if view.observed.gives_up or not again:
        return join_clauses(text, f"{who}, then {view.observed.next_attempt}")
    return join_clauses(text, f"{who}; retried until then")


def _describe_retries(view: PipelineView, spec: PipelineSpec) -> str:
    if view.observed.gives_up:
        return f"not retried any more: {view.observed.next_attempt}"
    return f"retried about every {spec.retry.max_seconds} s"


def _describe_denial(failure: Failure) -> tuple[str, str]:
    """Return reason and message of an operation that the adapter has no permission for."""
    text = join_clauses(failure.message, require_action(failure.who_acts), "retried until then")
    return failure.reason, text
