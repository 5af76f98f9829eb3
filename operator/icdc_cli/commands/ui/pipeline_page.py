"""The page of one pipeline: what needs somebody, tables, batches, runs, conditions. Pure."""

from collections.abc import Iterator, Sequence

from icdc_api import naming
from icdc_api.crd import loading
from icdc_api.errors import BadSpec
from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_api.status.runs import RunStatus
from icdc_cli.cluster import explain_next
from icdc_cli.commands.ui import cells, history, needs, overview, plots
from icdc_cli.commands.ui.cells import Frame, PageColumn
from icdc_cli.commands.ui.elements import Child, Element, make
from icdc_cli.commands.ui.history import SeenBatch
from icdc_cli.commands.ui.needs import Need
from icdc_cli.commands.ui.readers import PageReading, SeenPipeline
from icdc_cli.explanations.entry import Explanation
from icdc_cli.tables import text_tables

MAX_TABLES_SHOWN = 50
"""Tables of a page up to which each has its row, and needs that are spelled out."""
_LOCAL_HINT = (
    "The commands are for a pipeline in a cluster. For this one: change the file, and start icdc "
    "run again."
)
_TABLE_COLUMNS = (
    PageColumn("Table"),
    PageColumn("State"),
    PageColumn("Applied"),
    PageColumn("Current"),
    PageColumn("Behind", is_number=True),
    PageColumn("Lag", is_number=True),
    PageColumn("Written", is_number=True),
    PageColumn("Deleted", is_number=True),
    PageColumn("Dead letters", is_number=True),
    PageColumn("Last proof"),
)
_CONDITION_COLUMNS = (
    PageColumn("Condition"),
    PageColumn("Status"),
    PageColumn("Reason"),
    PageColumn("Since"),
    PageColumn("Message and meaning"),
)


def build_pipeline_page(
    frame: Frame, reading: PageReading, pipeline: SeenPipeline, seen: Sequence[SeenBatch]
) -> Element:
    """Return the page of one pipeline of the reading; `seen` are its batches, oldest first."""
    status = pipeline.status
    every = frame.link_here(paused=frame.paused, every=True)
    return cells.build_page(
        frame,
        pipeline.name,
        make("h1", pipeline.name, " ", overview.choose_state(pipeline)),
        make("p", pipeline.problem, class_="lead") if pipeline.problem else None,
        _build_facts(frame, reading, pipeline),
        _build_needs(frame, needs.list_needs(pipeline), local=reading.local),
        _build_exports(frame, status.tables),
        _build_tables(frame, status.tables, every),
        history.build_batches(frame, seen),
        history.build_runs(frame, status),
        _build_conditions(frame, pipeline),
        overview.build_refusals(reading.refusals),
        read=overview.build_read(frame, reading),
    )


def _build_facts(frame: Frame, reading: PageReading, pipeline: SeenPipeline) -> Element:
    status = pipeline.status
    summary, run = status.summary, status.current_run
    facts: list[tuple[str, Child]] = [
        ("Namespace", pipeline.namespace),
        ("Tables in place", summary.tables if summary and summary.tables else cells.NONE),
        ("Greatest lag", text_tables.format_duration(summary.lag_seconds if summary else None)),
        ("Last proof", overview.build_proof(frame, status.tables)),
        ("Run", _describe_run(run) if run else "none"),
    ]
    # Of a pipeline that no operator reconciles, or whose status is unknown, nothing can be
    # foretold.
    step = "" if reading.local or pipeline.problem else _explain_next_step(frame, pipeline)
    facts += [("Next", step)] if step else []
    return make(
        "dl",
        *(make("div", make("dt", name), make("dd", value)) for name, value in facts),
        class_="facts",
    )


def _explain_next_step(frame: Frame, pipeline: SeenPipeline) -> str:
    """Return what the operator does next; empty where the spec cannot be read."""
    source = f"{naming.SINGULAR}/{pipeline.name}"
    try:
        parsed = loading.parse_stored(pipeline.resource, source=source)
    except BadSpec:
        return ""  # SpecValid says so, or another version knows more fields
    step = explain_next.explain_next_step(
        pipeline.resource, pipeline.status, parsed.spec, now=frame.now
    )
    if step.startswith("stalled") and pipeline.status.next_attempt_time is None:
        # Who, why and how is what the next section says, once and whole.
        return "nothing, until somebody acts: see below"
    return step


def _describe_run(run: RunStatus) -> str:
    return f"{run.name}: {run.kind.value}, {run.state.value}"


def _build_needs(frame: Frame, causes: Sequence[Need], *, local: bool) -> Element | None:
    if not causes:
        return None
    entries = [_build_need(frame, need) for need in causes[:MAX_TABLES_SHOWN]]
    rest = len(causes) - MAX_TABLES_SHOWN
    return cells.build_section(
        "What needs somebody",
        make("ul", *entries, class_="needs"),
        make("p", f"And {rest} more: see the tables.") if rest > 0 else None,
        make("p", _LOCAL_HINT, class_="quiet") if local else None,
        name="needs",
    )


