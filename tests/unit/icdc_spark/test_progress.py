"""The report of a run: whole, frequent enough, and never silent about the last change."""

from pathlib import Path

import pytest

from icdc_api.errors import AliasTaken, TargetUnavailable
from icdc_api.job import RunReport, RunRequest
from icdc_api.status import TableReason, TableState, TableStatus
from icdc_spark.progress import Reporter

pytestmark = pytest.mark.unit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


@pytest.fixture
def reporter(path: Path) -> Reporter:
    request = RunRequest(run_id="r", pipeline={}, owner="default/p", epoch=1, report_path=str(path))
    return Reporter(request, [TableStatus(name="a.b", index="b")])


def table(path: Path) -> TableStatus:
    (found,) = RunReport.read(path).tables
    return found


def test_a_report_is_there_before_anything_happened(reporter: Reporter, path: Path) -> None:
    report = RunReport.read(path)
    assert not report.finished
    assert report.outcome is None


def test_a_change_of_state_is_written_at_once(reporter: Reporter, path: Path) -> None:
    reporter.table("a.b").working(TableState.EXPORTING)
    assert table(path).state is TableState.EXPORTING


def test_what_a_quick_change_left_unwritten_is_in_the_last_report(
    reporter: Reporter, path: Path
) -> None:
    reporter.table("a.b").set(rows_upserted=7)
    reporter.finish(outcome=None)
    assert table(path).rows_upserted == 7
    assert RunReport.read(path).finished


def test_a_change_within_the_interval_is_written_by_a_later_equal_one(
    reporter: Reporter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter.table("a.b").set(rows_upserted=7)
    monkeypatch.setattr("icdc_spark.progress.MIN_INTERVAL_SECONDS", 0.0)
    reporter.table("a.b").set(rows_upserted=7)
    assert table(path).rows_upserted == 7


def test_a_table_error_stalls_the_table_with_its_reason(reporter: Reporter, path: Path) -> None:
    reporter.table("a.b").failed(AliasTaken("taken"))
    found = table(path)
    assert (found.state, found.reason) == (TableState.STALLED, TableReason.ALIAS_TAKEN)
    assert found.message == "taken"


def test_a_passing_error_keeps_the_state_and_names_its_reason(
    reporter: Reporter, path: Path
) -> None:
    reporter.table("a.b").working(TableState.STREAMING)
    reporter.table("a.b").failed(TargetUnavailable("down"))
    found = table(path)
    assert (found.state, found.reason) == (TableState.STREAMING, TableReason.TARGET_UNAVAILABLE)
