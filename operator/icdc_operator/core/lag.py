"""Lag of tables: since when an index is behind its table. Pure.

`behindSince` is recorded once and the lag is computed from it, so that it grows while no run
reports: while the next attempt waits, the run is queued, hangs, or cannot read the catalog.

    what is known of orders                       behindSince     lag
    head 7, applied 7                             -               0
    10:00 poll: head 8                            10:00           0 s
    10:01 report: 8 was committed at 9:59:57      9:59:57         63 s
    10:30 the run fails, no report                9:59:57         1,803 s
    11:00 report: applied 8, 9 is from 10:50      10:50           600 s
    11:01 poll: head 9, applied 9                 -               0

A commit's time is from the clock of whoever committed, so it counts only where it is plausible; the
time at which the commit was first seen stands in for it.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from icdc_api.status.pipeline_status import TableState, TableStatus

REFRESH_SECONDS = 60.0
"""Least time after which a lag in the status is computed anew."""

REFRESH_SHARE = 0.1
"""The same as a share of the lag: a pipeline that waits for a day is not written every minute."""

_FIRST_ICEBERG = datetime(2017, 1, 1, tzinfo=UTC)
"""No snapshot is older than Iceberg. Clocks that were never set begin in 1970 or 2000."""


def note_head(table: TableStatus, head: str | None, *, now: datetime) -> TableStatus:
    """Return `table` with the lag that follows from its current snapshot `head`."""
    return follow(table, _count_behind(table, table, head), now=now)


def follow(old: TableStatus, new: TableStatus, *, now: datetime) -> TableStatus:
    """Return `new`, which was reported after `old`, with `behind_since`."""
    same = (old.index, old.applied_snapshot_id) == (new.index, new.applied_snapshot_id)
    head = new.current_snapshot_id or old.current_snapshot_id
    if new.snapshots_behind is None and new.applied_snapshot_id and same and head is not None:
        # A run that could not read the table knows less than the one before; one that exports it
        # anew says nothing of the index that readers see meanwhile.
        new = _count_behind(old, new, head)
    if not new.snapshots_behind or new.state == TableState.COMPLETE:
        return _clear(new)
    since = _find_start(old if same else None, new, now)
    return new.model_copy(update={"behind_since": since})


def refresh(old: TableStatus | None, new: TableStatus, *, now: datetime) -> TableStatus:
    """Return `new` with the lag of this moment; with that of `old` while it is hardly another."""
    if new.state == TableState.COMPLETE:
        # A comparison that failed, and stalled it while it ran, reported that it is behind.
        return _clear(new)
    since = new.behind_since
    if since is None and new.snapshots_behind:
        # An operator of a version before `behindSince` wrote the status.
        since = _find_start(None, new, now)
    if since is None:
        return new
    lag = max(0, int((now - since).total_seconds()))
    shown = old.lag_seconds if old is not None and old.behind_since == since else None
    if shown is not None and 0 <= lag - shown < _compute_step(shown):
        lag = shown
    return new.model_copy(update={"behind_since": since, "lag_seconds": lag})


def compute_refresh_seconds(tables: Iterable[TableStatus], *, now: datetime) -> float | None:
    """Return the time until the lag of the first table is computed anew; None if none grows."""
    waits = [
        (table.behind_since - now).total_seconds() + lag + _compute_step(lag)
        for table in tables
        if table.behind_since is not None and (lag := table.lag_seconds) is not None
    ]
    return max(1.0, min(waits)) if waits else None


def find_behind_since(tables: Iterable[TableStatus]) -> datetime | None:
    """Return since when the table is behind that is furthest behind; None if none is."""
    return min((table.behind_since for table in tables if table.behind_since), default=None)


def _clear(table: TableStatus) -> TableStatus:
    """Return the table as one that is not behind, or is complete and meant to stay behind."""
    lag = 0 if table.snapshots_behind == 0 else None
    return table.model_copy(update={"behind_since": None, "lag_seconds": lag})


def _compute_step(lag: int) -> float:
    return max(REFRESH_SECONDS, lag * REFRESH_SHARE)


def _find_start(old: TableStatus | None, new: TableStatus, now: datetime) -> datetime:
    """Return since when `new` is behind; `old` is the entry before with the same snapshot."""
    reported = new.behind_since
    if reported is None and new.lag_seconds:
        # From an image, or an operator, of a version before `behindSince`.
        reported = now - timedelta(seconds=new.lag_seconds)
    known = [] if reported is None or not _is_plausible(reported, old) else [reported]
    if old is not None and old.behind_since is not None:
        # The earlier one: the index has not equalled its table since.
        known.append(old.behind_since)
    # Never in the future, or the lag would be 0 until then. Now: it is seen for the first time.
    return min([*known, now])


def _is_plausible(moment: datetime, old: TableStatus | None) -> bool:
    """Return whether a commit that `old` is behind of can be of `moment`."""
    if moment < _FIRST_ICEBERG:
        return False
    if old is None or old.applied_at is None:
        return True
    # The applied snapshot was the newest one after `applied_at`. In a backlog it never was.
    was_caught_up = old.snapshots_behind == 0 or (
        old.behind_since is not None and old.behind_since >= old.applied_at
    )
    return not was_caught_up or moment >= old.applied_at


def _count_behind(old: TableStatus, new: TableStatus, head: str | None) -> TableStatus:
    # Only a run can count the snapshots between the two; at least one is certain.
    behind = 0 if head == new.applied_snapshot_id else max(1, old.snapshots_behind or 0)
    return new.model_copy(update={"snapshots_behind": behind})
