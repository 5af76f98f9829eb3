"""The past of a pipeline: its last runs, and the batches seen since the page was started.

A status has the last batch of each table and no earlier one, so the page remembers what it read:

    10:00  read    orders: batch of 09:58                     09:58
    10:01  read    orders: batch of 10:01                     09:58, 10:01
    10:02  read    orders: the same; customers: 10:02         09:58, 10:01, 10:02

A batch that came and went between two readings is not among them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunState, RunStatus
from icdc_api.status.table_parts import LastBatch
from icdc_cli.commands.ui import cells, plots
from icdc_cli.commands.ui.cells import Frame, PageColumn, Tone
from icdc_cli.commands.ui.elements import Child, Element, make
from icdc_cli.commands.ui.plots import Bar
from icdc_cli.commands.ui.readers import PageReading
from icdc_cli.tables import text_tables

MAX_BATCHES = 40
"""Of one pipeline: as many as a plot can show."""
MAX_ROWS = 12
"""Of the table of batches; the plots show more."""
_BATCH_COLUMNS = (
    PageColumn("Table"),
    PageColumn("When"),
    PageColumn("Written", is_number=True),
    PageColumn("Deleted", is_number=True),
    PageColumn("Refused", is_number=True),
    PageColumn("Read", is_number=True),
    PageColumn("Sent", is_number=True),
    PageColumn("Requests", is_number=True),
    PageColumn("Planning", is_number=True),
    PageColumn("Writing", is_number=True),
)

_RUN_COLUMNS = (
    PageColumn("Run"),
    PageColumn("Kind"),
    PageColumn("State"),
    PageColumn("Started"),
    PageColumn("Took", is_number=True),
    PageColumn("Failure"),
)


@dataclass(frozen=True)
class SeenBatch:
    """One batch of one table."""

    table: str
    """The name of the table."""
    batch: LastBatch
    """What it took, by the status."""

    @property
    def millis(self) -> int:
        """Milliseconds that it took, without what came before its first and after its last step."""
        return self.batch.planning_millis + self.batch.writing_millis


class BatchMemory:
    """Batches by pipeline, oldest first. For one thread at a time."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[SeenBatch, ...]] = {}

    def add(self, reading: PageReading) -> None:
        """Add the last batches of a reading, and forget pipelines that it does not have."""
        seen: dict[tuple[str, str], tuple[SeenBatch, ...]] = {}
        for pipeline in reading.pipelines:
            key = pipeline.namespace, pipeline.name
            batches = list(self._seen.get(key, ()))
            for table in pipeline.status.tables:
                if table.last_batch is None:
                    continue
                batch = SeenBatch(table.name, table.last_batch)
                if batch not in batches:
                    batches.append(batch)
            # A reading has its tables in the order of the spec.
            batches.sort(key=lambda entry: entry.batch.at)
            seen[key] = tuple(batches[-MAX_BATCHES:])
        # A pipeline that could not be read this time loses its batches: they are an extra, and what
        # is remembered for ever of pipelines that come and go is a leak.
        self._seen = seen

    def find(self, namespace: str, name: str) -> tuple[SeenBatch, ...]:
        """Return the batches of a pipeline, oldest first."""
        return self._seen.get((namespace, name), ())


def build_batches(frame: Frame, batches: Sequence[SeenBatch]) -> Element | None:
    """Return the batches with plots of their rows, bytes and time; None before the first one."""
    if not batches:
        return None
    newest = list(reversed(batches))[:MAX_ROWS]
    rows = [_build_batch_row(frame, seen) for seen in newest]
    figures = (
        _build_figure("Rows", batches, _count_rows, cells.format_number),
        _build_figure(
            "Read", batches, lambda seen: seen.batch.files_bytes, text_tables.format_bytes
        ),
        _build_figure(
            "Sent", batches, lambda seen: seen.batch.request_bytes, text_tables.format_bytes
        ),
        _build_figure("Time", batches, lambda seen: seen.millis, cells.format_millis),
    )
    return cells.build_section(
        "Recent batches",
        make(
            "p",
            "The last batch of each table, and those seen since this page was started.",
            class_="quiet",
        ),
        # One bar compares nothing.
        make("div", *figures, class_="figures") if len(batches) > 1 else None,
        cells.build_table("Batches", _BATCH_COLUMNS, rows),
        name="batches",
    )


