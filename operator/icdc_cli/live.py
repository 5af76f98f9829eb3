"""Show an `icdc run` while it works: a live table on a terminal, one line per event elsewhere.

Why two views: a table that is redrawn in place is the quickest to read for a person, and useless in
the log of a scheduler, where each redrawing would be another page. What a log needs is one line
when something happens, and silence otherwise.

    standard output is    --output      view
    a terminal            text          Terminal
    a file or a pipe      text          Lines, events on standard output
    anything              json, yaml    Lines without a stream: the one document comes at the end

Shows the updates that it gets and stores nothing that matters.
"""

import sys
from datetime import datetime
from typing import Protocol, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_cli import terminal
from icdc_cli.local.runner import Update
from icdc_cli.tables import text_tables
from icdc_operator.core.events import Event

MAX_BARS = 16
"""Exports with a bar each, so that bars and tables fit on a screen."""


class View(Protocol):
    """A context manager that gets every change.

    `show` is called by the thread that runs the pipeline, after the status is durable.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, update: Update) -> None:
        """Show one change."""


def choose_view(*, quiet: bool) -> View:
    """Return the view for this process; a quiet one where programs read standard output."""
    if quiet:
        return Lines(None)
    console = Console()
    return Terminal(console) if console.is_terminal else Lines(sys.stdout)


class Lines:
    """One line per event; nothing at all without a stream."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, update: Update) -> None:
        """Write the events."""
        if self._stream is None:
            return
        for event in update.events:
            self._stream.write(format_event(event) + "\n")
        # Python buffers what goes to a file or a pipe, and `tail -f` would show it hours later.
        self._stream.flush()


class Terminal:
    """The status table, redrawn in place, with a bar for each table that is exported."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rows"),
            _Rate(),
            TimeRemainingColumn(),
            console=console,
        )
        self._bars: dict[str, TaskID] = {}
        # Four times a second is as much as an eye follows; reports of a run come more seldom.
        # Transient: the live table is wiped at the end, where `run` prints the last one for good.
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Also after an error: `Live` has hidden the cursor and taken over standard output.
        self._live.stop()

    def show(self, update: Update) -> None:
        """Redraw the table, and write the events above it."""
        for event in update.events:
            style = "yellow" if event.warning else None
            # By the console of `Live`, which moves the table below the line. As `Text`: a message
            # with brackets, such as a column type, must not be read as rich's markup.
            self._live.console.print(Text(format_event(event)), style=style)
        for table in update.status.tables:
            self._draw_bar(table)
        # Cut at the edge and not wrapped: a wrapped row would change the height with every message,
        # and the columns would no longer stand below their heads.
        status = terminal.make_printable(text_tables.format_overview(update.status.tables, hint=""))
        listing = Text(status, no_wrap=True, overflow="ellipsis")
        self._live.update(Group(listing, self._progress))

    def _draw_bar(self, table: TableStatus) -> None:
        """Add, move or remove the bar of a table: of exports alone the end is known.

        Removed with its export: a table that is exported again later gets a new bar, whose rate and
        remaining time do not count the months in between.
        """
        bar = self._bars.get(table.name)
        if table.state != TableState.EXPORTING or table.export is None:
            if bar is not None:
                self._progress.remove_task(self._bars.pop(table.name))
            return
        if bar is None and len(self._bars) >= MAX_BARS:
            return  # it gets one when another export has ended
        if bar is None:
            bar = self._bars[table.name] = self._progress.add_task(table.name, total=None)
        self._progress.update(bar, total=table.export.rows_total, completed=table.export.rows)


class _Rate(ProgressColumn):
    """Rows in a second, over the last while."""

    def render(self, task: Task) -> Text:
        """Return rows a second; empty until there are two reports to compare."""
        # Of a bar at its end, the speed that it ended with: there are no further reports.
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


def format_event(event: Event) -> str:
    """Return an event as one line with local time, which a reader compares with a watch."""
    # A message may quote several lines of an error; a log is searched line by line.
    text = " ".join(event.message.split())
    return terminal.make_printable(f"{datetime.now():%H:%M:%S} {event.reason} {text}".rstrip())
