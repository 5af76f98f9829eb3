"""Retries: when a failed run is attempted again, one policy per failure class. Pure.

Takes failures of whole runs, and passing faults of single tables. It knows failures and how many
there were in a row, not what a run or a table does. The delays for `retry: {maxAttempts: 8,
initialSeconds: 10, maxSeconds: 600}`, in seconds, each up to 10 % longer:

    failure in a row          1    2    3    4    5    6    7    8    9   counted  Stalled
    passes by itself         10   20   40   80  160  320  600  600  600   yes      from 8 on
    NodeLost                  0    0    0   10   20   40   80  160  320   no       from 8 on
    Fenced                   10   20  600  600  600  600  600  600  600   no       from 3 on
    Auth                    600  600  600  600  600  600  600  600  600   no       from 1 on
    Submission, not passing 600  600  600  600  600  600  600  600  600   no       from 1 on
    cannot pass by itself     -                                           yes      from 1 on

NodeLost and Fenced count runs of their own class. A success, or 60 s of a run that reports, ends
every other count; half an hour of a run ends that of NodeLost.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from icdc_api import errors
from icdc_api.base import drop_name
from icdc_api.errors import FailureClass, WhoActs
from icdc_api.spec.pipeline import PipelineSpec, Retry
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import Failure, RunStatus

AT_ONCE_LOSSES = 3
"""Lost nodes in a row after which the next run starts at once. Later ones back off, so that a run
that is killed at each start does not keep a host busy for ever."""

MANY_LOSSES = 8
"""Lost nodes in a row that are no chance any more, whatever the cluster does to its nodes: a limit
or a policy ends each run, and somebody should know."""

LONG_RUN = timedelta(minutes=30)
"""A run that went on for so long was not lost for what it is. Nodes that are cheap, and taken away
at any time, end a continuous run again and again."""

QUICK_TAKEOVERS = 2
"""Fenced runs in a row after which the next run starts soon: the rival has most likely ended. A
rival that fences more is alive, and two that take over from each other at once get nowhere."""

RIVAL_SECONDS = 3600.0
"""Seconds for which a fenced run is evidence of a rival that may be alive."""

JITTER = 0.1
"""Greatest share of a delay that is added, so that pipelines that failed together spread out."""

PASSING_REASONS = frozenset(
    {
        TableReason.SOURCE_UNAVAILABLE,
        TableReason.TARGET_UNAVAILABLE,
        TableReason.THROTTLED,
        TableReason.NO_PROGRESS,
        TableReason.OUT_OF_MEMORY,
        TableReason.DISK_FULL,
        TableReason.NODE_LOST,
    }
)
"""Reasons of a stalled table that may pass without a person."""


@dataclass(frozen=True)
class RetryVerdict:
    """Consequence of a failure for the pipeline."""

    counted: bool
    """Whether it uses up one of `retry.maxAttempts`."""
    delay: float | None
    """Seconds until the next attempt; None if there is none before a person acts."""
    stalls: bool
    """Whether the pipeline is Stalled until an attempt succeeds."""


def judge(
    failure: Failure, *, policy: Retry, failures: int, newest_first: Sequence[RunStatus], key: str
) -> RetryVerdict:
    """Return the consequence of `failure`, see the table above.

    `failures`: counted failures in a row before this one. `newest_first`: the last runs, beginning
    with the failed one. `key`: seed of the jitter, so that the same input gives the same delay.
    """
    match failure.failure_class:
        case FailureClass.FENCED:
            # At least this one, also where the log was lost with the status.
            takeovers = max(1, count_takeovers(newest_first))
            if takeovers > QUICK_TAKEOVERS:
                slow = _add_jitter(float(policy.max_seconds), takeovers, key)
                return RetryVerdict(counted=False, delay=slow, stalls=True)
            return RetryVerdict(
                counted=False, delay=_compute_backoff(policy, takeovers, key), stalls=False
            )
        case FailureClass.NODE_LOST:
            # Not counted: draining the nodes of a cluster must not stall its pipelines.
            losses = count_losses(newest_first)
            repeated = losses - AT_ONCE_LOSSES
            delay = _compute_backoff(policy, repeated, key) if repeated > 0 else 0.0
            return RetryVerdict(counted=False, delay=delay, stalls=losses >= MANY_LOSSES)
    if is_retried_slowly(failure):
        return RetryVerdict(counted=False, delay=float(policy.max_seconds), stalls=True)
    if not failure.retryable:
        return RetryVerdict(counted=True, delay=None, stalls=True)
    counted = failures + 1
    if outlasts(failure, policy=policy, failures=counted):
        # A fault of this length should be known to somebody, so the pipeline is Stalled. It is
        # retried all the same: after an outage nobody should have to touch each pipeline.
        slow = _add_jitter(float(policy.max_seconds), counted, key)
        return RetryVerdict(counted=True, delay=slow, stalls=True)
    return RetryVerdict(counted=True, delay=_compute_backoff(policy, counted, key), stalls=False)


def limit_wait(
    status: PipelineStatus, spec: PipelineSpec | None, *, now: datetime
) -> PipelineStatus:
    """Return `status` with a next attempt no later than any delay of the table above puts it.

    Only a clock that was ahead when it was recorded puts it later: years, where it was years ahead.
    """
    recorded = status.next_attempt_time
    if spec is None or recorded is None:
        return status
    latest = now + timedelta(seconds=spec.retry.max_seconds * (1 + JITTER))
    return status.model_copy(update={"next_attempt_time": min(recorded, latest)})


def is_retried_slowly(failure: Failure) -> bool:
    """Return whether somebody must act, but outside of the pipeline, and nothing reports that.

    Credentials are rotated. What keeps a run from being submitted is most often a rule, a missing
    service account or the memory of spark-operator, for many pipelines at once: nobody should have
    to touch each of them afterwards.
    """
    if failure.failure_class == FailureClass.SUBMISSION:
        return not failure.retryable
    return failure.failure_class == FailureClass.AUTH


def may_pass(failure: Failure) -> bool:
    """Return whether an attempt may succeed although nobody has changed the pipeline."""
    # Earlier versions recorded fenced runs as not retryable.
    fenced = failure.failure_class == FailureClass.FENCED
    return failure.retryable or fenced or is_retried_slowly(failure)


def outlasts(failure: Failure, *, policy: Retry, failures: int) -> bool:
    """Return whether a passing fault has used up `retry.maxAttempts`.

    The pipeline is Stalled from then on, and retried every `maxSeconds`. `failures` includes this
    failure.
    """
    return failure.retryable and failures >= policy.max_attempts


def is_lost_for_long(failure: Failure, newest_first: Iterable[RunStatus]) -> bool:
    """Return whether `failure` is the last of so many lost runs that a person should know."""
    lost = failure.failure_class == FailureClass.NODE_LOST
    return lost and count_losses(newest_first) >= MANY_LOSSES


def count_losses(newest_first: Iterable[RunStatus]) -> int:
    """Return how many of the last runs in a row were lost with their node, up to a long one."""
    count = 0
    for run in _without_asks(newest_first):
        if run.failure is None or run.failure.failure_class != FailureClass.NODE_LOST:
            break
        count += 1
        if run.started_at and run.finished_at and run.finished_at - run.started_at >= LONG_RUN:
            break
    return count


def _without_asks(runs: Iterable[RunStatus]) -> list[RunStatus]:
    """Return `runs` without those that answered a question: they say nothing about replication."""
    return [run for run in runs if run.ask is None]


def count_takeovers(newest_first: Sequence[RunStatus]) -> int:
    """Return how many of the last runs in a row were fenced, within RIVAL_SECONDS of the last.

    finished, newest first     ended as      within the hour     counted
    12:10                      Fenced        yes                 1
    12:05                      Fenced        yes                 2
    11:00                      Fenced        no                  the count ends at 2
    """
    runs = _without_asks(newest_first)
    count, last = 0, runs[0].finished_at if runs else None
    for run in runs:
        if run.failure is None or run.failure.failure_class != FailureClass.FENCED:
            break
        if last is None or run.finished_at is None:
            break
        # Further apart these are different rivals, or one that is started once a day.
        if (last - run.finished_at).total_seconds() > RIVAL_SECONDS:
            break
        count += 1
    return count


def find_passing_failure(tables: Iterable[TableStatus]) -> Failure | None:
    """Return the first passing fault of a table, as a failure of the run; None if there is none."""
    for table in tables:
        if is_retried(table) and table.reason is not None:
            return build_passing_failure(
                table.name, reason=table.reason.value, message=table.message
            )
    return None


def build_passing_failure(table: str, *, reason: str, message: str | None) -> Failure:
    """Return the failure for a passing fault of `table`; `reason` is one of PASSING_REASONS."""
    return Failure(
        failure_class=FailureClass(reason),
        reason=reason,
        message=f"{table}: {drop_name(table, message or reason)}",
        retryable=True,
        who_acts=find_who_acts(reason),
    )


def find_who_acts(reason: str) -> WhoActs:
    """Return who acts on `reason`, which is the name of an error class, as all of TableReason."""
    kind: type[errors.IcdcError] = getattr(errors, reason)
    return kind.who_acts


def is_retried(table: TableStatus) -> bool:
    """Return whether the table waits for a passing fault to pass."""
    return table.state == TableState.STALLED and table.reason in PASSING_REASONS


def waits_for_person(table: TableStatus) -> bool:
    """Return whether the table is stalled until a person acts."""
    return table.state == TableState.STALLED and table.reason not in PASSING_REASONS


def _compute_backoff(policy: Retry, step: int, key: str) -> float:
    """Return `initialSeconds`, doubled with each step after the first, at most `maxSeconds`."""
    doublings = min(step - 1, 30)  # 1 s * 2**30 is above any maxSeconds; 2.0**n overflows
    delay = min(policy.initial_seconds * 2.0**doublings, float(policy.max_seconds))
    return _add_jitter(delay, step, key)


def _add_jitter(delay: float, step: int, key: str) -> float:
    """Return `delay` seconds and up to JITTER of it more, by `key` and `step`."""
    # Not random: `decide` is called again for the same failure, and must give the same time, or
    # each call would write another status.
    share = (zlib.crc32(f"{key}:{step}".encode()) % 1000) / 1000
    return delay * (1 + JITTER * share)


def reset_failures(before: PipelineStatus) -> PipelineStatus:
    """Return `before` without its failures in a row: the next run starts at once."""
    return before.model_copy(update={"consecutive_failures": 0, "next_attempt_time": None})
