"""When a failed run is tried again: one policy per failure class, pure.

A failure of the run as a whole comes here, and so does a passing fault that one table met. It
knows no run and no table, only failures and how many of them there were in a row.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from icdc_api import errors
from icdc_api.errors import FailureClass, WhoActs
from icdc_api.runs import Failure, RunStatus
from icdc_api.spec import Retry
from icdc_api.status import TableReason, TableState, TableStatus

AT_ONCE_LOSSES = 3
"""Lost nodes in a row that are answered at once; from then on each waits longer than the last, so
that a run which is killed whenever it starts does not keep a host busy for ever."""

QUICK_TAKEOVERS = 2
"""Times in a row that a fenced run is answered soon: its rival has most likely ended. One that
fences the next runs too is alive, and two that take turns at once would get nowhere."""

RIVAL_SECONDS = 3600.0
"""How long a run that was fenced tells of a rival that may be alive."""

JITTER = 0.1
"""Greatest part of a delay that is added, so that pipelines which failed together spread out."""

PASSING_REASONS = frozenset(
    {
        TableReason.SOURCE_UNAVAILABLE,
        TableReason.TARGET_UNAVAILABLE,
        TableReason.THROTTLED,
        TableReason.OUT_OF_MEMORY,
        TableReason.DISK_FULL,
        TableReason.NODE_LOST,
    }
)
"""Reasons of a stalled table that may go away by themselves."""


@dataclass(frozen=True)
class RetryVerdict:
    """What a failure means for the pipeline."""

    counted: bool
    """Whether it uses up one of `retry.maxAttempts`."""
    delay: float | None
    """Seconds until the next attempt; None: none before a person acts."""
    stalls: bool
    """Whether the pipeline is Stalled until an attempt goes well."""


def judge(
    failure: Failure, *, policy: Retry, failures: int, newest_first: Sequence[RunStatus], key: str
) -> RetryVerdict:
    """The verdict on `failure`.

    `failures` counts the counted failures in a row before this one; `newest_first` are the last
    runs, the failed one at their head; `key` seeds the jitter, so that the same question gets the
    same answer.
    """
    match failure.failure_class:
        case FailureClass.FENCED:
            takeovers = max(1, takeovers_in_a_row(newest_first))
            if takeovers > QUICK_TAKEOVERS:
                slow = _add_jitter(float(policy.max_seconds), takeovers, key)
                return RetryVerdict(counted=False, delay=slow, stalls=True)
            return RetryVerdict(counted=False, delay=_backoff(policy, takeovers, key), stalls=False)
        case FailureClass.NODE_LOST:
            repeated = losses_in_a_row(newest_first) - AT_ONCE_LOSSES
            delay = _backoff(policy, repeated, key) if repeated > 0 else 0.0
            return RetryVerdict(counted=False, delay=delay, stalls=False)
        case FailureClass.AUTH:
            # Credentials are rotated outside of the pipeline, so it goes on looking, slowly.
            return RetryVerdict(counted=False, delay=float(policy.max_seconds), stalls=True)
    if not failure.retryable:
        return RetryVerdict(counted=True, delay=None, stalls=True)
    counted = failures + 1
    if outlasts(failure, policy=policy, failures=counted):
        # Whatever has failed for so long is somebody's to know, but when it is over nobody should
        # have to touch each pipeline that met it.
        slow = _add_jitter(float(policy.max_seconds), counted, key)
        return RetryVerdict(counted=True, delay=slow, stalls=True)
    return RetryVerdict(counted=True, delay=_backoff(policy, counted, key), stalls=False)


def may_pass(failure: Failure) -> bool:
    """Whether an attempt may go well although nobody has done anything."""
    # Earlier versions wrote that trying again cannot help a fenced run.
    return failure.retryable or failure.failure_class == FailureClass.FENCED


def outlasts(failure: Failure, *, policy: Retry, failures: int) -> bool:
    """Whether a passing fault has used up `retry.maxAttempts`: the pipeline is Stalled from then
    on, and tried again every `maxSeconds`. `failures` counts this one too."""
    return failure.retryable and failures >= policy.max_attempts


def losses_in_a_row(newest_first: Iterable[RunStatus]) -> int:
    """How many of the last runs were lost with their node, one after the other."""
    count = 0
    for run in _without_asks(newest_first):
        if run.failure is None or run.failure.failure_class != FailureClass.NODE_LOST:
            break
        count += 1
    return count


def _without_asks(runs: Iterable[RunStatus]) -> list[RunStatus]:
    """Without those that answered somebody's question."""
    return [run for run in runs if run.ask is None]


def takeovers_in_a_row(newest_first: Sequence[RunStatus]) -> int:
    """How many of the last runs were fenced, one after the other, within RIVAL_SECONDS."""
    runs = _without_asks(newest_first)
    count, last = 0, runs[0].finished_at if runs else None
    for run in runs:
        if run.failure is None or run.failure.failure_class != FailureClass.FENCED:
            break
        if last is None or run.finished_at is None:
            break
        if (last - run.finished_at).total_seconds() > RIVAL_SECONDS:
            break
        count += 1
    return count


def find_passing_failure(tables: Iterable[TableStatus]) -> Failure | None:
    """The first passing fault that a table met, as a failure of the run that met it."""
    for table in tables:
        if is_retried(table) and table.reason is not None:
            return build_passing_failure(table.name, table.reason.value, table.message)
    return None


def build_passing_failure(table: str, reason: str, message: str | None) -> Failure:
    """A passing fault of that table, for one of PASSING_REASONS."""
    return Failure(
        failure_class=FailureClass(reason),
        reason=reason,
        message=f"{table}: {message or reason}",
        retryable=True,
        who_acts=_who_acts(reason),
    )


def _who_acts(reason: str) -> WhoActs:
    """Who can do something about a reason that is named like its class of error."""
    kind: type[errors.IcdcError] = getattr(errors, reason)
    return kind.who_acts


def is_retried(table: TableStatus) -> bool:
    """Whether the table waits for a passing fault to go away."""
    return table.state == TableState.STALLED and table.reason in PASSING_REASONS


def waits_for_person(table: TableStatus) -> bool:
    """Whether the table is stalled until a person acts."""
    return table.state == TableState.STALLED and table.reason not in PASSING_REASONS


def _backoff(policy: Retry, step: int, key: str) -> float:
    """`initialSeconds`, doubled with each step after the first, at most `maxSeconds`."""
    doublings = min(step - 1, 30)  # beyond this every allowed start is over every allowed end
    delay = min(policy.initial_seconds * 2.0**doublings, float(policy.max_seconds))
    return _add_jitter(delay, step, key)


def _add_jitter(delay: float, step: int, key: str) -> float:
    """`delay` and up to JITTER of it more, by key and step."""
    share = (zlib.crc32(f"{key}:{step}".encode()) % 1000) / 1000
    return delay * (1 + JITTER * share)
