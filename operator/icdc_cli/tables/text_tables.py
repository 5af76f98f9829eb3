"""Tables as text, in the form of `kubectl get`: aligned columns, capitals on top, no frames.

One form for what a run on this host, a driver in a cluster and the status of a pipeline say, so
that people compare them at a glance and `awk` and `column` can work on them.

    NAME          STATE           APPLIED               BEHIND   LAG   ROWS     MESSAGE
    shop.orders   Streaming       5139476312650311405   0        4s    200000
    shop.events   Exporting 2/8   -                     -        -     7500

Pure; `terminal.say` writes it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from icdc_api.status.pipeline_status import TableState, TableStatus

NONE = "-"
"""A cell without a value; kubectl's <none> is wider than most values here."""
GAP = "   "
"""Between columns: three spaces, as kubectl has at least."""
MAX_ROWS = 20
"""Tables of a pipeline up to which each has its line: with what else is shown, about a screen."""
_BY_NEED = (
    TableState.STALLED,
    TableState.EXPORTING,
    TableState.PENDING,
    TableState.STREAMING,
    TableState.COMPLETE,
)
_STATUS_HEAD = ("NAME", "STATE", "APPLIED", "BEHIND", "LAG", "ROWS", "MESSAGE")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def format_status(tables: Iterable[TableStatus]) -> str:
    """Render the tables of a pipeline, one line for each."""
    return align(_STATUS_HEAD, [_build_status_row(table) for table in tables])


def format_overview(tables: Sequence[TableStatus], *, hint: str) -> str:
    """Return the tables for a person: a line each, or of many tables a count and the problems.

        500 tables: 12 Stalled, 3 Exporting, 485 Streaming; 7 are behind
        <empty line>
        <the lines of at most MAX_ROWS tables: stalled, failing, not exported yet, behind>
        <empty line>
        and 2 more of these; icdc status shop --all shows every table

    `hint` says how to see all of them.
    """
    if len(tables) <= MAX_ROWS:
        return format_status(tables)
    by_state = Counter(table.state for table in tables)
    counts = ", ".join(f"{by_state[state]} {state.value}" for state in _BY_NEED if by_state[state])
    behind = sum(1 for table in tables if table.snapshots_behind)
    note = f"; {behind} behind" if behind else ""
    parts = [f"{len(tables)} tables: {counts}{note}"]
    shown = sorted(filter(_needs_attention, tables), key=rank_need)
    parts += [format_status(shown[:MAX_ROWS])] if shown else []
    rest = len(shown) - MAX_ROWS
    parts.append(f"and {rest} more of these; {hint}" if rest > 0 else hint)
    return "\n\n".join(part for part in parts if part)


def _needs_attention(table: TableStatus) -> bool:
    in_place = table.state in (TableState.STREAMING, TableState.COMPLETE)
    return not in_place or table.reason is not None or bool(table.snapshots_behind)


def rank_need(table: TableStatus) -> tuple[int, bool, int]:
    """Return the key that sorts tables: what needs a person first, then what is further behind."""
    return _BY_NEED.index(table.state), table.reason is None, -(table.lag_seconds or 0)


def align(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Render `rows` below `heading`, each column as wide as its widest cell.

    Counted in characters of Python: names in wide scripts stand a little out of line.
    """
    # A message of several lines would be taken for rows of other tables.
    rows = [[" ".join(cell.splitlines()) for cell in row] for row in rows]
    lines = [tuple(heading), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    return "\n".join(
        # Without spaces at the end: they would wrap the line of a narrow terminal for nothing.
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def format_duration(seconds: int | None) -> str:
    """Return `seconds` as an age, in one unit and rounded down.

    A unit serves until twice the next one, so that an age is never wrong by more than a third: 119
    gives 119s, 120 gives 2m, 7199 gives 119m, 7200 gives 2h, None gives `-`.
    """
    if seconds is None:
        return NONE
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 2 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    return f"{seconds // _DAY}d"


def format_age(moment: datetime | None, now: datetime) -> str:
    """Return how long ago `moment` was; None gives `-`."""
    # Clocks differ: what lies ahead happened just now.
    return format_duration(None if moment is None else max(0, int((now - moment).total_seconds())))


def _build_status_row(table: TableStatus) -> tuple[str, ...]:
    state = table.state.value
    if table.export is not None and state == "Exporting" and table.export.chunks_total:
        # Chunks and not rows: what is done of an export survives a crash by whole chunks.
        state = f"{state} {table.export.chunks_done}/{table.export.chunks_total}"
        if table.export.estimated_end is not None:
            state = f"{state} until {table.export.estimated_end:%Y-%m-%dT%H:%MZ}"
    message = table.message or ""
    return (
        table.name,
        state,
        table.applied_snapshot_id or NONE,
        format_cell(table.snapshots_behind),
        format_duration(table.lag_seconds),
        str(table.rows_upserted),
        f"{table.reason.value}: {message}" if table.reason is not None else message,
    )


def format_cell(value: object) -> str:
    """Return a value as the text of a cell: `-` without one."""
    # 0 and False are values: "0 missing" is not "unknown how many are missing".
    return NONE if value is None or value == "" else str(value)


def format_bytes(value: object) -> str:
    """Return a size in the greatest binary unit below it: 1536 gives 1.5 KiB, None gives `-`."""
    if not isinstance(value, int):
        return NONE
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