def _count_rows(seen: SeenBatch) -> int:
    return seen.batch.upserted + seen.batch.deleted + seen.batch.refused


def _build_figure(
    title: str,
    batches: Sequence[SeenBatch],
    measure: Callable[[SeenBatch], int],
    format_value: Callable[[int], str],
) -> Element:
    values = [measure(seen) for seen in batches]
    bars = [
        Bar(value, f"{seen.table}, {cells.format_moment(seen.batch.at)}: {format_value(value)}")
        for value, seen in zip(values, batches, strict=True)
    ]
    text = f"last {format_value(values[-1])}, most {format_value(max(values))}"
    return make(
        "figure",
        make("figcaption", make("b", title), f" {text}"),
        plots.draw_bars(bars, f"{title} of {len(bars)} batches: {text}"),
    )


def _build_batch_row(frame: Frame, seen: SeenBatch) -> list[Child]:
    batch = seen.batch
    again = [f"{batch.retries} repeated"] if batch.retries else []
    again += [f"{batch.throttled} throttled"] if batch.throttled else []
    note = make("span", f" {', '.join(again)}", class_="quiet") if again else None
    return [
        seen.table,
        cells.build_age(batch.at, frame.now, after=" ago"),
        cells.format_number(batch.upserted),
        cells.format_number(batch.deleted),
        cells.format_number(batch.refused),
        text_tables.format_bytes(batch.files_bytes),
        text_tables.format_bytes(batch.request_bytes),
        make("span", cells.format_number(batch.requests), note),
        cells.format_millis(batch.planning_millis),
        cells.format_millis(batch.writing_millis),
    ]


def build_runs(frame: Frame, status: PipelineStatus) -> Element | None:
    """Return the runs with a plot of their time; None before the first one."""
    ended = list(status.recent_runs or ((status.last_run,) if status.last_run else ()))
    runs = [*([status.current_run] if status.current_run else []), *ended]
    if not runs:
        return None
    timed = [(run, seconds) for run in reversed(ended) if (seconds := _measure(run)) is not None]
    figure = None
    # One bar compares nothing, as above.
    if len(timed) > 1:
        bars = [
            Bar(seconds, f"{run.name}: {text_tables.format_duration(seconds)}", _choose_tone(run))
            for run, seconds in timed
        ]
        most = text_tables.format_duration(max(seconds for _, seconds in timed))
        figure = make(
            "figure",
            make("figcaption", make("b", "Time of runs"), f" longest {most}"),
            plots.draw_bars(bars, f"Time of {len(bars)} runs, longest {most}"),
        )
    rows = [_build_run_row(frame, run) for run in runs]
    return cells.build_section(
        "Recent runs",
        make("div", figure, class_="figures") if figure else None,
        cells.build_table("Runs", _RUN_COLUMNS, rows),
        name="runs",
    )


def _choose_tone(run: RunStatus) -> Tone:
    retried = run.failure is not None and run.failure.retryable
    # What is retried may pass by itself.
    return Tone.WARN if retried and run.state == RunState.FAILED else cells.RUNS[run.state]


def _measure(run: RunStatus) -> int | None:
    """Return the seconds from a run's start to its end; None of one that never started."""
    if run.started_at is None or run.finished_at is None:
        return None
    # The clocks of two hosts: a run starts by the kubelet's, and ends by the operator's.
    return max(0, int((run.finished_at - run.started_at).total_seconds()))


def _build_run_row(frame: Frame, run: RunStatus) -> list[Child]:
    failure: Child = cells.NONE
    if run.failure is not None:
        word = cells.build_word(frame, run.failure.reason)
        acts = f" Who acts: {run.failure.who_acts.value}."
        failure = make("span", word, f": {run.failure.message}", make("span", acts, class_="quiet"))
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    return [
        run.name,
        make("span", make("span", run.kind.value, class_="word"), attempt),
        cells.build_state(run.state.value, _choose_tone(run)),
        cells.build_age(run.started_at or run.planned_at, frame.now, after=" ago"),
        text_tables.format_duration(_measure(run)),
        failure,
    ]
