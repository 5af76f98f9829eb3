"""Progress of the tables: the last status, updated from a run's report or from current snapshots.

The report of the current run counts; one that was read late must not take anything back. Pure: it
reads no report file and no catalog.

    status.tables[]          report of the current run        result
    applied 7, Streaming     applied 8, Streaming             applied 8
    applied 8 at 12:02       applied 7 at 12:01               applied 8: the report was read late
    applied 8, Streaming     no applied, SourceUnavailable    applied 8, Stalled
    applied 8, Streaming     no applied, Streaming            no applied: the table is empty now
    applied 8, index a       applied 8, index a, exporting b  applied 8, export of the report
    index a                  (spec says index b)              Pending: another replica
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from icdc_api.job.run_files import RunReport
from icdc_api.spec.pipeline import Mode, PipelineSpec
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import RunKind, RunStatus
from icdc_operator.core import lag

_APPLIED_FIELDS = (
    "table_uuid",
    "applied_snapshot_id",
    "applied_sequence_number",
    "applied_at",
    "export",
    "rows_upserted",
    "rows_deleted",
    "dead_letters",
    "duplicates",
)
"""Fields that a run does not know before it has read the state document."""

CLOCK_TOLERANCE = timedelta(seconds=60)
"""Clocks of two hosts, or of one that was set, differ by less where they are synchronised."""

_NOT_THERE = (TableReason.TABLE_NOT_FOUND, TableReason.BRANCH_NOT_FOUND)
"""Reasons that any head refutes: the table, or its branch, exists by now."""


def match_tables(
    spec: PipelineSpec, tables: Iterable[TableStatus], *, now: datetime
) -> tuple[TableStatus, ...]:
    """Return one entry for each table of the spec, in its order; a new table is Pending."""
    by_name = {table.name: table for table in tables}
    entries: list[TableStatus] = []
    for table in spec.tables:
        old = by_name.get(table.name)
        # Another index is another replica, to which nothing has been applied.
        same = old is not None and old.index == table.index_name
        entries.append(
            _forget_future(old, spec, now)
            if old is not None and same
            else TableStatus(name=table.name, index=table.index_name)
        )
    return tuple(entries)


def apply_report(
    tables: Iterable[TableStatus], report: RunReport, run: RunStatus, *, now: datetime
) -> tuple[TableStatus, ...]:
    """Return the tables, each replaced by its entry in the `report` of `run`."""
    reported = {table.name: table for table in report.tables}
    if run.kind is RunKind.DELETION:
        # Only an entry with a message says what was deleted; the others are not deleted yet.
        deleted = {name: table for name, table in reported.items() if table.message}
        return tuple(deleted.get(table.name, table) for table in tables)
    if run.kind is RunKind.REPLAY:
        # It follows no table: how many rows are still refused is all that it changes.
        return tuple(
            _count_dead_letters(table, reported[table.name]) if table.name in reported else table
            for table in tables
        )
    merge = _merge_inspected if run.kind.inspects else _merge_report
    return tuple(
        merge(table, reported[table.name], run, now) if table.name in reported else table
        for table in tables
    )


def apply_heads(
    tables: Iterable[TableStatus], heads: Mapping[str, str | None], *, now: datetime
) -> tuple[TableStatus, ...]:
    """Return the tables with their current snapshots, while no run reports them."""
    return tuple(
        _apply_head(table, heads[table.name], now) if table.name in heads else table
        for table in tables
    )


def refresh_lags(
    before: Iterable[TableStatus], tables: Iterable[TableStatus], *, now: datetime
) -> tuple[TableStatus, ...]:
    """Return the tables with their lag at `now`; `before` are those of the last status."""
    old = {table.name: table for table in before}
    tables = tuple(tables)
    shown = tuple(lag.refresh(old.get(table.name, table), table, now=now) for table in tables)
    if all(one.name in old and one.lag_seconds == old[one.name].lag_seconds for one in shown):
        return shown
    # All at once where one of them is due: else each table would have the status written for it.
    return tuple(lag.refresh(None, table, now=now) for table in tables)


def select_changed(
    tables: Iterable[TableStatus], heads: Mapping[str, str | None], spec: PipelineSpec
) -> tuple[TableStatus, ...]:
    """Return the tables with a current snapshot that is not applied and that a run would apply."""
    return tuple(
        table
        for table in tables
        if table.name in heads and _is_changed(table, heads[table.name], spec)
    )


def is_exported(table: TableStatus) -> bool:
    """Return whether readers of the index see a whole snapshot, perhaps an older one."""
    # By the state as well: an empty table is exported without any snapshot to apply.
    in_place = table.state in (TableState.STREAMING, TableState.COMPLETE)
    return in_place or table.applied_snapshot_id is not None


def is_caught_up(table: TableStatus) -> bool:
    """Return whether the index equals the newest known snapshot, or is Complete."""
    if table.state == TableState.COMPLETE:
        return True
    return table.state == TableState.STREAMING and table.snapshots_behind == 0


def is_behind(table: TableStatus) -> bool:
    """Return whether a run has something to do with the table; not with one that is empty."""
    is_empty = table.state == TableState.STREAMING and table.current_snapshot_id is None
    return not is_caught_up(table) and not is_empty


def is_reported(table: TableStatus) -> bool:
    """Return whether any run has reported the table."""
    return table.state != TableState.PENDING


def _forget_future(table: TableStatus, spec: PipelineSpec, now: datetime) -> TableStatus:
    """Return `table` without a comparison after `now`, where `spec.verify` promises the next one.

    Its clock was ahead. How long ago it was is not known, so waiting for the next may take years.
    """
    last = table.verification
    if spec.proof_interval is None or last is None or last.at - now <= CLOCK_TOLERANCE:
        return table
    return table.model_copy(update={"verification": None})


def _merge_report(old: TableStatus, new: TableStatus, run: RunStatus, now: datetime) -> TableStatus:
    """Return `new` as far as it counts, with what only the operator's own status holds."""
    merged = lag.follow(old, _merge_table(old, new, run, now), now=now)
    return _keep_last_batch(old, _keep_pin(old, _keep_verification(old, merged)))


