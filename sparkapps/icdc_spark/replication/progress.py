"""Writes what was observed of a table into the run's report.

The report is for people, status and metrics; recovery reads the state document alone. Must not
decide anything.
"""

from icdc_api.status.pipeline_status import Duplicates
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.replication.checks.observation import TableObservation
from icdc_spark.reporting.reporter import TableReporter, utc_now


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
    applied = state.applied
    reporter.set(
        rows_upserted=state.totals.upserted,
        rows_deleted=state.totals.deleted,
        dead_letters=state.totals.dead_letters,
        duplicates=_build_duplicates(state),
        **_measure_lag(observation, state),
    )
    if applied is not None:
        reporter.set(
            applied_snapshot_id=applied.snapshot_id,
            applied_sequence_number=applied.sequence_number,
            applied_at=state.updated_at,
        )


def _build_duplicates(state: StateDocument) -> Duplicates | None:
    if state.duplicates is None:
        return None
    return Duplicates(count=state.duplicates.count, samples=tuple(state.duplicates.samples))


def _measure_lag(observation: TableObservation, state: StateDocument) -> dict[str, int | None]:
    """Return the number of unapplied snapshots, and the age of the oldest of them in seconds.

    Applied 77 of 77 ← 78 (10:00) ← 79 (10:05), at 10:06: two snapshots, 360 seconds.
    """
    current, table = observation.current, observation.table
    if current is None or state.applied is None:
        return {"snapshots_behind": None, "lag_seconds": None}
    applied = state.applied.snapshot_id
    if applied == str(current.id):
        return {"snapshots_behind": 0, "lag_seconds": 0}
    chain = table.snapshots_between(int(applied) if applied else None, current.id)
    if not chain:
        # Rolled back, or snapshots between have expired: behind by one difference.
        chain = [current]
    seconds = (utc_now() - chain[0].committed_at).total_seconds()
    # The clock of whoever committed may be ahead.
    return {"snapshots_behind": len(chain), "lag_seconds": max(0, int(seconds))}
