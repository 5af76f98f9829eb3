"""The rolling proof of `spec.verify`: which tables are to be compared again, and when. Pure.

A table is due again after eight tenths of `every`, as soon as no run replicates or is due; after
nine tenths it comes before replication. So a comparison has a tenth of the time to end in. One that
gave no result is repeated after a tenth, so a fault costs at most ten runs within the time; a table
that was never compared is due at once. Example, `every: 10h`, compared at 0:00:

    time     trigger OnCommit                       trigger Continuous
    8:00     a run of its own, if nothing is due    the run that follows the tables is asked,
    9:00     a run of its own, before replication   if it has run for an hour
    10:00    condition Verified: Overdue; alert     the same

Tables that are due within a tenth of `every` share a run. No table is compared while its index is
incomplete. What is asked depends on the status and on one moment alone, which the record of a run
holds, or the id of a question: so each decision finds the same tables.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from icdc_api.spec.changelog import Trigger
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.proof import DEFAULT_MAX_CPU, OnDifference
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus
from icdc_api.status.runs import RunKind, RunStatus
from icdc_operator.core import progress

_PARTS = 10
_SOFT, _HARD = 8, 9
"""Parts of the time after which a table is due, and after which it comes before replication."""

_NOT_READY = (TableState.PENDING, TableState.EXPORTING, TableState.STALLED)
"""States of a table whose index is not complete yet, or waits for a person: it is not compared."""
_AT_ONCE = datetime(1970, 1, 1, tzinfo=UTC)
"""When a table was due that was never compared."""


@dataclass(frozen=True)
class ProofTimes:
    """When the next comparison is due."""

    at: datetime
    """From then on, where no replication is due."""
    latest: datetime
    """From then on before replication."""


def find_times(status: PipelineStatus, spec: PipelineSpec) -> ProofTimes | None:
    """Return when the first table is due; None where no table is ever."""
    interval = _get_interval(spec)
    ready = list(_select_ready(status))
    if interval is None or not ready:
        return None
    return ProofTimes(
        at=min(_find_due(table, interval, _SOFT) for table in ready),
        latest=min(_find_due(table, interval, _HARD) for table in ready),
    )


def find_times_of_run(status: PipelineStatus, spec: PipelineSpec) -> ProofTimes | None:
    """Return the same for a run of its own; None with the trigger Continuous, which has none."""
    return None if spec.changelog.trigger is Trigger.CONTINUOUS else find_times(status, spec)


def must_end_lingering(status: PipelineStatus, spec: PipelineSpec, now: datetime) -> bool:
    """Return whether a run that stays only for later commits has to make room."""
    times = find_times_of_run(status, spec)
    return times is not None and times.latest <= now


def choose_kind(spec: PipelineSpec) -> RunKind:
    """Return the kind of run that compares."""
    repairs = spec.verify is not None and spec.verify.on_difference is OnDifference.REPAIR
    return RunKind.REPAIR if repairs else RunKind.VERIFY


def get_max_cpu(spec: PipelineSpec) -> float:
    """Return the CPU limit of the executor of such a run."""
    wanted = None if spec.verify is None else spec.verify.max_cpu
    return DEFAULT_MAX_CPU if wanted is None else wanted


def list_tables(
    status: PipelineStatus, spec: PipelineSpec, moment: datetime | None
) -> tuple[str, ...]:
    """Return the tables that are compared where one was due at `moment`, in the spec's order."""
    interval = _get_interval(spec)
    if interval is None or moment is None:
        return ()
    until = moment + interval / _PARTS
    due = {
        table.name for table in _select_ready(status) if _find_due(table, interval, _SOFT) <= until
    }
    return tuple(table.name for table in spec.tables if table.name in due)


def find_question_time(
    status: PipelineStatus, run: RunStatus, spec: PipelineSpec, *, now: datetime
) -> datetime | None:
    """Return since when a continuous run has a table to compare; None while it has none.

    A run that has just started is not asked: where comparing ends drivers, one is lost each tenth
    of the time, and no more.
    """
    interval, times = _get_interval(spec), find_times(status, spec)
    if interval is None or times is None or run.started_at is None:
        return None
    moment = max(times.at, run.started_at + interval / _PARTS)
    return moment if moment <= now else None


def list_unproven(status: PipelineStatus, spec: PipelineSpec) -> list[TableStatus]:
    """Return the tables that were never compared, although the spec promises it."""
    if _get_interval(spec) is None:
        return []
    return [table for table in status.tables if table.verification is None]


def list_overdue(status: PipelineStatus, spec: PipelineSpec, *, now: datetime) -> list[TableStatus]:
    """Return the tables whose last result is older than the spec promises."""
    interval = _get_interval(spec)
    if interval is None:
        return []
    proofs = [(table, progress.find_proof(table)) for table in status.tables]
    return [table for table, proof in proofs if proof is not None and proof < now - interval]


def describe_table(table: TableStatus) -> str:
    """Return when the table was last compared, for a message."""
    proof = progress.find_proof(table)
    if proof is None:
        return f"{table.name}: not compared yet"
    return f"{table.name}: last compared at {_format(proof)}"


def describe_age(status: PipelineStatus, spec: PipelineSpec) -> str:
    """Return how old the oldest comparison is, as the end of a message; empty without a promise."""
    oldest = progress.find_oldest_proof(status)
    if _get_interval(spec) is None or spec.verify is None or oldest is None:
        return ""
    every = spec.verify.every
    return f"; the oldest comparison is of {_format(oldest)}, and is repeated within {every}"


def _format(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _find_due(table: TableStatus, interval: timedelta, parts: int) -> datetime:
    last = table.verification
    if last is None:
        return _AT_ONCE
    # Without a result it is tried again much sooner, but never at once: a fault may last.
    return last.at + interval * (1 if last.equal is None else parts) / _PARTS


def _select_ready(status: PipelineStatus) -> Iterable[TableStatus]:
    return (table for table in status.tables if table.state not in _NOT_READY)


def _get_interval(spec: PipelineSpec) -> timedelta | None:
    return None if spec.verify is None else spec.verify.interval
