"""The rolling proof of `spec.verify`: which tables are to be compared again, and when. Pure.

A table is due again after eight tenths of `every`, as soon as no run replicates or is due; after
nine tenths it comes before replication. So a comparison has a tenth of the time to end in. Where a
passing fault prevented a result it is repeated after a tenth, so that costs at most ten runs
within the time; a table that was never compared is due at once. Both come before replication after
nine tenths, too: since that attempt, or since Verified is Unknown. Example, `every: 10h`, compared
at 0:00:

    time     trigger OnCommit                       trigger Continuous
    8:00     a run of its own, if nothing is due    the run that follows the tables is asked,
    9:00     a run of its own, before replication   if it has run for an hour
    10:00    condition Verified: Overdue; alert     the same

Tables that are due within a tenth of `every` share a run. What it compares depends on the status,
which a comparison changes only at its end, and on the moment that the record of the run holds: so
each decision finds the same tables. A run that follows tables is asked for one after the other. No
table is compared while its index is incomplete.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from icdc_api.spec.changelog import Trigger
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.proof import DEFAULT_MAX_CPU, OnDifference
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import (
    PipelineStatus,
    TableReason,
    TableState,
    TableStatus,
    Verification,
)
from icdc_api.status.runs import RunKind, RunStatus
from icdc_operator.core import progress, retry

_PARTS = 10
_SOFT, _HARD = 8, 9
"""Parts of the time after which a table is due, and after which it comes before replication."""
MAX_REST = timedelta(hours=1)
"""Most time in which a run that has just started is not asked. Nodes may be replaced daily, and no
run live as long as a tenth of a month."""

_NOT_READY = (TableState.PENDING, TableState.EXPORTING, TableState.STALLED)
"""States of a table whose index is not complete yet, or waits for a person: it is not compared."""
_LASTING = frozenset(TableReason) - retry.PASSING_REASONS
"""Reasons for no result that another attempt does not change, such as an expired snapshot."""
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
    interval = spec.proof_interval
    ready = list(_select_ready(status))
    if interval is None or not ready:
        return None
    # Of a table that was never compared nothing says since when it waits, but the condition does.
    verified = status.find_condition(ConditionType.VERIFIED)
    since = _AT_ONCE if verified is None else verified.last_transition_time
    attempts = [since if table.verification is None else table.verification.at for table in ready]
    return ProofTimes(
        at=min(_find_due(table, interval) for table in ready),
        latest=min(attempts) + interval * _HARD / _PARTS,
    )


def find_times_of_run(status: PipelineStatus, spec: PipelineSpec) -> ProofTimes | None:
    """Return the same for a run of its own; None with the trigger Continuous, which has none."""
    return None if spec.changelog.trigger is Trigger.CONTINUOUS else find_times(status, spec)


def must_end_lingering(status: PipelineStatus, spec: PipelineSpec, now: datetime) -> bool:
    """Return whether a run that stays only for later commits has to make room."""
    times = find_times_of_run(status, spec)
    # By the later of the two times: until then a proof gives way to replication.
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
    interval = spec.proof_interval
    if interval is None or moment is None:
        return ()
    until = moment + interval / _PARTS
    due = {table.name for table in _select_ready(status) if _find_due(table, interval) <= until}
    return tuple(table.name for table in spec.tables if table.name in due)


def find_next_table(
    status: PipelineStatus, run: RunStatus, spec: PipelineSpec, *, now: datetime
) -> tuple[TableStatus, datetime] | None:
    """Return the table that a continuous run has to compare, and since when; None without one.

    A run that has just started is not asked: where comparing ends drivers, one is lost each tenth
    of the time or each hour, and no more.
    """
    interval, ready = spec.proof_interval, list(_select_ready(status))
    if interval is None or not ready or run.started_at is None:
        return None
    table = min(ready, key=lambda one: _find_due(one, interval))
    rest = min(interval / _PARTS, MAX_REST)
    moment = max(_find_due(table, interval), run.started_at + rest)
    return (table, moment) if moment <= now else None


def list_unproven(status: PipelineStatus, spec: PipelineSpec) -> list[TableStatus]:
    """Return the tables that were never compared, although the spec promises it."""
    if spec.proof_interval is None:
        return []
    return [table for table in status.tables if table.verification is None]


def list_overdue(status: PipelineStatus, spec: PipelineSpec, *, now: datetime) -> list[TableStatus]:
    """Return the tables whose last result is older than the spec promises."""
    interval = spec.proof_interval
    if interval is None:
        return []
    proofs = [(table, progress.find_proof(table)) for table in status.tables]
    # Without a proof it is not overdue but unproven, see `list_unproven`.
    return [table for table, proof in proofs if proof is not None and proof < now - interval]


def describe_table(table: TableStatus) -> str:
    """Return when the table was last compared, for a message."""
    proof = progress.find_proof(table)
    if proof is None:
        return f"{table.name}: not compared yet"
    return f"{table.name}: last compared at {_format(proof)}"


def describe_age(status: PipelineStatus, spec: PipelineSpec) -> str:
    """Return how old the oldest comparison is, as the end of a message; empty without one."""
    # Of those that gave a result alone: that of the metric is also since when there is none.
    proofs = filter(None, map(progress.find_proof, status.tables))
    oldest = min(proofs, default=None)
    if oldest is None:
        return ""
    every = spec.verify and spec.verify.every
    promise = f", and is repeated within {every}" if every else ""
    return f"; the oldest comparison is of {_format(oldest)}{promise}"


def _format(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _find_due(table: TableStatus, interval: timedelta) -> datetime:
    last = table.verification
    if last is None:
        return _AT_ONCE
    # After a passing fault it is tried again much sooner, but never at once: it may last.
    return last.at + interval * (1 if _has_passing_fault(last) else _SOFT) / _PARTS


def _has_passing_fault(last: Verification) -> bool:
    return last.equal is None and last.reason not in _LASTING


def _select_ready(status: PipelineStatus) -> Iterable[TableStatus]:
    return (table for table in status.tables if table.state not in _NOT_READY)
