"""The answers of runs as text: plans, comparisons, and rows that an index refused.

Answers are read with the gaps filled: another version of the application may leave a field out,
which shows as `-`, or add one, which is not shown. Pure; `terminal.say` writes it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icdc_api.base import format_count
from icdc_api.job.answers import (
    BATCH_UNDER_WAY,
    DIFFERENCE_KINDS,
    ComparisonEntry,
    DeadLetterEntry,
    DeadLettersEntry,
    Differences,
    Form,
    PlanEntry,
    ReplayEntry,
    RunAnswer,
    TableEntry,
    WorkEstimate,
    fill,
)
from icdc_cli.tables.text_tables import NONE, align, format_bytes, format_cell

_PLAN_HEAD = (
    *("NAME", "INDEX", "MODE", "FROM", "TO", "FILES+", "FILES-", "DELETES", "ROWS", "BYTES"),
    *("STRATEGY", "MESSAGE"),
)
_VERIFY_HEAD = (
    *("NAME", "INDEX", "SNAPSHOT", "EQUAL", "ROWS", "DOCUMENTS", "MISSING", "EXTRA", "DIFFERENT"),
    *("REFUSED", "MESSAGE"),
)
_DEAD_LETTERS_HEAD = ("NAME", "INDEX", "ID", "ERROR", "SNAPSHOT", "ORDINAL", "AT", "REASON")
_REPLAY_HEAD = ("NAME", "INDEX", "RESENT", "LEFT", "MESSAGE")


def format_plan(result: Mapping[str, Any]) -> str:
    """Render the plan: one line for each table, then the mapping changes and what it would cost.

        shop.orders: mapping: note: keyword
        shop.orders: estimate: 0.6 to 3.2 CPU s, 0.3 to 3.2 s; an export of 200000 rows instead:
        5.1 to 9.6 CPU s; cheaper: Changelog

    Below the table, since a batch may change any number of fields, and each needs a line.
    """
    tables = _list_entries(PlanEntry, result)
    rows = [
        (
            *_format_cells(table["name"], table["index"], table["mode"]),
            *_format_cells(table["fromSnapshotId"], table["toSnapshotId"]),
            *_format_cells(table["filesAdded"], table["filesRemoved"]),
            *_format_cells(table["filesWithNewDeletes"], table["rows"]),
            _format_share(table["bytes"], table["tableBytes"]),
            format_cell(table["strategy"]),
            _format_message(table),
        )
        for table in tables
    ]
    changes = [
        f"{table['name']}: mapping: {change}"
        for table in tables
        for change in table["mappingChanges"] or ()
    ]
    costs = [_format_costs(table) for table in tables if table["estimate"]]
    return "\n".join([align(_PLAN_HEAD, rows), *changes, *costs])


def _format_costs(table: PlanEntry) -> str:
    """Return what the step of a table costs, and an export in its place where there is a choice."""
    cost = fill(WorkEstimate, table["estimate"] or {})
    text = f"{table['name']}: estimate: {_format_range(cost['cpuSeconds'])} CPU s, "
    text += f"{_format_range(cost['seconds'])} s"
    if not table["exportEstimate"]:
        return text
    export = fill(WorkEstimate, table["exportEstimate"])
    rows = format_cell(table["tableRows"])
    text += f"; an export of {rows} rows instead: {_format_range(export['cpuSeconds'])} CPU s"
    return f"{text}; cheaper: {table['cheaper'] or 'depends on how many rows differ'}"


def _format_range(values: Any) -> str:
    """Return `0.3 to 3.2`; `-` for what another version writes in another form."""
    is_range = isinstance(values, list) and all(isinstance(one, int | float) for one in values)
    return " to ".join(f"{one:,.1f}" for one in values) if is_range and values else NONE


def format_comparison(result: Mapping[str, Any]) -> str:
    """Render a comparison: one line for each table, then samples of the ids."""
    tables = _list_entries(ComparisonEntry, result)
    rows = [_build_comparison_row(table) for table in tables]
    samples = [
        f"{table['name']}: {kind}: {', '.join(map(str, ids))}"
        for table in tables
        for kind in DIFFERENCE_KINDS
        if (ids := fill(Differences, table[kind] or {})["samples"])
    ]
    return "\n".join([align(_VERIFY_HEAD, rows), *samples])


def format_dead_letters(result: Mapping[str, Any]) -> str:
    """Render the rows that indices refused, one line for each; then each table's message."""
    tables = _list_entries(DeadLettersEntry, result)
    rows = [
        (
            *_format_cells(table["name"], table["index"]),
            *_format_cells(row["id"], row["errorType"], row["snapshotId"]),
            *_format_cells(row["ordinal"], row["at"], row["reason"]),
        )
        for table in tables
        for row in (fill(DeadLetterEntry, written) for written in table["letters"] or ())
    ]
    notes = [
        f"{table['name']}: {_format_message(table)}" for table in tables if _format_message(table)
    ]
    return "\n".join([align(_DEAD_LETTERS_HEAD, rows), *notes])


def format_replay(result: Mapping[str, Any]) -> str:
    """Render a replay: one line for each table, then samples of rows refused again."""
    tables = _list_entries(ReplayEntry, result)
    rows = [
        (
            *_format_cells(table["name"], table["index"], table["resent"], table["left"]),
            _format_message(table),
        )
        for table in tables
    ]
    samples = [
        f"{table['name']}: still refused: {', '.join(map(str, table['samples']))}"
        for table in tables
        if table["samples"]
    ]
    return "\n".join([align(_REPLAY_HEAD, rows), *samples])


def _format_share(part: object, whole: object) -> str:
    return format_bytes(part) if whole is None else f"{format_bytes(part)} of {format_bytes(whole)}"


def _list_entries(form: type[Form], result: Mapping[str, Any]) -> list[Form]:
    return [fill(form, entry) for entry in fill(RunAnswer, result)["tables"]]


def _build_comparison_row(table: ComparisonEntry) -> tuple[str, ...]:
    repaired = table["repaired"]
    message = _format_message(table)
    if repaired is not None:
        documents = format_count(repaired, "document")
        message = f"repaired {documents}{'; ' if message else ''}{message}"
    return (
        *_format_cells(table["name"], table["index"], table["snapshotId"]),
        _format_equal(table),
        *_format_cells(table["rows"], table["documents"]),
        *(format_cell(fill(Differences, table[kind] or {})["count"]) for kind in DIFFERENCE_KINDS),
        format_cell(table["refused"]),
        message,
    )


def _format_equal(table: ComparisonEntry) -> str:
    if table["reason"] == BATCH_UNDER_WAY:
        return "unsettled"
    # Absent is "no": a table that could not be compared has not been shown to be equal.
    return "yes" if table["equal"] else "no"


def _format_message(table: TableEntry) -> str:
    reason, message = table["reason"], table["message"]
    return ": ".join(str(part) for part in (reason, message) if part)


def _format_cells(*values: object) -> Iterator[str]:
    return map(format_cell, values)
