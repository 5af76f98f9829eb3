"""Find what waits for the time of the day in which exports may write, and until when. Pure.

A run that is active knows the window by itself: tables that are exported are followed, the others
wait. So outside of the window a run starts only if it would do more than wait.

    tables                                          outside of the window
    none was exported yet                           no run before the window opens
    one is followed, one was never exported         runs for the first one
    one is followed, for which a re-export is due   runs; another when the window opens
"""

from datetime import datetime, timedelta

from icdc_api.spec.export_window import ExportWindow
from icdc_api.spec.pipeline import Mode, PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus
from icdc_operator.core import progress, retry


def find_closed(spec: PipelineSpec | None, *, now: datetime) -> ExportWindow | None:
    """Return the window if no export may write now, else None."""
    window = None if spec is None else spec.sink.opensearch.export_window
    return None if window is None or window.is_open(now) else window


def find_hold(status: PipelineStatus, spec: PipelineSpec, *, now: datetime) -> datetime | None:
    """Return the time before which no run starts; None where a run would do more than wait."""
    window = find_closed(spec, now=now)
    if window is None or not all(is_blocked(table, spec) for table in status.tables):
        return None
    return window.find_opening(now)


def find_next_run(
    status: PipelineStatus, finished: datetime, spec: PipelineSpec, *, now: datetime
) -> datetime | None:
    """Return when a run is due for the exports that wait; None if none waits.

    The last run ended at `finished`.
    """
    window = spec.sink.opensearch.export_window
    # What waits for a person as well is tried as seldom as without a window.
    tables = [table for table in status.tables if not retry.waits_for_person(table)]
    if window is None or not any(_waits(table, spec) for table in tables):
        return None
    opening = window.find_opening(now)
    if opening > now:
        return opening
    # Open: the last run waited by a clock that is behind, or was asked to end. Not at once again.
    return finished + timedelta(seconds=spec.changelog.poll_interval_seconds)


def is_blocked(table: TableStatus, spec: PipelineSpec) -> bool:
    """Return whether a run would do nothing for the table outside of the window."""
    return _waits(table, spec) and table.state not in (TableState.STREAMING, TableState.COMPLETE)


def describe_wait(status: PipelineStatus, spec: PipelineSpec | None, *, now: datetime) -> str:
    """Return what exports wait for, as a clause; empty if none waits."""
    window = find_closed(spec, now=now)
    if window is None or spec is None:
        return ""
    return window.describe() if any(_waits(table, spec) for table in status.tables) else ""


def _waits(table: TableStatus, spec: PipelineSpec) -> bool:
    # StreamOnly begins without an export, unless a run has reported that one is due.
    exports_first = spec.mode != Mode.STREAM_ONLY and not progress.is_exported(table)
    return bool(table.export_waits) or exports_first
