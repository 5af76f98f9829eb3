"""The first page: every pipeline on one line, those that need a person first. Pure."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from icdc_api.status.pipeline_status import Phase, TableState, TableStatus
from icdc_cli.commands.ui import cells, needs
from icdc_cli.commands.ui.cells import Frame, PageColumn, Tone
from icdc_cli.commands.ui.elements import Child, Element, make
from icdc_cli.commands.ui.readers import PageReading, ReadRefusal, SeenPipeline
from icdc_cli.tables import status_notes, text_tables
from icdc_operator.core.asked import verification
from icdc_operator.core.asked.verification import ComparisonResult

# Not the order of the enum, which is that of a pipeline's life.
_ORDER = (
    Phase.STALLED,
    Phase.RETRYING,
    Phase.DELETING,
    Phase.EXPORTING,
    Phase.PENDING,
    Phase.SUSPENDED,
    Phase.STREAMING,
    Phase.COMPLETE,
)
_COLUMNS = (
    PageColumn("Pipeline"),
    PageColumn("State"),
    PageColumn("Tables", is_number=True),
    PageColumn("Behind", is_number=True),
    PageColumn("Lag", is_number=True),
    PageColumn("Dead letters", is_number=True),
    PageColumn("Last proof"),
    PageColumn("Run"),
)


@dataclass(frozen=True)
class Proof:
    """What the comparisons of tables with their indices have shown, in a few words."""

    word: str
    """The summary, such as `equal`."""
    tone: Tone
    """Its colour."""
    at: datetime | None = None
    """When the oldest of them was made."""


def build_overview(frame: Frame, reading: PageReading) -> Element:
    """Return the page of all pipelines."""
    pipelines = sorted(reading.pipelines, key=_rank)
    rows = [_build_row(frame, pipeline) for pipeline in pipelines]
    return cells.build_page(
        frame,
        "Pipelines",
        make("h1", "Pipelines"),
        make("p", _count(pipelines), class_="lead") if pipelines else None,
        cells.build_table("Pipelines", _COLUMNS, rows) if rows else None,
        None if rows or reading.refusals else make("p", "There is no pipeline here yet."),
        build_refusals(reading.refusals),
        read=build_read(frame, reading),
    )


def build_read(frame: Frame, reading: PageReading) -> Element:
    """Return the line that says what was read, and when."""
    verb = "saved" if reading.local else "read"
    moment = make("time", cells.format_moment(reading.at), datetime=reading.at.isoformat())
    rest = "." if frame.paused else f", refreshed every {cells.REFRESH_SECONDS} s."
    return make("span", f"{cells.capitalise(reading.scope)}; {verb} ", moment, rest)


def build_refusals(refusals: tuple[ReadRefusal, ...]) -> Element | None:
    """Return what could not be read, and who acts; None where there is nothing."""
    if not refusals:
        return None
    entries = [
        make(
            "li",
            make("strong", f"Not shown: {refusal.scope}"),
            make("p", refusal.message),
            make("p", "Who acts: ", make("b", refusal.who_acts)),
        )
        for refusal in refusals
    ]
    return cells.build_section(
        "What could not be read", make("ul", *entries, class_="needs warn"), name="refusals"
    )


def choose_state(pipeline: SeenPipeline) -> Element:
    """Return the state of the pipeline in one word."""
    status = pipeline.status
    if pipeline.problem:
        return cells.build_state("Unreadable", Tone.WARN)
    # An empty status has defaults, which would read as the opinion of an operator.
    if status.observed_generation is None:
        return cells.build_state("New", Tone.CALM)
    return cells.build_state(status.phase.value, cells.PHASES[status.phase])


def summarize_proof(tables: tuple[TableStatus, ...]) -> Proof:
    """Return how index and table compared last, over all tables: the worst, and the oldest.

    3 equal, 1 never compared     3 of 4 equal
    1 different, 1 equal          1 differs
    1 repaired, 1 equal           repaired
    """
    made = [table.verification for table in tables if table.verification is not None]
    if not made:
        return Proof("never", Tone.CALM)
    oldest = min(result.at for result in made)
    result, worst = verification.find_worst(tables)
    if result is ComparisonResult.DIFFERENT:
        verb = "differs" if len(worst) == 1 else "differ"
        return Proof(f"{len(worst)} {verb}", Tone.BAD, oldest)
    if result is ComparisonResult.NOT_VERIFIED:
        return Proof(f"{len(worst)} not compared", Tone.WARN, oldest)
    if len(made) < len(tables):
        return Proof(f"{len(made)} of {len(tables)} equal", Tone.CALM, oldest)
    return Proof(result.value.lower(), Tone.GOOD, oldest)


def build_proof(frame: Frame, tables: tuple[TableStatus, ...]) -> Element:
    """Return the last proof of these tables with its age."""
    proof = summarize_proof(tables)
    state = cells.build_state(proof.word, proof.tone)
    if proof.at is None:
        return state
    return make("span", state, " ", cells.build_age(proof.at, frame.now, after=" ago"))


def _rank(pipeline: SeenPipeline) -> tuple[int, str, str]:
    # Before all others: what is wrong with it cannot even be seen.
    need = -1 if pipeline.problem else _ORDER.index(pipeline.status.phase)
    return need, pipeline.namespace, pipeline.name


def _count(pipelines: list[SeenPipeline]) -> str:
    """Return how many there are and in which state: `3 pipelines: 1 Stalled, 2 Streaming`."""
    phases = Counter(
        pipeline.status.phase
        for pipeline in pipelines
        if not pipeline.problem and pipeline.status.observed_generation is not None
    )
    parts = [f"{phases[phase]} {phase.value}" for phase in _ORDER if phases[phase]]
    unreadable = sum(1 for pipeline in pipelines if pipeline.problem)
    parts += [f"{unreadable} unreadable"] if unreadable else []
    new = len(pipelines) - phases.total() - unreadable
    parts += [f"{new} new"] if new else []
    noun = "pipeline" if len(pipelines) == 1 else "pipelines"
    return f"{len(pipelines)} {noun}: {', '.join(parts)}"


def _count_dead_letters(pipeline: SeenPipeline) -> int | None:
    tables = pipeline.status.tables
    # Without tables no run has reported, which is not the same as none.
    return sum(table.dead_letters for table in tables) if tables else None


def _build_state(frame: Frame, pipeline: SeenPipeline) -> Element:
    """Return the state and its cause, or how far it is: `Stalled Gap`, `Exporting 44%, 2m left`.

    `Streaming NotReported for 7m`: what is shown of its tables is old.
    """
    state, more = choose_state(pipeline), None
    if not pipeline.problem and pipeline.status.phase in (Phase.STALLED, Phase.RETRYING):
        # The first one is the one to begin with; its page has all of them.
        first = next(iter(needs.list_needs(pipeline)), None)
        more = cells.build_word(frame, first.word) if first else None
    elif pipeline.status.phase is Phase.EXPORTING:
        more = make("span", _describe_exports(frame, pipeline.status.tables), class_="quiet")
    elif (silence := status_notes.find_silence(pipeline.status)) is not None:
        age = cells.build_age(silence.last_transition_time, frame.now)
        more = make("span", cells.build_word(frame, silence.reason), " for ", age)
    return make("span", state, " ", more)


def _describe_exports(frame: Frame, tables: tuple[TableStatus, ...]) -> str:
    """Return how far the exports under way are, and when the last one ends, as far as is known."""
    exports = [
        table.export
        for table in tables
        if table.export is not None and table.state is TableState.EXPORTING
    ]
    total = sum(export.rows_total or 0 for export in exports)
    # Of some of them alone it would say too much.
    if not total or any(export.rows_total is None for export in exports):
        return ""
    # A table of which rows were added since has more of them than were counted.
    parts = [f"{min(100, 100 * sum(export.rows for export in exports) // total)}%"]
    ends = [export.estimated_end for export in exports if export.estimated_end is not None]
    left = int((max(ends) - frame.now).total_seconds()) if len(ends) == len(exports) else 0
    parts += [f"{text_tables.format_duration(left)} left"] if left > 0 else []
    return ", ".join(parts)


def _build_row(frame: Frame, pipeline: SeenPipeline) -> list[Child]:
    status, summary = pipeline.status, pipeline.status.summary
    href = frame.link("pipelines", pipeline.namespace, pipeline.name)
    run = status.current_run
    return [
        make(
            "span",
            make("span", f"{pipeline.namespace}/", class_="quiet"),
            make("a", pipeline.name, href=href),
            class_="name",
        ),
        _build_state(frame, pipeline),
        summary.tables if summary and summary.tables else cells.NONE,
        cells.format_number(summary.snapshots_behind if summary else None),
        text_tables.format_duration(summary.lag_seconds if summary else None),
        cells.build_alarm(_count_dead_letters(pipeline)),
        build_proof(frame, status.tables),
        cells.NONE
        if run is None
        else make("span", f"{run.kind.value}, {run.state.value}", class_="word"),
    ]
