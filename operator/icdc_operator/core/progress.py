"""What is known about the tables, folded from the last status, a run's report and table heads.

The report of the run at work is the truth; a report that was read late must not take anything
back. Pure: it reads no report file and no catalog.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from icdc_api.job import RunReport
from icdc_api.runs import RunKind, RunStatus
from icdc_api.spec import Mode, PipelineSpec
from icdc_api.status import TableReason, TableState, TableStatus

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
"""What a report that has not read the state document cannot know."""

_NOT_THERE = (TableReason.TABLE_NOT_FOUND, TableReason.BRANCH_NOT_FOUND)


def match_tables(spec: PipelineSpec, known: Iterable[TableStatus]) -> tuple[TableStatus, ...]:
    """One entry for each table of the spec, in its order; a table that is new is Pending."""
    by_name = {table.name: table for table in known}
    entries: list[TableStatus] = []
    for table in spec.tables:
        old = by_name.get(table.name)
        # Another index is another replica: nothing of what was applied holds for it.
        same = old is not None and old.index == table.index_name
        entries.append(
            old
            if old is not None and same
            else TableStatus(name=table.name, index=table.index_name)
        )
    return tuple(entries)


def apply_report(
    known: Iterable[TableStatus], report: RunReport, run: RunStatus, *, now: datetime
) -> tuple[TableStatus, ...]:
    """`known`, each table replaced by what `run` reports about it."""
    reported = {table.name: table for table in report.tables}
    if run.kind is RunKind.DELETION:
        # What is not deleted yet is as it was.
        gone = {name: table for name, table in reported.items() if table.message}
        return tuple(gone.get(table.name, table) for table in known)
    return tuple(
        _keep_pin(
            table, _keep_verification(table, _merge_table(table, reported[table.name], run, now))
        )
        if table.name in reported
        else table
        for table in known
    )


def apply_heads(
    known: Iterable[TableStatus], heads: Mapping[str, str | None]
) -> tuple[TableStatus, ...]:
    """`known` with the newest snapshots, while no run is there to report them."""
    return tuple(
        _apply_head(table, heads[table.name])
        if table.name in heads and table.state == TableState.STREAMING
        else table
        for table in known
    )


def select_changed(
    tables: Iterable[TableStatus], heads: Mapping[str, str | None], spec: PipelineSpec
) -> tuple[TableStatus, ...]:
    """The tables of which a run would find a snapshot that is not in the index."""
    return tuple(
        table
        for table in tables
        if table.name in heads and _is_changed(table, heads[table.name], spec)
    )


def is_exported(table: TableStatus) -> bool:
    """Whether readers of the index see a whole snapshot, an older one perhaps."""
    in_place = table.state in (TableState.STREAMING, TableState.COMPLETE)
    return in_place or table.applied_snapshot_id is not None


def is_caught_up(table: TableStatus) -> bool:
    """Whether the index equals the newest snapshot that is known, or is done for good."""
    if table.state == TableState.COMPLETE:
        return True
    return table.state == TableState.STREAMING and table.snapshots_behind == 0


def is_reported(table: TableStatus) -> bool:
    """Whether any run has said something about the table."""
    return table.state != TableState.PENDING


def _merge_report(old: TableStatus, new: TableStatus, run: RunStatus, now: datetime) -> TableStatus:
    merged = _merge_table(old, new, run, now)
    return _keep_pin(old, _keep_verification(old, merged))


def _keep_verification(old: TableStatus, new: TableStatus) -> TableStatus:
    """Only a comparison changes it; a new index was never compared."""
    another = new.export is not None and new.export != old.export
    rebuilt = new.state == TableState.EXPORTING or another
    return new.model_copy(update={"verification": None if rebuilt else old.verification})


def _keep_pin(old: TableStatus, new: TableStatus) -> TableStatus:
    """A run tries anew only after its first batch, and until then what was known holds."""
    if new.snapshot_pinned is not None or new.index != old.index:
        return new
    pin = {"snapshot_pinned": old.snapshot_pinned, "pin_message": old.pin_message}
    return new.model_copy(update=pin)


def _merge_table(old: TableStatus, new: TableStatus, run: RunStatus, now: datetime) -> TableStatus:
    if new.index != old.index or not is_reported(new) or _is_late(old, new, run, now):
        return old
    if new.applied_snapshot_id is None and old.applied_snapshot_id is not None:
        # Streaming and Complete say that the table is empty now; the other states come from a
        # run that could not read the state document, or that fills a new index beside the old.
        if new.state in (TableState.STREAMING, TableState.COMPLETE):
            return new
        keep = {field: getattr(old, field) for field in _APPLIED_FIELDS}
        if new.state == TableState.EXPORTING:
            keep["export"] = new.export
        return new.model_copy(update=keep)
    return new


def _is_late(old: TableStatus, new: TableStatus, run: RunStatus, now: datetime) -> bool:
    """Whether `new` was reported before `old`, by the same run.

    Snapshots have no order of their own (a rollback applies an older one), so the time of the
    last advance decides; between two runs it does not, because their clocks may differ. A time
    that has not come yet was told by a clock that was wrong: nothing is late by it.
    """
    if old.applied_at is None or run.planned_at is None or old.applied_at > now:
        return _is_export_behind(old, new)
    if old.applied_at < run.planned_at:
        return _is_export_behind(old, new)
    return new.applied_at is not None and new.applied_at < old.applied_at


def _is_export_behind(old: TableStatus, new: TableStatus) -> bool:
    if old.export is None or new.export is None:
        return False
    same = old.state == new.state == TableState.EXPORTING
    same = same and old.export.snapshot_id == new.export.snapshot_id
    return same and new.export.chunks_done < old.export.chunks_done


def _apply_head(table: TableStatus, head: str | None) -> TableStatus:
    # How many there are only a run can count; one is what is certain.
    behind = 0 if head == table.applied_snapshot_id else max(1, table.snapshots_behind or 0)
    return table.model_copy(
        update={
            "current_snapshot_id": head,
            "snapshots_behind": behind,
            "lag_seconds": 0 if behind == 0 else table.lag_seconds,
        }
    )


def _is_changed(table: TableStatus, head: str | None, spec: PipelineSpec) -> bool:
    if table.state == TableState.STALLED:
        # What has a head is there by now.
        return table.reason in _NOT_THERE or head != table.current_snapshot_id
    if table.state == TableState.COMPLETE:
        return spec.mode != Mode.EXPORT_ONLY
    return not is_reported(table) or head != table.applied_snapshot_id
