"""Runs as records: how the next one is named, how one ends, how long the log is.

Pure. The record is what makes a run safe to repeat: its name and epoch are fixed before anything
is created. Whether a run is due at all is in `schedule`.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from icdc_api import naming
from icdc_api.base import MAX_COUNT
from icdc_api.errors import FailureClass, NodeLost, StartTimeout
from icdc_api.runs import Failure, ResyncMode, RunKind, RunState, RunStatus
from icdc_api.spec import History, Mode, PipelineSpec
from icdc_api.status import MAX_RECENT_RUNS, PipelineStatus
from icdc_operator.core import comparisons, progress, resyncs, retry
from icdc_operator.core.observed import Observed, RunSeen

STABLE_SECONDS = 60.0
"""A run that reports and lives for so long has got over the failures before it."""

HOPELESS_SECONDS = 120.0
"""A run whose image or settings keep it from starting for so long is ended: the next one may be
given what this one lacks, and waiting for `timeouts.startSeconds` helps nobody."""

_HOPELESS = frozenset({FailureClass.IMAGE_PULL, FailureClass.BAD_SPEC})

_SEQUENCE = re.compile(rf"-[{''.join(kind.letter for kind in RunKind)}](\d+)-\d+$")


def plan_run(
    known: PipelineStatus,
    observed: Observed,
    spec: PipelineSpec,
    *,
    now: datetime,
    kind: RunKind | None = None,
    ask: str | None = None,
) -> RunStatus:
    """The record of the next run; its epoch is above that of every run that was ever seen.

    `kind` None: what the tables need. `ask`: id of the question that the run answers.
    """
    last = known.last_run if ask is None else None
    kind = kind or comparisons.find_due(known, observed, spec) or _choose_kind(known, spec)
    again = last is not None and last.state == RunState.FAILED
    if last is not None and again and (last.generation, last.kind) == (observed.generation, kind):
        sequence, attempt = last.sequence, last.attempt + 1
    else:
        sequence, attempt = 1 + _greatest_sequence(known, observed), 1
    name = naming.run_name(observed.name, kind.letter, sequence, attempt)
    epochs = [*(run.epoch for run in known.recent_runs), *(run.epoch for run in observed.runs)]
    # Who owns the index may have been started elsewhere, or by a clock that was ahead.
    failures = (run.failure for run in known.recent_runs)
    epochs += [each.rival.epoch for each in failures if each is not None and each.rival is not None]
    epoch = max(1 + max(epochs, default=0), int(now.timestamp() * 1000))
    epoch = min(epoch, MAX_COUNT)  # the run then says that the state document is corrupt
    return RunStatus(
        name=name,
        kind=kind,
        sequence=sequence,
        attempt=attempt,
        epoch=epoch,
        run_id=f"{name}.{epoch}",
        ask=ask,
        generation=observed.generation,
        planned_at=now,
    )


def find_new_run(before: PipelineStatus, after: PipelineStatus) -> RunStatus | None:
    """The run that a decision from `before` to `after` plans, if it plans one."""
    known, run = before.current_run, after.current_run
    return None if run is None or (known is not None and known.epoch == run.epoch) else run


def finish_run(run: RunStatus, seen: RunSeen | None, *, now: datetime) -> RunStatus:
    """The record of a run that has ended; what it reported goes before what was seen of it."""
    failure = run.failure
    report = None if seen is None else seen.report
    if report is not None and report.outcome is not None:
        failure = failure or report.outcome
    elif report is None or not report.finished:
        failure = failure or _explain_missing_report(run, seen)
    return run.model_copy(
        update={
            "state": RunState.SUCCEEDED if failure is None else RunState.FAILED,
            "failure": failure,
            "finished_at": now,
            "started_at": run.started_at or (None if seen is None else seen.started_at),
        }
    )


def add_to_log(recent: Iterable[RunStatus], run: RunStatus) -> tuple[RunStatus, ...]:
    """The log with `run` as its newest entry."""
    return (run, *recent)[:MAX_RECENT_RUNS]


def select_retained(recent: Iterable[RunStatus], spec: PipelineSpec | None) -> list[RunStatus]:
    """The ended runs whose logs stay, by `spec.history`; the newest always does."""
    history = History() if spec is None else spec.history
    left = {RunState.SUCCEEDED: history.successful, RunState.FAILED: history.failed}
    keep: list[RunStatus] = []
    for position, run in enumerate(recent):
        if left.get(run.state, 0) > 0 or position == 0:
            keep.append(run)
        left[run.state] = left.get(run.state, 0) - 1
    return keep


def find_start_timeout(
    run: RunStatus, seen: RunSeen, spec: PipelineSpec, *, now: datetime
) -> Failure | None:
    """The failure of a run that has not begun to report within `timeouts.startSeconds`.

    What is known to keep it from starting says more than the time-out.
    """
    limit = spec.timeouts.start_seconds
    if seen.report is not None or run.planned_at is None:
        return None
    if now - run.planned_at <= timedelta(seconds=limit):
        return None
    return seen.failure or Failure.of(
        StartTimeout(
            f"run {run.name} did not report within timeouts.startSeconds ({limit} s); "
            "read its log, and give it more resources or more time"
        )
    )


def find_hopeless_failure(run: RunStatus, seen: RunSeen, *, now: datetime) -> Failure | None:
    """The failure of a live run that cannot go on by itself, and need not be waited for."""
    if seen.failure is None:
        return None
    if seen.given_up:
        return seen.failure
    if seen.failure.failure_class not in _HOPELESS or seen.report is not None:
        return None
    since = run.planned_at
    late = since is not None and now - since > timedelta(seconds=HOPELESS_SECONDS)
    return seen.failure if late else None


def has_overrun(run: RunStatus, spec: PipelineSpec, *, now: datetime) -> bool:
    """Whether the run has used up `timeouts.runSeconds`; another goes on where it stops."""
    limit = spec.timeouts.run_seconds
    if limit == 0 or run.started_at is None:
        return False
    return now - run.started_at > timedelta(seconds=limit)


def has_proved_itself(run: RunStatus, seen: RunSeen, *, now: datetime) -> bool:
    """Whether the live run does what the one before it failed to do."""
    report = seen.report
    if run.ask is not None:
        return False
    if report is None or report.outcome is not None or run.started_at is None:
        return False
    if any(retry.is_retried(table) for table in report.tables):
        return False
    if report.tables and all(progress.is_caught_up(table) for table in report.tables):
        return True
    return now - run.started_at >= timedelta(seconds=STABLE_SECONDS)


def _choose_kind(known: PipelineStatus, spec: PipelineSpec) -> RunKind:
    resync = resyncs.is_new(known, spec) and spec.resync.mode == ResyncMode.EXPORT
    if spec.mode == Mode.STREAM_ONLY and not resync:
        return RunKind.CHANGELOG
    exported = all(progress.is_exported(table) for table in known.tables)
    return RunKind.CHANGELOG if exported and not resync else RunKind.EXPORT


def _greatest_sequence(known: PipelineStatus, observed: Observed) -> int:
    """Also over the runs that are seen: a status that was lost must not use a name twice."""
    logged = [run.sequence for run in known.recent_runs]
    found = (_SEQUENCE.search(seen.name) for seen in observed.runs)
    return max([*logged, *(int(match.group(1)) for match in found if match)], default=0)


def _explain_missing_report(run: RunStatus, seen: RunSeen | None) -> Failure | None:
    """Why a run ended without a last report; asked to stop, it need not have written one, but a
    deletion is only done where it said so."""
    if run.state == RunState.STOPPING and run.kind != RunKind.DELETION:
        return None
    if seen is not None and seen.failure is not None:
        return seen.failure
    return Failure.of(NodeLost(f"run {run.name} is gone and left no outcome"))
