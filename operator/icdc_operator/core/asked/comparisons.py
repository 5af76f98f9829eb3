"""Comparisons of index and table that `spec.resync` asks for: when one is due, how one ends. Pure.

A continuous run makes one while it goes on, see `continuous_run`. Any other comparison is a run of
its own that replicates no table, so neither its progress nor its failures count as the pipeline's.
It comes after a successful run of the same generation: then the spec is in effect, exports are
finished, and what is compared is up to date. Replication waits while it runs, so a comparison that
fails again and again is given up, and its failure reported.

    spec.resync raised to nonce 4, mode Verify
    run            ends                  consequence
    shop-c8-1      Succeeded             the comparison is due
    shop-v9-1      Failed, class may pass retried with backoff, at most 5 attempts
    shop-v9-2      Succeeded, 2 answers  status.tables[].verification, verifiedNonce 4
    shop-c10-1     -                     replication goes on
"""

from datetime import datetime, timedelta

from icdc_api.errors import BadSpec, Bug
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, TableState
from icdc_api.status.runs import Failure, ResyncMode, RunKind, RunState, RunStatus
from icdc_api.status.triggers import ObservedTriggers
from icdc_operator.core import retry
from icdc_operator.core.asked import proofs, resyncs, verification
from icdc_operator.core.observed import Observed, RunSeen

MAX_ATTEMPTS = 5
"""Attempts of one comparison, or `retry.maxAttempts` if less: replication waits meanwhile."""

_KINDS = {ResyncMode.VERIFY: RunKind.VERIFY, ResyncMode.REPAIR: RunKind.REPAIR}
"""Kind of run by mode. The others are missing: a run that replicates exports and rolls back."""

_NOT_READY = (TableState.PENDING, TableState.EXPORTING)
"""States of a table whose index is not complete yet: comparing it would report each row as
missing."""


def find_requested(status: PipelineStatus, spec: PipelineSpec) -> RunKind | None:
    """Return the kind of comparison that was requested and has no answer yet."""
    resync, before = resyncs.find_last_request(status, spec), status.observed_triggers
    if resync is None or not list_table_names(status, spec):
        return None
    new = before is None or resyncs.is_new(status, spec)
    # The answer to an earlier request does not count, though it may have had the same nonce.
    answered = 0 if before is None or new else before.verified_nonce
    return _KINDS.get(resync.mode) if resync.nonce > answered else None


def describe_pending(status: PipelineStatus, spec: PipelineSpec) -> str | None:
    """Return the message of a comparison without an answer; None if there is none."""
    kind, last = find_requested(status, spec), status.last_run
    if kind is None:
        return None
    text = f"resync {find_requested_nonce(status, spec)} ({kind.value}) has no answer yet"
    if last is None or last.failure is None or not last.kind.inspects:
        return text
    return f"{text}: {last.failure.message}"


def find_requested_nonce(status: PipelineStatus, spec: PipelineSpec) -> int:
    """Return the nonce of the last request, which the comparison answers."""
    resync = resyncs.find_last_request(status, spec)
    return spec.resync.nonce if resync is None else resync.nonce


def find_due(status: PipelineStatus, observed: Observed, spec: PipelineSpec) -> RunKind | None:
    """Return the kind of comparison that the next run makes; None if it replicates tables."""
    kind, before = find_requested(status, spec), find_last_replication(status)
    if kind is None or before is None or before.state != RunState.SUCCEEDED:
        return None
    if before.generation != observed.generation or _is_superseded(before, observed):
        return None
    # The run succeeded as a whole, but a table of it waits for a passing fault.
    if status.last_run == before and status.consecutive_failures > 0:
        return None
    return kind if is_ready(status, spec) else None


def is_ready(status: PipelineStatus, spec: PipelineSpec) -> bool:
    """Return whether the indices of all tables to compare are complete.

    A stalled table does not wait: its index can be compared, or the answer says why not.
    """
    names = set(list_table_names(status, spec))
    return not any(table.name in names and table.state in _NOT_READY for table in status.tables)


def can_begin(status: PipelineStatus, spec: PipelineSpec) -> bool:
    """Return whether a requested comparison waits for nothing but the end of a replicating run.

    Not where a table waits, such as for the export window: a run that ends for it, and then the
    next one, would bring it no nearer.
    """
    return find_requested(status, spec) is not None and is_ready(status, spec)


def find_last_replication(status: PipelineStatus) -> RunStatus | None:
    """Return the last ended run that replicated tables; None if there was none."""
    runs = status.recent_runs if status.last_run is None else (status.last_run, *status.recent_runs)
    return next((run for run in runs if not run.kind.inspects), None)


def list_table_names(status: PipelineStatus, spec: PipelineSpec) -> tuple[str, ...]:
    """Return the names of the tables to compare, in the order of the spec."""
    resync = resyncs.find_last_request(status, spec)
    # A set: any number of 500 tables may be named.
    names = frozenset(() if resync is None else resync.tables)
    return tuple(table.name for table in spec.tables if not names or table.name in names)


def _is_proof(status: PipelineStatus, spec: PipelineSpec, run: RunStatus) -> bool:
    """Return whether `run` compares for `spec.verify`, and not for a request."""
    is_comparison = run.kind.inspects and run.ask is None
    return is_comparison and spec.verify is not None and find_requested(status, spec) is None


