"""Comparisons of index and table that `spec.resync` asks for: when one is due, how one ends. Pure.

A comparison is a run of its own: it follows no table, so it neither stands for the pipeline's
progress nor for its failures. It comes after a run of the same generation that went well: the
spec is in effect then, exports are done, and what is compared is up to date. While it works the
tables wait, so one that cannot be made is given up after a few attempts, and is told.
"""

from datetime import datetime, timedelta

from icdc_api.errors import BadSpec, Bug
from icdc_api.runs import Failure, ResyncMode, RunKind, RunState, RunStatus
from icdc_api.spec import PipelineSpec
from icdc_api.status import PipelineStatus, TableState
from icdc_api.triggers import ObservedTriggers
from icdc_operator.core import resyncs, retry, verification
from icdc_operator.core.observed import Observed, RunSeen

MAX_ATTEMPTS = 5
"""Of one comparison, or `retry.maxAttempts` if that is less: replication waits meanwhile."""

_KINDS = {ResyncMode.VERIFY: RunKind.VERIFY, ResyncMode.REPAIR: RunKind.REPAIR}
_NOT_READY = (TableState.PENDING, TableState.EXPORTING)


def find_requested(known: PipelineStatus, spec: PipelineSpec) -> RunKind | None:
    """The comparison that was asked for and that has no answer yet."""
    resync, before = resyncs.last_request(known, spec), known.observed_triggers
    if resync is None or not table_names(known, spec):
        return None
    new = before is None or resyncs.is_new(known, spec)
    answered = 0 if before is None or new else before.verified_nonce
    return _KINDS.get(resync.mode) if resync.nonce > answered else None


def describe_pending(known: PipelineStatus, spec: PipelineSpec) -> str | None:
    """What there is to say while a comparison has no answer yet."""
    kind, last = find_requested(known, spec), known.last_run
    if kind is None:
        return None
    text = f"resync {requested_nonce(known, spec)} ({kind.value}) has no answer yet"
    if last is None or last.failure is None or not last.kind.inspects:
        return text
    return f"{text}: {last.failure.message}"


def requested_nonce(known: PipelineStatus, spec: PipelineSpec) -> int:
    """The nonce that asked for it."""
    resync = resyncs.last_request(known, spec)
    return spec.resync.nonce if resync is None else resync.nonce


def find_due(known: PipelineStatus, observed: Observed, spec: PipelineSpec) -> RunKind | None:
    """The comparison that is to be made by the next run; None for a run that follows tables."""
    kind, before = find_requested(known, spec), last_replication_run(known)
    if kind is None or before is None or before.state != RunState.SUCCEEDED:
        return None
    if before.generation != observed.generation or _is_superseded(before, observed):
        return None
    if known.last_run == before and known.consecutive_failures > 0:
        return None  # a table of it waits for a passing fault
    wanted = set(table_names(known, spec))
    if any(table.name in wanted and table.state in _NOT_READY for table in known.tables):
        return None
    return kind


def last_replication_run(known: PipelineStatus) -> RunStatus | None:
    """The run that ended last among those that follow tables."""
    runs = known.recent_runs if known.last_run is None else (known.last_run, *known.recent_runs)
    return next((run for run in runs if not run.kind.inspects), None)


def table_names(known: PipelineStatus, spec: PipelineSpec) -> tuple[str, ...]:
    """The tables that the comparison is about, in the order of the spec."""
    resync = resyncs.last_request(known, spec)
    wanted = () if resync is None else resync.tables
    return tuple(table.name for table in spec.tables if not wanted or table.name in wanted)