def _merge_inspected(
    old: TableStatus, new: TableStatus, run: RunStatus, now: datetime
) -> TableStatus:
    """Return the same from a run that compares: a fault of that stalls no table."""
    state = {"state": old.state, "reason": old.reason, "message": old.message}
    return _merge_report(old, new, run, now).model_copy(update=state)


def _count_dead_letters(old: TableStatus, new: TableStatus) -> TableStatus:
    """Return `old` with the dead letters of `new`, once the run has read the state document."""
    if new.applied_snapshot_id is None or new.index != old.index:
        return old
    return old.model_copy(update={"dead_letters": new.dead_letters})


def _keep_verification(old: TableStatus, new: TableStatus) -> TableStatus:
    """Return `new` with the old verification: only a comparison or a new index changes it."""
    # A repaired or verified index is no proof for the one that came in its place.
    another = new.export is not None and new.export != old.export
    another = another or new.rolled_back_at not in (None, old.rolled_back_at)
    rebuilt = new.state == TableState.EXPORTING or another
    return new.model_copy(update={"verification": None if rebuilt else old.verification})


def _keep_last_batch(old: TableStatus, new: TableStatus) -> TableStatus:
    """Return `new` with the old last batch until its run has written one."""
    if new.last_batch is not None or new.index != old.index:
        return new
    return new.model_copy(update={"last_batch": old.last_batch})


def _keep_pin(old: TableStatus, new: TableStatus) -> TableStatus:
    """Return `new` with the old pin until the run has tried to set it, after its first batch."""
    if new.snapshot_pinned is not None or new.index != old.index:
        return new
    pin = {"snapshot_pinned": old.snapshot_pinned, "pin_message": old.pin_message}
    return new.model_copy(update=pin)


