"""Reports as text: read back as written, bounded whatever is in them, garbage named not raised."""

import base64
import json
import operator
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from icdc_api.base import MAX_TEXT, ApiModel
from icdc_api.errors import FailureClass, WhoActs
from icdc_api.job import report_text
from icdc_api.job.report_text import Parsed, TerminationMessage
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import (
    Duplicates,
    ExportProgress,
    TableReason,
    TableState,
    TableStatus,
)
from icdc_api.status.runs import Failure

pytestmark = pytest.mark.unit


def _build_models(model: type[ApiModel], **fields: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Models with such fields; st.builds would ask for their names on the wire."""
    return st.fixed_dictionaries(fields).map(lambda drawn: model(**drawn))


NOW = datetime(2026, 11, 21, 13, 53, 59, 123000, tzinfo=UTC)
COUNTS = st.integers(0, 2**53 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAMES = TEXTS.filter(bool)
SNAPSHOTS = st.none() | st.integers(-(2**63), 2**63 - 1).map(str)
MOMENTS = st.datetimes(
    datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)
)  # whole milliseconds come from the model
FAILURES = _build_models(
    Failure,
    failure_class=st.sampled_from(FailureClass),
    reason=st.from_regex(r"\A[A-Z][A-Za-z0-9]{0,127}\Z"),
    message=st.one_of(TEXTS, st.builds(operator.mul, TEXTS, st.integers(0, 100))),
    retryable=st.booleans(),
    who_acts=st.sampled_from(WhoActs),
)
TABLES = _build_models(
    TableStatus,
    name=NAMES,
    index=TEXTS,
    state=st.sampled_from(TableState),
    applied_snapshot_id=SNAPSHOTS,
    applied_at=st.none() | MOMENTS,
    lag_seconds=st.none() | COUNTS,
    export=st.none() | _build_models(ExportProgress, snapshot_id=SNAPSHOTS, rows=COUNTS),
    duplicates=st.none()
    | _build_models(Duplicates, samples=st.lists(TEXTS, max_size=3).map(tuple)),
    reason=st.none() | st.sampled_from(TableReason),
    message=st.none() | TEXTS,
)
REPORTS = _build_models(
    RunReport,
    run_id=NAMES,
    started_at=MOMENTS,
    updated_at=MOMENTS,
    finished=st.booleans(),
    tables=st.lists(TABLES, max_size=4).map(tuple),
    outcome=st.none() | FAILURES,
    result=st.none() | st.dictionaries(TEXTS, st.lists(TEXTS | COUNTS | st.none())),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def pack(document: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()


def make_stalled_report(tables: int) -> RunReport:
    """Return a report with tables that wait for somebody."""
    entries = (
        TableStatus(name=f"shop.t{number}", index="t", reason=TableReason.GAP)
        for number in range(tables)
    )
    return RunReport(run_id="r", started_at=NOW, updated_at=NOW, tables=tuple(entries))


@given(REPORTS)
def test_an_annotation_is_read_as_it_was_written(report: RunReport) -> None:
    text = report_text.to_annotation(report)
    assert report_text.from_annotation(text) == (report, None)
    assert text.isascii()


@given(REPORTS)
def test_a_termination_message_tells_how_the_run_ended_and_fits(report: RunReport) -> None:
    text = report_text.to_termination_message(report)
    assert len(text.encode()) <= report_text.MAX_MESSAGE_BYTES
    ending, problem = report_text.from_termination_message(text)
    assert problem is None
    assert ending is not None
    assert (ending.run_id, ending.finished) == (report.run_id, report.finished)
    assert (ending.outcome is None) == (report.outcome is None)
    if ending.outcome is not None and report.outcome is not None:
        cut = {"message": report.outcome.message}
        assert ending.outcome.model_copy(update=cut) == report.outcome
        assert report.outcome.message.startswith(ending.outcome.message.removesuffix("…"))


@given(REPORTS, st.text(min_size=1), JSON)
def test_fields_of_the_future_are_passed_over(report: RunReport, name: str, value: Any) -> None:
    fields = {report_text.OMITTED, *(field.alias for field in RunReport.model_fields.values())}
    document = report.to_resource()
    if name not in fields:
        document[name] = value
    document["futureField"] = value
    for table in document["tables"]:
        table["futureField"] = value
        table.get("export", {})["futureField"] = value
    document.get("outcome", {})["futureField"] = value
    assert report_text.from_annotation(pack(document)) == (report, None)
    ending = {"runId": "r", "finished": True, "futureField": value}
    read = report_text.from_termination_message(json.dumps(ending))
    assert read == (TerminationMessage(run_id="r", finished=True), None)


def test_a_table_that_cannot_be_understood_is_left_out_and_said_so() -> None:
    document = make_stalled_report(3).to_resource()
    document["tables"][1]["reason"] = "ReasonOfTheFuture"
    document["tables"][1]["futureField"] = 1
    document["tables"].append("a word")
    read, problem = report_text.from_annotation(pack(document))
    assert read is not None
    assert [table.name for table in read.tables] == ["shop.t0", "shop.t2"]
    assert problem == "2 tables of another version"


def test_an_outcome_of_the_future_is_never_taken_for_success() -> None:
    failure = {"class": "NewClass", "reason": "New", "retryable": True, "whoActs": "me"}
    document = {**make_stalled_report(0).to_resource(), "finished": True, "outcome": failure}
    read, problem = report_text.from_annotation(pack(document))
    assert read is None
    assert problem is not None
    assert problem.startswith("not a RunReport of this version: outcome.class: ")
    ending, problem = report_text.from_termination_message(
        json.dumps({"runId": "r", "finished": True, "outcome": failure})
    )
    assert ending is None
    assert problem is not None
    assert "outcome.class" in problem


EMPTY = make_stalled_report(0).to_resource()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "its end is missing"),
        ("é", "ASCII"),
        ("%%%", "base64"),
        ("abcd", "Error -3"),
        (pack({})[:8], "its end is missing"),
        (pack([1]), "it is not a JSON object"),
        (pack({}), "not a RunReport of this version: runId: Field required"),
        (pack({"runId": 5}), "runId: Input should be a valid string"),
        (base64.b64encode(zlib.compress(b"\xff\x00\xff")).decode(), "decode"),
        (base64.b64encode(zlib.compress(b"[" * 100_000)).decode(), "recursion"),
        (base64.b64encode(zlib.compress(b"9" * 10_000)).decode(), "integer"),
        (base64.b64encode(zlib.compress(b" " * (5 << 20))).decode(), "more than 4194304 bytes"),
        (pack({**EMPTY, "tables": {"a": 1}}), "tables: "),
    ],
)
def test_what_is_not_a_report_has_a_reason(text: str, reason: str) -> None:
    read, problem = report_text.from_annotation(text)
    assert read is None
    assert problem is not None
    assert reason in problem


@given(st.text() | st.binary().map(lambda data: base64.b64encode(data).decode()))
def test_garbage_is_never_an_exception(text: str) -> None:
    for read in (report_text.from_annotation, report_text.from_termination_message):
        result: Parsed[Any] = read(text)
        assert result.value is None
        assert result.problem
        assert len(result.problem) <= MAX_TEXT


@given(JSON | st.dictionaries(st.sampled_from(["runId", "tables", "outcome", "finished"]), JSON))
def test_json_of_any_form_is_never_an_exception(document: Any) -> None:
    for result in (
        report_text.from_annotation(pack(document)),
        report_text.from_termination_message(json.dumps(document)),
    ):
        assert result.value is not None or result.problem
