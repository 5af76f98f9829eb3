"""Writes what was observed of a table into the run's report.

The report is for people, status and metrics; recovery reads the state document alone. Must not
decide anything.
"""

import logging
from dataclasses import dataclass
from datetime import datetime

from icdc_api.job.resources import ResourceKind
from icdc_api.status.pipeline_status import Duplicates, ExportProgress, LastBatch, TableState
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.protocol.state_document import Intent, StateDocument
from icdc_spark.protocol.steps import StepKind
from icdc_spark.protocol.stored_fields import MAX_BYTES
from icdc_spark.replication.checks.table_observation import TableObservation
from icdc_spark.replication.context import TableContext
from icdc_spark.reporting.export_rate import ExportRate
from icdc_spark.reporting.reporter import TableReporter, get_utc_now
from icdc_spark.reporting.scratch_volumes import measure_scratch

LOG = logging.getLogger(__name__)


_AFTER_EXPORT = {
    StepKind.CHANGELOG: TableState.STREAMING,
    StepKind.IDLE: TableState.STREAMING,
    StepKind.COMPLETE: TableState.COMPLETE,
}
"""The state of a table whose export is over, by the step that is next."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What the driver measured of one batch."""

    planning_seconds: float = 0.0
    """Time in which the files that differ were found; 0 for an export, which is planned before its
    first wave."""
    writing_seconds: float = 0.0
    """Time in which rows were read, compared and written."""
    files_bytes: int = 0
    """Compressed bytes of the files to be read, by the metadata of the table."""
    non_finite: int = 0
    """NaN and infinite numbers that were written as null."""


def report_observation(reporter: TableReporter, observation: TableObservation) -> None:
    """Report the current and the applied snapshot, counts, and how far the index is behind."""
    current = observation.current
    reporter.set(
        table_uuid=observation.table.uuid,
        current_snapshot_id=str(current.id) if current else None,
    )
    state = observation.stored.document if observation.stored else None
    if state is None:
        return
    now = observation.index.identity
    reporter.note_resources(
        {
            ResourceKind.STATE_DOCUMENT: [state.measure(), MAX_BYTES],
            **({ResourceKind.STATE_INDEX: now.store_bytes} if now and now.store_bytes else {}),
        }
    )
    applied = state.applied
    reporter.set(
        rows_upserted=state.totals.upserted,
        rows_deleted=state.totals.deleted,
        dead_letters=state.totals.dead_letters,
        duplicates=_build_duplicates(state),
        **_measure_lag(observation, state),
    )
    if applied is not None:
        # In one change: who waits until a table is exported would see it exporting still.
        over = _AFTER_EXPORT.get(observation.step.kind)
        ended = over is not None and reporter.status.state is TableState.EXPORTING
        reporter.set(
            applied_snapshot_id=applied.snapshot_id,
            applied_sequence_number=applied.sequence_number,
            applied_at=state.updated_at,
            **({"state": over, "reason": None, "message": None} if ended else {}),
        )


def report_batch(
    context: TableContext, intent: Intent, result: BatchResult, effort: Effort
) -> None:
    """Report what a complete batch took, in the table's entry and in one line of the log.

    shop.orders: snapshot 77 to 78 in 1.42 s: 1,200 documents written, 3 deleted, 0 rows refused;
    files of 4.1 MB read; 0.4 MB sent in 12 requests, 1 repeated, 0 throttled, waited for 0.90 s
    by all tasks, and 0.00 s because of limits; planning 0.12 s, writing 1.30 s
    """
    # One after the other: executors and driver have volumes of their own, and the fullest counts.
    context.reporter.note_resources(result.resources)
    context.reporter.note_resources(measure_scratch())
    context.reporter.set(
        last_batch=LastBatch(
            from_snapshot_id=intent.from_,
            to_snapshot_id=intent.to,
            at=get_utc_now(),
            upserted=_count_upserted(result),
            deleted=result.deleted,
            refused=result.dead_letters,
            non_finite=effort.non_finite or None,
            files_bytes=effort.files_bytes,
            request_bytes=result.bytes,
            requests=result.requests,
            retries=result.retries,
            throttled=result.throttled,
            planning_millis=round(1000 * effort.planning_seconds),
            writing_millis=round(1000 * effort.writing_seconds),
            waiting_millis=round(1000 * result.waiting_seconds),
            limited_millis=round(1000 * result.limited_seconds) or None,
        )
    )
    _log_batch(context, intent, result, effort)


