"""Records of runs: name and epoch of the next one, the end of one, what is retained. Pure.

The record makes a run safe to create twice: its name and epoch are fixed before anything is
created. Whether a run is due at all is decided by `schedule`.

    last run             next run      why
    shop-e1-1 Failed     shop-e1-2     another attempt: same sequence, same kind and generation
    shop-e1-2 Succeeded  shop-c2-1     the export is finished, so the next run is a changelog
    shop-c2-1 Failed     shop-c3-1     the generation changed: a run of its own
    (status was lost)    shop-c4-1     above every sequence in the log and among the objects

An epoch is the time in milliseconds, and above that of every run or rival ever seen.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from icdc_api import naming
from icdc_api.base import MAX_COUNT
from icdc_api.errors import FailureClass, NodeLost, StartTimeout
from icdc_api.job.run_files import RunReport
from icdc_api.spec.pipeline import History, PipelineSpec
from icdc_api.status.pipeline_status import MAX_RECENT_RUNS, PipelineStatus
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_operator.core import progress, retry
from icdc_operator.core.observed import Action, ForgetRun, Observed, RunSeen

STABLE_SECONDS = 60.0
"""Seconds after which a live run that reports has overcome the failures before it."""

HOPELESS_SECONDS = 120.0
"""Seconds after which a run that its image or settings keep from starting is ended. The next one
may get a corrected spec; waiting for `timeouts.startSeconds` helps nobody."""

ENDING_SECONDS = 180.0
"""Seconds that a driver has from its last report to its end: it stops Spark, which deletes the
executors, and waits for its JVM."""

RETAINED_ANSWERS = 2
"""Runs that answered questions or compared, and stay in a full log."""

_HOPELESS = frozenset({FailureClass.IMAGE_PULL, FailureClass.BAD_SPEC})

_SEQUENCE = re.compile(rf"-[{''.join(kind.letter for kind in RunKind)}](\d+)-\d+$")


def plan_run(
    status: PipelineStatus,
    observed: Observed,
    *,
    now: datetime,
    kind: RunKind,
    ask: str | None = None,
) -> RunStatus:
    """Return the record of the next run. `ask`: id of the question that the run answers."""
    # A question is no further attempt of the run before it.
    last = status.last_run if ask is None else None
    again = last is not None and last.state == RunState.FAILED
    if last is not None and again and (last.generation, last.kind) == (observed.generation, kind):
        sequence, attempt = last.sequence, last.attempt + 1
    else:
        sequence, attempt = 1 + _find_greatest_sequence(status, observed), 1
    name = naming.name_run(observed.name, letter=kind.letter, sequence=sequence, attempt=attempt)
    epochs = [*(run.epoch for run in status.recent_runs), *(run.epoch for run in observed.runs)]
    # The owner of an index may run elsewhere, or got its epoch from a clock that was ahead.
    failures = (run.failure for run in status.recent_runs)
    rivals = (failure.rival for failure in failures if failure is not None)
    epochs += [rival.epoch for rival in rivals if rival is not None]
    # The time, so that a pipeline whose status was lost begins above its former runs.
    epoch = max(1 + max(epochs, default=0), int(now.timestamp() * 1000))
    # A greater number in a state document makes the run report it as corrupt.
    epoch = min(epoch, MAX_COUNT)
    return RunStatus(
        name=name,
        kind=kind,
        sequence=sequence,
        attempt=attempt,
        epoch=epoch,
        run_id=f"{name}.{epoch}",
        ask=ask,
        generation=observed.generation,
        spec_hash=observed.spec_hash,
        planned_at=now,
    )


def find_new_run(before: PipelineStatus, after: PipelineStatus) -> RunStatus | None:
    """Return the run that the decision from `before` to `after` plans; None if it plans none."""
    old, run = before.current_run, after.current_run
    return None if run is None or (old is not None and old.epoch == run.epoch) else run


def compute_start_seconds(before: PipelineStatus, after: PipelineStatus) -> float | None:
    """Return how long the current run took to start, if this change shows its start."""
    run, old = after.current_run, before.current_run
    if run is None or run.started_at is None or run.planned_at is None:
        return None
    if old is not None and old.epoch == run.epoch and old.started_at is not None:
        return None
    return max(0.0, (run.started_at - run.planned_at).total_seconds())


def find_last_success(status: PipelineStatus) -> datetime | None:
    """Return when the newest run of the log ended that succeeded; None if none did."""
    good = (run.finished_at for run in status.recent_runs if run.failure is None)
    return next((moment for moment in good if moment is not None), None)


def finish_run(run: RunStatus, seen: RunSeen | None, *, now: datetime) -> RunStatus:
    """Return the record of the ended `run`. Its own report counts more than evidence of its pod."""
    # The failure for which it was stopped comes first: its own outcome is a consequence of that.
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
            "spec_hash": None,
            "started_at": run.started_at or (None if seen is None else seen.started_at),
        }
    )


def limit_times(run: RunStatus, *, now: datetime) -> RunStatus:
    """Return the live `run`, neither planned nor started after `now`.

    Only a clock that was ahead puts it there, and time-outs would count from when that time comes.
    """
    # Recorded, not compared alone: else each decision would count anew, and never to the end.
    times = {
        "planned_at": run.planned_at and min(run.planned_at, now),
        "started_at": run.started_at and min(run.started_at, now),
    }
    return run.model_copy(update=times)


def add_to_log(recent: Iterable[RunStatus], run: RunStatus) -> tuple[RunStatus, ...]:
    """Return the log with `run` as its newest entry, bounded.

    Those that replicated stay longest, however many answered questions since: by the last one it is
    known when the next one is due, and retries count those that were lost or fenced in a row.
    """
    log = [run, *recent]
    if len(log) > MAX_RECENT_RUNS:
        others = [one for one in log if one.kind.inspects][RETAINED_ANSWERS:]
        log.remove((others or log)[-1])
    return tuple(log)


def select_retained(recent: Iterable[RunStatus], spec: PipelineSpec | None) -> list[RunStatus]:
    """Return the ended runs whose objects `spec.history` retains; the newest always is."""
    # Also of an invalid spec: the defaults must not let objects of runs pile up.
    history = History() if spec is None else spec.history
    left = {RunState.SUCCEEDED: history.successful, RunState.FAILED: history.failed}
    retained: list[RunStatus] = []
    for position, run in enumerate(recent):
        if left.get(run.state, 0) > 0 or position == 0:
            retained.append(run)
        left[run.state] = left.get(run.state, 0) - 1
    return retained


def list_removals(observed: Observed, after: PipelineStatus) -> tuple[Action, ...]:
    """Return removals of ended runs that neither the record nor the retained log holds.

    Of a retained one the pod alone, where that takes disks or memory from others.
    """
    # Remains of one attempt may share their name with another attempt that still writes.
    used = {seen.name for seen in observed.runs if seen.live}
    if after.current_run is not None:
        used.add(after.current_run.name)
    if after.observed_ask is not None:
        used.add(after.observed_ask.run)  # its pod holds the answer
    log = select_retained(after.recent_runs, observed.spec)
    retained = used | {run.name for run in log}
    if after.current_run is None and log and log[0].state == RunState.FAILED:
        used.add(log[0].name)  # until the next attempt, which needs what it holds, for its log
    ended = [seen for seen in observed.runs if not seen.live]
    removed = [ForgetRun(seen.name) for seen in ended if seen.name not in retained]
    freed = [seen.name for seen in ended if seen.holds and seen.name in retained - used]
    return (*removed, *(ForgetRun(name, pods_only=True) for name in freed))


def find_start_timeout(
    run: RunStatus, seen: RunSeen, spec: PipelineSpec, *, now: datetime
) -> Failure | None:
    """Return the failure of a run that did not start within `timeouts.startSeconds`, else None.

    So long it may go without a report, and later on without any executor. Evidence of what keeps
    it from starting says more than the time-out, so it comes first.
    """
    limit = spec.timeouts.start_seconds
    # From the plan on: a driver that never starts has no start to count from.
    since, lacks = run.planned_at, "did not report"
    if seen.report is not None:
        since, lacks = _find_executor_loss(run, seen.report), "had no executor"
    if since is None or now - since <= timedelta(seconds=limit):
        return None
    return seen.failure or Failure.of(
        StartTimeout(
            f"run {run.name} {lacks} within timeouts.startSeconds ({limit} s); "
            "read its log, and give it more resources or more time"
        )
    )


def find_creation_timeout(run: RunStatus, observed: Observed, *, now: datetime) -> Failure | None:
    """Return why a planned run was not created within `timeouts.startSeconds`; None before."""
    since, spec = run.planned_at, observed.spec
    limit = timedelta(seconds=0 if spec is None else spec.timeouts.start_seconds)
    return None if since is None or now - since <= limit else observed.uncreated


def _find_executor_loss(run: RunStatus, report: RunReport) -> datetime | None:
    """Return since when the run waits for executors; None where it does not."""
    since = report.without_executors_since
    if since is None:
        return None
    # The driver's clock may be behind: it cannot have begun before the run was planned.
    behind = timedelta(0) if run.planned_at is None else run.planned_at - report.started_at
    since += max(behind, timedelta(0))
    return since if run.started_at is None else max(since, run.started_at)


def find_hopeless_failure(run: RunStatus, seen: RunSeen, *, now: datetime) -> Failure | None:
    """Return the failure of a live run that cannot go on by itself, else None."""
    if seen.failure is None:
        return None
    if seen.given_up:
        # At once, and also where it has reported: its node does not answer any more.
        return seen.failure
    if seen.failure.failure_class not in _HOPELESS or seen.report is not None:
        return None
    # Not at once: a registry, or a Secret that is being created, may be missing for a moment.
    since = run.planned_at
    late = since is not None and now - since > timedelta(seconds=HOPELESS_SECONDS)
    return seen.failure if late else None


def has_overrun(run: RunStatus, spec: PipelineSpec, *, now: datetime) -> bool:
    """Return whether the run has used up `timeouts.runSeconds`; the next one resumes its work."""
    limit = spec.timeouts.run_seconds
    # 0 means no limit. Before its start the run is limited by `timeouts.startSeconds`.
    if limit == 0 or run.started_at is None:
        return False
    return now - run.started_at > timedelta(seconds=limit)


def hangs_at_its_end(report: RunReport | None, *, now: datetime) -> bool:
    """Return whether the driver lives on although it reported its end: nothing else ends it.

    Its clock may differ. One that is stopped too early has no work left that could be lost.
    """
    if report is None or not report.finished:
        return False
    return abs(now - report.updated_at) > timedelta(seconds=ENDING_SECONDS)


def has_proved_itself(run: RunStatus, seen: RunSeen, *, now: datetime) -> bool:
    """Return whether the live run works where the one before failed: it resets the failures."""
    report = seen.report
    # A question replicates nothing, so it proves nothing about the replication that failed.
    if run.ask is not None:
        return False
    if report is None or report.outcome is not None or run.started_at is None:
        return False
    if seen.waits_for_executors:
        return False
    if any(retry.is_retried(table) for table in report.tables):
        return False
    # Caught up is proof at once; otherwise only time shows that the failure does not return.
    if report.tables and all(progress.is_caught_up(table) for table in report.tables):
        return True
    return now - run.started_at >= timedelta(seconds=STABLE_SECONDS)


def _find_greatest_sequence(status: PipelineStatus, observed: Observed) -> int:
    """Return the greatest sequence of log and objects: a lost status must not reuse a name."""
    logged = [run.sequence for run in status.recent_runs]
    matches = (_SEQUENCE.search(seen.name) for seen in observed.runs)
    return max([*logged, *(int(match.group(1)) for match in matches if match)], default=0)


def _explain_missing_report(run: RunStatus, seen: RunSeen | None) -> Failure | None:
    """Return why a run ended without a last report; None where it was asked to stop.

    A deletion that was asked to stop is not exempt: it is finished only if it reported so.
    """
    if run.state == RunState.STOPPING and run.kind != RunKind.DELETION:
        return None
    if seen is not None and seen.failure is not None:
        return seen.failure
    return Failure.of(NodeLost(f"run {run.name} ended without reporting an outcome"))
