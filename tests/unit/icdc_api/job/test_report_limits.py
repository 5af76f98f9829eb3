"""Reports larger than Kubernetes allows: what is kept, what is lost first, what is said."""

import random
from bisect import bisect_left
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import pytest
from numpy.random import default_rng

from icdc_api.base import MAX_COUNT, MAX_TABLES, MAX_TEXT
from icdc_api.errors import FailureClass, WhoActs
from icdc_api.job import report_text, smaller_reports
from icdc_api.job.report_text import Parsed
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import (
    Duplicates,
    LastBatch,
    TableReason,
    TableState,
    TableStatus,
)
from icdc_api.status.runs import Failure

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 21, 13, 53, 59, 123000, tzinfo=UTC)


def make_noise(seed: int, length: int) -> str:
    """Return text that zlib cannot make smaller than its information."""
    # All at once: these tests need millions of characters.
    characters = default_rng(seed).integers(0x10000, 0x50000, length, dtype="<u4")
    return characters.tobytes().decode("utf-32-le")


def make_random_text(seed: int, length: int) -> str:
    """Return text as names of tables may have it, of which zlib finds no part again."""
    characters = default_rng(seed).integers(ord("a"), ord("z") + 1, length, dtype="u1")
    return characters.tobytes().decode()


def make_large_report(tables: int, **more: Any) -> RunReport:
    entries = tuple(
        TableStatus(
            name=f"shop.t{number}",
            index=f"t{number}",
            state=TableState.STALLED,
            rows_upserted=number,
            reason=TableReason.GAP,
            message=make_noise(number, MAX_TEXT),
        )
        for number in range(tables)
    )
    return RunReport(run_id="r", started_at=NOW, updated_at=NOW, tables=entries, **more)


def add_samples(report: RunReport, index: int = 0) -> RunReport:
    """Return the report with names and samples that are as large as they may be."""
    tables = tuple(
        table.model_copy(
            update={
                "index": make_noise(number + index, 253) if index else table.index,
                "duplicates": Duplicates(
                    count=20,
                    samples=tuple(make_noise(number * 20 + index, 253) for index in range(20)),
                ),
            }
        )
        for number, table in enumerate(report.tables)
    )
    return report.model_copy(update={"tables": tables})


@pytest.mark.parametrize("character", ["\x00", "\U0001f40b", '"', "x"])
@pytest.mark.parametrize("run_id", ["r", "\U0001f40b" * 253, "\x01" * 253])
def test_a_termination_message_fits_whatever_its_characters_cost(
    character: str, run_id: str
) -> None:
    failure = Failure(
        failure_class=FailureClass.BUG,
        reason="B" * 128,
        message=character * MAX_TEXT,
        retryable=False,
        who_acts=WhoActs.MAINTAINER,
    )
    report = RunReport(run_id=run_id, started_at=NOW, updated_at=NOW, outcome=failure)
    text = report_text.to_termination_message(report)
    assert len(text.encode()) <= report_text.MAX_MESSAGE_BYTES
    ending, _ = report_text.from_termination_message(text)
    assert ending is not None
    assert ending.outcome is not None
    assert ending.run_id == run_id
    # Most of what there is room for is used.
    whole = ending.outcome.message == failure.message
    assert whole or len(text.encode()) > report_text.MAX_MESSAGE_BYTES * 2 // 3


def test_a_large_report_loses_the_messages_first() -> None:
    report = make_large_report(MAX_TABLES)
    # Of each table the message about its tag as well.
    tables = (table.model_copy(update={"pin_message": table.message}) for table in report.tables)
    report = report.model_copy(update={"tables": tuple(tables)})
    text = report_text.to_annotation(report)
    assert len(text) <= report_text.MAX_ANNOTATION_BYTES
    read, problem = report_text.from_annotation(text)
    assert read is not None
    assert problem is not None
    assert "too large: messages of tables" in problem
    assert {table.pin_message for table in read.tables} == {smaller_reports.MESSAGE_OMITTED}
    assert {table.message for table in read.tables} == {smaller_reports.MESSAGE_OMITTED}
    assert [t.rows_upserted for t in read.tables] == list(range(MAX_TABLES))