def _merge_table(old: TableStatus, new: TableStatus, run: RunStatus, now: datetime) -> TableStatus:
    """Return `new`, or `old` where the report is late or says less; see the table above."""
    # A driver's first report lists every table as Pending, before it has read any of them.
    if new.index != old.index or not is_reported(new) or _is_late(old, new, run, now):
        return old
    if new.applied_snapshot_id is None and old.applied_snapshot_id is not None:
        # Streaming and Complete mean that the table is empty now. Other states come from a run
        # that could not read the state document, or that fills a new index beside the old one.
        if new.state in (TableState.STREAMING, TableState.COMPLETE):
            return new
        applied = {field: getattr(old, field) for field in _APPLIED_FIELDS}
        if new.state == TableState.EXPORTING:
            applied["export"] = new.export
        return new.model_copy(update=applied)
    return new


def _is_late(old: TableStatus, new: TableStatus, run: RunStatus, now: datetime) -> bool:
    """Return whether `new` was reported before `old`, by the same run.

    Snapshots have no order (a rollback applies an older one), so the time of the last advance
    decides. Between two runs it does not, because their clocks may differ. A time in the future is
    from a wrong clock, and makes nothing late.
    """
    if old.applied_at is None or run.planned_at is None or old.applied_at > now:
        return _is_export_behind(old, new)
    if old.applied_at < run.planned_at:
        return _is_export_behind(old, new)
    return new.applied_at is not None and new.applied_at < old.applied_at


def _is_export_behind(old: TableStatus, new: TableStatus) -> bool:
    """Return whether `new` reports fewer chunks of the same export than `old`."""
    if old.export is None or new.export is None:
        return False
    same = old.state == new.state == TableState.EXPORTING
    same = same and old.export.snapshot_id == new.export.snapshot_id
    # An export that is repeated fills another index, and begins with none.
    same = same and old.export.repeats == new.export.repeats
    return same and new.export.chunks_done < old.export.chunks_done


def _apply_head(table: TableStatus, head: str | None, now: datetime) -> TableStatus:
    if table.state == TableState.STREAMING:
        return lag.note_head(table, head, now=now).model_copy(update={"current_snapshot_id": head})
    if table.state == TableState.STALLED and table.applied_snapshot_id is not None:
        # Its current snapshot stays the one that a run has seen, by which `_is_changed` tells
        # whether to try it again.
        return lag.note_head(table, head, now=now)
    return table  # with no applied snapshot to compare the current one with


def _is_changed(table: TableStatus, head: str | None, spec: PipelineSpec) -> bool:
    if table.state == TableState.STALLED:
        # Any other stalled table is tried again at a snapshot that no run has seen: the commit may
        # be the correction.
        return table.reason in _NOT_THERE or head != table.current_snapshot_id
    if table.state == TableState.COMPLETE:
        # Left from an earlier mode ExportOnly: from now on the index has to follow the table.
        return spec.mode != Mode.EXPORT_ONLY
    return not is_reported(table) or head != table.applied_snapshot_id


def find_proof(table: TableStatus) -> datetime | None:
    """Return when the table was last compared with its index, if that gave a result."""
    last = table.verification
    return None if last is None or last.equal is None else last.at


def find_oldest_proof(status: PipelineStatus) -> datetime | None:
    """Return when the table was compared whose comparison is the oldest.

    For one without a result it is when the condition Verified ceased to hold. A table that was
    never compared is left out: that may have been promised only now.
    """
    verified = status.find_condition(ConditionType.VERIFIED)
    since = None if verified is None else verified.last_transition_time
    compared = (table for table in status.tables if table.verification is not None)
    proofs = [find_proof(table) or since for table in compared]
    return min((moment for moment in proofs if moment is not None), default=None)