def _log_batch(context: TableContext, intent: Intent, result: BatchResult, effort: Effort) -> None:
    LOG.info(
        "%s: %s in %.2f s: %s documents written, %s deleted, %s rows refused; files of %.1f MB "
        "read; %.1f MB sent in %s requests, %s repeated, %s throttled, waited for %.2f s by all "
        "tasks, and %.2f s because of limits; planning %.2f s, writing %.2f s",
        context.table.name,
        f"snapshot {intent.from_} to {intent.to}" if intent.from_ else f"snapshot {intent.to}",
        effort.planning_seconds + effort.writing_seconds,
        f"{_count_upserted(result):,}",
        f"{result.deleted:,}",
        f"{result.dead_letters:,}",
        effort.files_bytes / 1e6,
        result.bytes / 1e6,
        f"{result.requests:,}",
        f"{result.retries:,}",
        f"{result.throttled:,}",
        result.waiting_seconds,
        result.limited_seconds,
        effort.planning_seconds,
        effort.writing_seconds,
    )
    if effort.non_finite:
        LOG.info(
            "%s: %s NaN or infinite numbers were written as null, which is all that JSON has",
            context.table.name,
            f"{effort.non_finite:,}",
        )


def _count_upserted(result: BatchResult) -> int:
    # What a replay finds applied was written for this batch too, by the run that was lost.
    return result.upserted + result.already_applied


def _build_duplicates(state: StateDocument) -> Duplicates | None:
    if state.duplicates is None:
        return None
    return Duplicates(count=state.duplicates.count, samples=tuple(state.duplicates.samples))


def _measure_lag(
    observation: TableObservation, state: StateDocument
) -> dict[str, int | datetime | None]:
    """Return the number of unapplied snapshots, and since when the oldest of them is committed.

    Applied 77 of 77 ← 78 (10:00) ← 79 (10:05), at 10:06: two snapshots, 360 seconds.
    """
    current, table = observation.current, observation.table
    applied = state.applied.snapshot_id if state.applied else None
    # Of an empty table neither has an id.
    if state.applied is not None and applied == (str(current.id) if current else None):
        return {"snapshots_behind": 0, "behind_since": None, "lag_seconds": 0}
    if state.applied is None or current is None:
        return {"snapshots_behind": None, "behind_since": None, "lag_seconds": None}
    from_id = int(applied) if applied else None
    # None: rolled back, or snapshots between have expired: behind by one difference.
    chain = table.list_snapshots_between(from_id, current.id) or [current]
    before = None if from_id is None else table.snapshots.get(from_id)
    now = get_utc_now()
    since = find_lag_start(
        chain[0].committed_at, None if before is None else before.committed_at, now
    )
    seconds = 0 if since is None else int((now - since).total_seconds())
    return {"snapshots_behind": len(chain), "behind_since": since, "lag_seconds": seconds}


def find_lag_start(oldest: datetime, applied: datetime | None, now: datetime) -> datetime | None:
    """Return since when an index is behind whose oldest unapplied snapshot is of `oldest`.

    `applied` is the time of the applied snapshot, if the table retains it. None for an older
    commit than that one: of a table that was rolled back, or from a clock that is wrong.
    """
    if applied is not None and oldest < applied:
        return None
    # The clock of whoever committed may be ahead.
    return min(oldest, now)


def report_export(context: TableContext, intent: Intent, rows_total: int, rate: ExportRate) -> None:
    """Report what is done of an export, and when it will end."""
    done = build_export_progress(intent, rows_total)
    context.reporter.set(export=rate.measure(done, now=get_utc_now()))


def build_export_progress(intent: Intent, rows_total: int) -> ExportProgress:
    """Return what is done of an export; `rows_total` is of the snapshot's metadata."""
    return ExportProgress(
        snapshot_id=intent.to,
        chunks_total=intent.chunks_total,
        chunks_done=intent.chunks_done,
        rows=intent.rows,
        rows_total=rows_total,
        repeats=intent.miscounts or None,
    )