def close_run(
    known: PipelineStatus, run: RunStatus, seen: RunSeen | None, observed: Observed, now: datetime
) -> PipelineStatus:
    """`known`, in whose log `run` has ended: with what it found, or to be made once more.

    A comparison of another generation has no say: the spec may ask for something else by now.
    """
    spec, ended, before = observed.spec, known.last_run, last_replication_run(known)
    mode = known.mode if before is None else before.kind
    known = known.model_copy(update={"mode": mode, "next_attempt_time": None})
    if spec is None or ended is None or run.generation != observed.generation:
        return known
    wanted = table_names(known, spec)
    answers = verification.read_answers(None if seen is None else seen.report)
    answers = {name: answer for name, answer in answers.items() if name in wanted}
    silent = [name for name in wanted if name not in answers]
    stopped = run.state == RunState.STOPPING and run.failure is None
    if stopped and observed.closing and (silent or ended.failure is not None):
        return known  # asked to end for now: it is made when somebody goes on
    failure = ended.failure or verification.find_passing_failure(answers.values())
    if failure is None and silent:
        failure = _explain_silence(run, spec, silent, stopped=stopped)
    if failure is not None:
        known = _record_failure(known, ended, failure)
        retried = _schedule_retry(known, failure, spec, observed, now=now)
        if retried is not None:
            return retried
    by = requested_nonce(known, spec)
    tables = verification.apply_answers(known.tables, answers, nonce=by, now=now)
    if failure is not None:
        tables = verification.apply_failure(tables, failure, silent, nonce=by, now=now)
    return _record_answer(known.model_copy(update={"tables": tables}), by)


def _schedule_retry(
    known: PipelineStatus,
    failure: Failure,
    spec: PipelineSpec,
    observed: Observed,
    *,
    now: datetime,
) -> PipelineStatus | None:
    """The failed comparison waits for its next attempt; None when it is given up."""
    verdict = retry.judge(
        failure,
        policy=spec.retry,
        failures=known.consecutive_failures,
        newest_first=known.recent_runs,
        key=f"{observed.namespace}/{observed.name}",
    )
    attempts = 1 if known.last_run is None else known.last_run.attempt
    used_up = attempts >= min(MAX_ATTEMPTS, spec.retry.max_attempts)
    if verdict.delay is None or verdict.stalls or used_up:
        return None
    return known.model_copy(
        update={
            "consecutive_failures": known.consecutive_failures + (1 if verdict.counted else 0),
            "next_attempt_time": now + timedelta(seconds=verdict.delay),
        }
    )


def _record_answer(known: PipelineStatus, nonce: int) -> PipelineStatus:
    """Nothing more is asked for, and the pipeline goes on as it did before."""
    before = known.observed_triggers or ObservedTriggers(resync_nonce=nonce)
    return known.model_copy(
        update={
            "observed_triggers": before.model_copy(update={"verified_nonce": nonce}),
            "consecutive_failures": 0,
            "next_attempt_time": None,
        }
    )


def _record_failure(known: PipelineStatus, ended: RunStatus, failure: Failure) -> PipelineStatus:
    """The log says that the run failed, whatever it said of itself as a whole."""
    failed = ended.model_copy(update={"state": RunState.FAILED, "failure": failure})
    recent = (failed, *known.recent_runs[1:])
    return known.model_copy(update={"last_run": failed, "recent_runs": recent})


def _explain_silence(
    run: RunStatus, spec: PipelineSpec, silent: list[str], *, stopped: bool
) -> Failure:
    """Why a run that ended without a failure has not answered for some tables."""
    limit = spec.timeouts.run_seconds
    if stopped and limit:
        return Failure.of(
            BadSpec(
                f"run {run.name} could not compare the tables within timeouts.runSeconds "
                f"({limit} s): raise it, or name fewer tables in resync.tables"
            )
        )
    more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
    return Failure.of(Bug(f"run {run.name} ended well, but said nothing of {silent[0]}{more}"))


def _is_superseded(before: RunStatus, observed: Observed) -> bool:
    """Whether somebody asked for a run of the tables after that one."""
    asked_at = observed.asked_at
    return asked_at is not None and before.planned_at is not None and before.planned_at < asked_at
