"""The report of a run: whole, frequent enough, and never silent about the last change."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from icdc_api.errors import AliasTaken, TargetUnavailable
from icdc_api.job.resources import UsedResource
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.status.pipeline_status import TableReason, TableState, TableStatus
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.progress import Effort, report_batch
from icdc_spark.reporting.reporter import Reporter, choose_sink
from icdc_testing.target.state_documents import make_changelog

pytestmark = pytest.mark.unit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


@pytest.fixture
def reporter(path: Path) -> Reporter:
    request = RunRequest(run_id="r", pipeline={}, owner="default/p", epoch=1, report_path=str(path))
    return Reporter(request, [TableStatus(name="a.b", index="b")])


def read_table(path: Path) -> TableStatus:
    (table_report,) = RunReport.read(path).tables
    return table_report


def test_a_report_is_there_before_anything_happened(reporter: Reporter, path: Path) -> None:
    report = RunReport.read(path)
    assert not report.finished
    assert report.outcome is None


def test_a_change_of_state_is_written_at_once(reporter: Reporter, path: Path) -> None:
    reporter.get_table_reporter("a.b").mark_working(TableState.EXPORTING)
    assert read_table(path).state is TableState.EXPORTING


def test_what_a_quick_change_left_unwritten_is_in_the_last_report(
    reporter: Reporter, path: Path
) -> None:
    reporter.get_table_reporter("a.b").set(rows_upserted=7)
    reporter.finish(outcome=None)
    assert read_table(path).rows_upserted == 7
    assert RunReport.read(path).finished


def test_a_report_on_a_full_disk_is_written_once_there_is_room(
    reporter: Reporter, path: Path
) -> None:
    path.unlink()
    # Where a folder is, no file can be put.
    path.mkdir()
    reporter.get_table_reporter("a.b").mark_working(TableState.EXPORTING)
    reporter.set_result({"question": "a"})
    path.rmdir()
    reporter.renew()
    assert RunReport.read(path).result == {"question": "a"}
    assert read_table(path).state is TableState.EXPORTING


def test_a_report_names_the_tables_whose_session_is_open(reporter: Reporter, path: Path) -> None:
    reporter.mark_session("a.b", is_open=True)
    reporter.renew()
    assert RunReport.read(path).open_sessions == ("a.b",)
    reporter.mark_session("a.b", is_open=False)
    reporter.finish(outcome=None)
    assert RunReport.read(path).open_sessions == ()


def test_a_report_has_the_most_that_was_used_of_each_resource(
    reporter: Reporter, path: Path
) -> None:
    """Whichever table or task used it: the number of entries is that of kinds."""
    for used in (3, 7, 5):
        reporter.get_table_reporter("a.b").note_resources({"state_index": [used, 9]})
    reporter.get_table_reporter("a.b").note_resources({"python_worker": [1, 2]})
    reporter.renew()
    assert RunReport.read(path).resources == (
        UsedResource(kind="state_index", used=7, limit=9),
        UsedResource(kind="python_worker", used=1, limit=2),
    )


def test_the_most_of_volumes_of_different_sizes_is_that_of_the_fullest(
    reporter: Reporter, path: Path
) -> None:
    for most in ([1, 1000], [9, 10], [500, 1000], [0, 0]):
        reporter.get_table_reporter("a.b").note_resources({"scratch_volume": most})
    reporter.renew()
    fullest = UsedResource(kind="scratch_volume", used=9, limit=10)
    assert RunReport.read(path).resources == (fullest,)


def test_a_full_volume_of_an_executor_is_not_hidden_by_that_of_the_driver(
    reporter: Reporter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(path.parent))
    table = SimpleNamespace(name="a.b")
    context = SimpleNamespace(reporter=reporter.get_table_reporter("a.b"), table=table)
    result = BatchResult(resources={"scratch_volume": [10, 10]})
    report_batch(cast("TableContext", context), make_changelog(), result, Effort())
    reporter.renew()
    full = UsedResource(kind="scratch_volume", used=10, limit=10)
    assert RunReport.read(path).resources == (full,)


def test_a_change_within_the_interval_is_written_by_a_later_equal_one(
    reporter: Reporter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter.get_table_reporter("a.b").set(rows_upserted=7)
    monkeypatch.setattr("icdc_spark.reporting.reporter.MIN_INTERVAL_SECONDS", 0.0)
    reporter.get_table_reporter("a.b").set(rows_upserted=7)
    assert read_table(path).rows_upserted == 7


def test_a_table_error_stalls_the_table_with_its_reason(reporter: Reporter, path: Path) -> None:
    reporter.get_table_reporter("a.b").fail(AliasTaken("taken"))
    table_report = read_table(path)
    assert (table_report.state, table_report.reason) == (
        TableState.STALLED,
        TableReason.ALIAS_TAKEN,
    )
    assert table_report.message == "taken"


def test_a_passing_error_keeps_the_state_and_names_its_reason(
    reporter: Reporter, path: Path
) -> None:
    reporter.get_table_reporter("a.b").mark_working(TableState.STREAMING)
    reporter.get_table_reporter("a.b").fail(TargetUnavailable("down"))
    table_report = read_table(path)
    assert (table_report.state, table_report.reason) == (
        TableState.STREAMING,
        TableReason.TARGET_UNAVAILABLE,
    )


class CollectingSink:
    """Keeps what it is handed."""

    def __init__(self) -> None:
        self.offered: list[tuple[RunReport, bool]] = []
        self.delivered: list[RunReport] = []

    def offer(self, report: RunReport, *, urgent: bool) -> None:
        self.offered.append((read_back(report), urgent))

    def deliver(self, report: RunReport) -> None:
        self.delivered.append(read_back(report))


def read_back(report: RunReport) -> RunReport:
    """Return the report as a file of it is read: its times are cut to milliseconds."""
    return RunReport.model_validate(report.to_resource())


def make_reporter(sink: CollectingSink, path: Path) -> Reporter:
    request = RunRequest(run_id="r", pipeline={}, owner="default/p", epoch=1, report_path=str(path))
    return Reporter(request, [TableStatus(name="a.b", index="b")], sink)


def test_a_sink_is_handed_every_report_that_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = CollectingSink()
    reporter = make_reporter(sink, path)
    assert sink.offered == [(RunReport.read(path), True)]
    reporter.get_table_reporter("a.b").set(rows_upserted=1)
    assert len(sink.offered) == 1
    monkeypatch.setattr("icdc_spark.reporting.reporter.MIN_INTERVAL_SECONDS", 0.0)
    reporter.get_table_reporter("a.b").set(rows_upserted=2)
    assert sink.offered[1:] == [(RunReport.read(path), False)]
    reporter.renew()
    assert sink.offered[2:] == [(RunReport.read(path), False)]
    assert sink.delivered == []


def test_a_sink_learns_that_a_table_has_turned(path: Path) -> None:
    sink = CollectingSink()
    reporter = make_reporter(sink, path)
    reporter.get_table_reporter("a.b").mark_working(TableState.EXPORTING)
    reporter.get_table_reporter("a.b").fail(TargetUnavailable("down"))
    assert [urgent for _, urgent in sink.offered] == [True, True, True]


def test_a_sink_delivers_the_last_report_alone(path: Path) -> None:
    sink = CollectingSink()
    reporter = make_reporter(sink, path)
    reporter.finish(outcome=AliasTaken("taken"))
    assert sink.delivered == [RunReport.read(path)]
    assert sink.delivered[0].finished
    assert len(sink.offered) == 1


def test_a_run_that_ends_with_its_starter_does_not_speak_for_the_pod_it_is_in(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = CollectingSink()
    monkeypatch.setattr("icdc_spark.reporting.pod_report.get_own_sink", lambda: sink)
    request = RunRequest(run_id="r", pipeline={}, owner="default/p", epoch=1, report_path=str(path))
    assert choose_sink(request) is sink
    assert choose_sink(request.model_copy(update={"end_with_stdin": True})) is None