def _build_need(frame: Frame, need: Need) -> Element:
    return make(
        "li",
        make("h3", cells.build_word(frame, need.word), f" · {need.subject}"),
        make("p", need.message) if need.message else None,
        *(part for entry in need.explanations for part in _explain_need(need, entry)),
        class_=need.tone.value,
    )


def _explain_need(need: Need, entry: Explanation) -> Iterator[Element | None]:
    yield make("p", needs.trim_meaning(entry), class_="quiet")
    yield from cells.build_advice(entry, [need.fill(line) for line in entry.cure])


def _build_exports(frame: Frame, tables: Sequence[TableStatus]) -> Element | None:
    entries = [
        make("li", *_build_export(table, frame))
        for table in tables
        # A table that has stalled during its export has one too, of which nothing is under way.
        if table.export is not None and table.state == TableState.EXPORTING
    ]
    if not entries:
        return None
    return cells.build_section(
        "Exports under way", make("ul", *entries, class_="exports"), name="exports"
    )


def _build_export(table: TableStatus, frame: Frame) -> Iterator[Child]:
    export = table.export
    if export is None:
        return
    rows = cells.format_number(export.rows)
    if export.rows_total is not None:
        rows = f"{rows} of {cells.format_number(export.rows_total)}"
    parts = [f"{export.chunks_done} of {export.chunks_total} chunks", f"{rows} rows"]
    if export.rows_per_second is not None:
        parts.append(f"{cells.format_number(export.rows_per_second)} rows a second")
    if export.estimated_end is not None:
        left = int((export.estimated_end - frame.now).total_seconds())
        rest = f"in {text_tables.format_duration(left)}" if left > 0 else "overdue"
        parts.append(f"ends about {cells.format_moment(export.estimated_end)} ({rest})")
    yield make("b", table.name)
    # By rows where they are known: chunks count only once they are complete.
    done, total = export.rows, export.rows_total
    if total is None:
        done, total = export.chunks_done, export.chunks_total
    yield plots.draw_progress(done, total, f"{table.name}: {parts[0]}")
    yield make("span", "; ".join(parts))


def _build_tables(frame: Frame, tables: Sequence[TableStatus], every: str) -> Element | None:
    if not tables:
        return None
    shown = sorted(tables, key=text_tables.rank_need)
    shown = shown if frame.every else shown[:MAX_TABLES_SHOWN]
    rest = len(tables) - len(shown)
    more = None
    if rest:
        more = make("p", f"{rest} more, which need less: ", make("a", "show all", href=every))
    rows = [_build_table_row(frame, table) for table in shown]
    return cells.build_section(
        "Tables", cells.build_table("Tables", _TABLE_COLUMNS, rows), more, name="tables"
    )


def _build_table_row(frame: Frame, table: TableStatus) -> list[Child]:
    index = (
        make("span", f"index {table.index}", class_="quiet") if table.index != table.name else None
    )
    state = cells.build_state(table.state.value, cells.TABLES[table.state])
    if table.reason is not None:
        state = make("span", state, " ", cells.build_word(frame, table.reason.value))
    applied, current = table.applied_snapshot_id, table.current_snapshot_id
    return [
        make("span", make("b", table.name), index, class_="name"),
        state,
        _build_snapshot(applied),
        # The eye compares two long numbers badly.
        "the same" if current == applied and current else _build_snapshot(current),
        cells.format_number(table.snapshots_behind),
        text_tables.format_duration(table.lag_seconds),
        cells.format_number(table.rows_upserted),
        cells.format_number(table.rows_deleted),
        cells.build_alarm(table.dead_letters),
        make("div", overview.build_proof(frame, (table,)), _build_differences(table)),
    ]


def _build_differences(table: TableStatus) -> Element | None:
    """Return what the last comparison found, or why there was none."""
    result = table.verification
    if result is None or result.equal:
        return None
    counts = {
        "missing": result.missing,
        "extra": result.extra,
        "different": result.different,
        "repaired": result.repaired,
    }
    text = ", ".join(
        f"{cells.format_number(count)} {what}" for what, count in counts.items() if count
    )
    reason = f"{result.reason}: {result.message or ''}" if result.reason else ""
    return make("div", text or reason, class_="quiet")


def _build_snapshot(snapshot: str | None) -> Child:
    return make("code", snapshot) if snapshot else cells.NONE


def _build_conditions(frame: Frame, pipeline: SeenPipeline) -> Element | None:
    rows = []
    for condition in pipeline.status.conditions:
        meaning = "".join(map(needs.trim_meaning, needs.explain_condition(condition)[:1]))
        message = make("div", condition.message) if condition.message else None
        rows.append(
            [
                cells.build_word(frame, condition.type.value),
                cells.build_state(condition.status.value, cells.choose_condition_tone(condition)),
                cells.build_word(frame, condition.reason),
                cells.build_age(condition.last_transition_time, frame.now),
                make("div", message, make("div", meaning, class_="quiet")),
            ]
        )
    if not rows:
        return None
    table = cells.build_table("Conditions", _CONDITION_COLUMNS, rows)
    return cells.build_section("Conditions", table, name="conditions")