def test_a_report_loses_the_costs_of_batches_before_any_message() -> None:
    report = make_large_report(MAX_TABLES)

    def cut(length: int) -> RunReport:
        tables = (
            table.model_copy(update={"message": (table.message or "")[:length]})
            for table in report.tables
        )
        return report.model_copy(update={"tables": tuple(tables)})

    def read(shorter: RunReport) -> Parsed[RunReport]:
        return report_text.from_annotation(report_text.to_annotation(shorter))

    too_long = bisect_left(range(MAX_TEXT), 1, key=lambda length: bool(read(cut(length)).problem))
    whole = cut(too_long - 1)
    numbers = random.Random(1)
    costly = tuple(
        table.model_copy(
            update={"last_batch": LastBatch(at=NOW, requests=numbers.randrange(MAX_COUNT))}
        )
        for table in whole.tables
    )
    retained, problem = read(whole.model_copy(update={"tables": costly}))
    assert problem == "omitted because the report is too large: costs of last batches"
    assert retained == whole


def test_messages_of_500_tables_are_shortened_before_they_are_omitted() -> None:
    report = make_large_report(MAX_TABLES)
    tables = tuple(
        table.model_copy(
            update={
                "message": make_random_text(number, MAX_TEXT),
                "pin_message": make_random_text(number + 1000, 150),
            }
        )
        for number, table in enumerate(report.tables)
    )
    text = report_text.to_annotation(report.model_copy(update={"tables": tables}))
    read, problem = report_text.from_annotation(text)
    assert read is not None
    assert problem == "omitted because the report is too large: ends of messages of tables"
    short = smaller_reports.SHORT_MESSAGE
    assert [table.message for table in read.tables] == [
        f"{(table.message or '')[: short - 1]}…" for table in tables
    ]
    assert [table.pin_message for table in read.tables] == [table.pin_message for table in tables]


def test_a_message_that_was_never_there_is_not_said_to_be_left_out() -> None:
    report = make_large_report(MAX_TABLES)
    first = report.tables[0].model_copy(update={"message": None})
    report = report.model_copy(update={"tables": (first, *report.tables[1:])})
    read, _ = report_text.from_annotation(report_text.to_annotation(report))
    assert read is not None
    assert read.tables[0].message is None


def test_a_larger_report_loses_samples_then_the_result_and_keeps_every_table() -> None:
    result = {"tables": [{"missing": make_noise(n, 1000)} for n in range(MAX_TABLES)]}
    report = add_samples(make_large_report(MAX_TABLES, result=result, finished=True))
    read, problem = report_text.from_annotation(report_text.to_annotation(report))
    assert read is not None
    assert problem is not None
    assert problem.endswith("messages of tables, samples of duplicates, the result")
    assert len(read.tables) == MAX_TABLES
    assert {t.duplicates for t in read.tables} == {Duplicates(count=20)}
    assert (read.result, read.finished) == (None, True)


def test_a_result_that_fits_is_kept_when_messages_do_not() -> None:
    report = make_large_report(MAX_TABLES, result={"tables": [{"equal": True}]})
    read, _ = report_text.from_annotation(report_text.to_annotation(report))
    assert read is not None
    assert read.result == report.result


def test_every_verdict_of_a_comparison_is_kept_whatever_else_is_lost() -> None:
    """Ids and names are as large as they may be, and the driver has nothing to say of tables."""
    names = [make_random_text(number, 253) for number in range(MAX_TABLES)]
    some = {"count": 20, "samples": [make_noise(n, 512) for n in range(20)]}
    entries = [
        {"name": name, "index": name[::-1], "equal": False, "missing": some, "different": some}
        for name in names
    ]
    tables = tuple(TableStatus(name=name, index=name[::-1]) for name in names)
    report = RunReport(
        run_id="r", started_at=NOW, updated_at=NOW, tables=tables, result={"tables": entries}
    )
    read, problem = report_text.from_annotation(report_text.to_annotation(report))
    assert read is not None
    assert problem is not None
    assert "details of the result" in problem
    assert read.result is not None
    assert [entry["name"] for entry in read.result["tables"]] == names
    assert {entry["missing"]["count"] for entry in read.result["tables"]} == {20}