def list_tables_of_run(
    status: PipelineStatus, spec: PipelineSpec, run: RunStatus
) -> tuple[str, ...] | None:
    """Return the tables that a run compares; None for one that does not compare by itself."""
    if not run.kind.inspects or run.ask is not None:
        return None
    if _is_proof(status, spec, run):
        return proofs.list_tables(status, spec, run.planned_at)
    return list_table_names(status, spec)


def find_max_cpu(status: PipelineStatus, spec: PipelineSpec, run: RunStatus) -> float | None:
    """Return the CPU limit of a run's executor; None for what `spec.spark` gives."""
    return proofs.get_max_cpu(spec) if _is_proof(status, spec, run) else None


def close_run(
    status: PipelineStatus,
    run: RunStatus,
    seen: RunSeen | None,
    *,
    observed: Observed,
    now: datetime,
) -> PipelineStatus:
    """Return `status`, whose log holds the ended `run`, with its answers or its next attempt.

    A comparison of an older generation does not count: the spec may ask for something else now.
    """
    # The pipeline shows what it did before: a comparison is no mode of its own.
    spec, ended, before = observed.spec, status.last_run, find_last_replication(status)
    mode = status.mode if before is None else before.kind
    status = status.model_copy(update={"mode": mode, "next_attempt_time": None})
    if spec is None or ended is None or run.generation != observed.generation:
        return status
    # Only the tables that were asked for: a report comes from a pod, and may name others.
    is_proof = _is_proof(status, spec, run)
    names = list_tables_of_run(status, spec, run) or ()
    answers = verification.read_answers(None if seen is None else seen.report)
    answers = {name: answers[name] for name in names if name in answers}
    silent = [name for name in names if name not in answers]
    # Stopped without a failure: by timeouts.runSeconds, or because the adapter is closing.
    stopped = run.state == RunState.STOPPING and run.failure is None
    if stopped and observed.closing and (silent or ended.failure is not None):
        return status  # the adapter is closing: the comparison is repeated after its next start
    failure = ended.failure or verification.find_passing_failure(answers.values())
    if failure is None and silent:
        failure = _explain_silence(run, spec, silent, stopped=stopped)
    if failure is not None:
        status = _record_failure(status, ended, failure)
        # A proof gives way to replication, which a backoff would hold up: it is due again later.
        retried = None if is_proof else _schedule_retry(status, failure, spec, observed, now=now)
        if retried is not None:
            return retried
    by = None if is_proof else find_requested_nonce(status, spec)
    tables = verification.apply_answers(status.tables, answers, nonce=by, now=now)
    if failure is not None:
        tables = verification.apply_failure(tables, failure, silent, nonce=by, now=now)
    # Failures of the comparison must not delay the replication that waited for it.
    closed = {"tables": tables, "consecutive_failures": 0, "next_attempt_time": None}
    status = status.model_copy(update=closed)
    return status if by is None else record_answer(status, by)


def _schedule_retry(
    status: PipelineStatus,
    failure: Failure,
    spec: PipelineSpec,
    observed: Observed,
    *,
    now: datetime,
) -> PipelineStatus | None:
    """Return `status` with the time of the next attempt; None if the comparison is given up."""
    verdict = retry.judge(
        failure,
        policy=spec.retry,
        failures=status.consecutive_failures,
        newest_first=status.recent_runs,
        key=f"{observed.namespace}/{observed.name}",
    )
    # Of the record, not of consecutive_failures: nodes lost are no failures, but cost time too.
    attempts = 1 if status.last_run is None else status.last_run.attempt
    used_up = attempts >= min(MAX_ATTEMPTS, spec.retry.max_attempts)
    # A verdict that stalls ends it too: replication must not wait until a person acts.
    if verdict.delay is None or verdict.stalls or used_up:
        return None
    return status.model_copy(
        update={
            "consecutive_failures": status.consecutive_failures + (1 if verdict.counted else 0),
            "next_attempt_time": now + timedelta(seconds=verdict.delay),
        }
    )


def record_answer(status: PipelineStatus, nonce: int) -> PipelineStatus:
    """Return `status` with the request of that nonce as answered."""
    before = status.observed_triggers or ObservedTriggers(resync_nonce=nonce)
    triggers = before.model_copy(update={"verified_nonce": nonce})
    return status.model_copy(update={"observed_triggers": triggers})


def _record_failure(status: PipelineStatus, ended: RunStatus, failure: Failure) -> PipelineStatus:
    """Return `status` with the run as Failed, although it reported no failure as a whole."""
    failed = ended.model_copy(update={"state": RunState.FAILED, "failure": failure})
    recent = (failed, *status.recent_runs[1:])
    return status.model_copy(update={"last_run": failed, "recent_runs": recent})


def _explain_silence(
    run: RunStatus, spec: PipelineSpec, silent: list[str], *, stopped: bool
) -> Failure:
    """Return why a run that ended without a failure has no answer for the `silent` tables."""
    limit = spec.timeouts.run_seconds
    if stopped and limit:
        return Failure.of(
            BadSpec(
                f"run {run.name} could not compare the tables within timeouts.runSeconds "
                f"({limit} s): raise it, or name fewer tables in resync.tables"
            )
        )
    more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
    return Failure.of(Bug(f"run {run.name} succeeded but reported no answer for {silent[0]}{more}"))


def _is_superseded(before: RunStatus, observed: Observed) -> bool:
    """Return whether somebody asked for another replicating run after `before`."""
    asked_at = observed.asked_at
    return asked_at is not None and before.planned_at is not None and before.planned_at < asked_at