def test_the_largest_report_loses_tables_and_keeps_those_that_wait_for_somebody() -> None:
    report = add_samples(make_large_report(MAX_TABLES), index=7)
    well = {0, 5, 64}
    tables = tuple(
        table.model_copy(
            update={
                "name": make_noise(number + 1000, 253),
                "table_uuid": make_noise(number + 2000, 253),
                "reason": None if number in well else TableReason.GAP,
            }
        )
        for number, table in enumerate(report.tables)
    )
    report = report.model_copy(update={"tables": tables})
    text = report_text.to_annotation(report)
    read, problem = report_text.from_annotation(text)
    assert read is not None
    assert problem is not None
    lost = MAX_TABLES - len(read.tables)
    assert problem.endswith(f", {lost} of {MAX_TABLES} tables")
    assert 0 < lost < MAX_TABLES
    assert len(text) > report_text.MAX_ANNOTATION_BYTES * 0.97
    positions = [table.rows_upserted for table in read.tables]
    assert positions == sorted(positions)
    assert not well & set(positions)


def make_dead_letters_result(count: int, length: int, *, document: int = 0) -> dict[str, Any]:
    """Return an answer of `icdc dead-letters list`: tables with some, one and none."""

    def make_letter(number: int) -> dict[str, Any]:
        more = {"document": make_noise(number, document)} if document else {}
        return {"id": str(number), "reason": make_noise(number, length), **more}

    dead_letters = [make_letter(number) for number in range(count)]
    lists = {"shop.a": dead_letters, "shop.b": dead_letters[:1], "shop.c": []}
    return {
        "tables": [
            {"name": name, "count": len(some), "letters": some} for name, some in lists.items()
        ]
    }


@pytest.mark.parametrize(
    ("count", "length", "document", "retained", "documents"),
    [
        (3, 100, 0, {3}, False),
        (1000, 1000, 0, range(30, 60), False),
        (50, 100, 12_000, range(1, 4), True),
        # Not even one of each table fits with its document: ids and reasons are worth more.
        (50, 100, 60_000, {50}, False),
    ],
    ids=["few", "many", "documents", "large documents"],
)
def test_dead_letters_are_cut_off_after_the_newest_and_it_is_said(
    count: int, length: int, document: int, retained: Collection[int], documents: bool
) -> None:
    result = make_dead_letters_result(count, length, document=document)
    report = RunReport(run_id="r", started_at=NOW, updated_at=NOW, result=result)
    text = report_text.to_annotation(report)
    assert len(text) <= report_text.MAX_ANNOTATION_BYTES
    read, problem = report_text.from_annotation(text)
    assert read is not None
    assert read.result is not None
    first, second, third = read.result["tables"]
    before = result["tables"][0]["letters"]
    left = len(first["letters"])
    assert left in retained
    assert [letter["id"] for letter in first["letters"]] == [
        letter["id"] for letter in before[:left]
    ]
    assert all(("document" in letter) == documents for letter in first["letters"])
    assert (len(second["letters"]), third["letters"]) == (1, [])
    hidden = len(before) - left
    assert first.get("message") == (f"{hidden} more are not shown" if hidden else None)
    cut = first["letters"] != before
    assert (problem is not None and "dead letters" in problem) == cut


def test_an_answer_takes_nothing_from_the_tables_that_a_run_follows() -> None:
    asked = make_large_report(20, takes_questions=True, result=make_dead_letters_result(1000, 1000))
    read, problem = report_text.from_annotation(report_text.to_annotation(asked))
    assert (read and read.tables, problem is None) == (asked.tables, False)
    assert ((read and read.result) or {})["tables"][0]["count"] == 1000
