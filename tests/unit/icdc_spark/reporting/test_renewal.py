"""The report of a run of which nothing changes is renewed, unless the run is frozen."""

import itertools
from concurrent.futures import Future
from pathlib import Path

import pytest

from icdc_api.errors import DriverLost
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.process.main import await_end
from icdc_spark.reporting.renewal import Renewal
from icdc_spark.reporting.reporter import RENEWAL_SECONDS, Reporter

pytestmark = pytest.mark.unit


class CountingSink:
    """A pod that counts the reports of its driver."""

    def __init__(self) -> None:
        self.reports = 0

    def offer(self, report: RunReport, *, urgent: bool) -> None:
        self.reports += 1

    def deliver(self, report: RunReport) -> None:
        self.reports += 1


class RenewedRun:
    """A run of which nothing changes, and how often its engine was asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sink = CountingSink()
        fields = {"run_id": "r", "pipeline": {}, "owner": "default/p", "epoch": 1}
        request = RunRequest(**fields, report_path=str(path))
        tables = [TableStatus(name="a.b", index="b")]
        self.reporter = Reporter(request, tables, self.sink)
        self.asked = 0
        self.has_ended = False
        self.now = 0.0
        self.renewal = Renewal(self.reporter, self.ask, clock=lambda: self.now)

    def ask(self) -> None:
        self.asked += 1
        if self.has_ended:
            raise DriverLost("the JVM has ended")

    def poll(self, now: float) -> bool:
        """Poll at a second; return whether the report was renewed by it."""
        before, sent = self.read(), self.sink.reports
        self.now = now
        self.renewal.poll()
        after = self.read()
        assert after.model_copy(update={"updated_at": before.updated_at}) == before
        return self.sink.reports > sent

    def read(self) -> RunReport:
        return RunReport.read(self.path)


@pytest.fixture
def run(tmp_path: Path) -> RenewedRun:
    return RenewedRun(tmp_path / "report.json")


def test_a_report_says_how_often_it_is_renewed_and_is(run: RenewedRun) -> None:
    assert run.read().renewal_seconds == RENEWAL_SECONDS
    polls = (0.2, 60.0, 119.9, 120.0, 120.2, 239.9, 240.0, 1000.0, 1000.2)
    assert [now for now in polls if run.poll(now)] == [120.0, 240.0, 1000.0]
    assert run.asked == 3


def test_a_run_whose_engine_has_ended_renews_no_report(run: RenewedRun) -> None:
    run.has_ended = True
    assert not run.poll(120.0)
    run.has_ended = False
    assert not run.poll(120.2), "an engine that has ended is not asked at each poll"
    assert run.poll(240.0)


def test_the_last_report_is_not_renewed(run: RenewedRun) -> None:
    run.reporter.finish(outcome=None)
    assert not run.poll(120.0)


def test_what_a_renewal_raises_ends_no_run(
    run: RenewedRun, caplog: pytest.LogCaptureFixture
) -> None:
    ending: Future[None] = Future()

    def ask() -> None:
        run.ask()
        if run.asked == 2:
            ending.set_result(None)
        raise RuntimeError("unforeseen")

    clock = itertools.count(step=RENEWAL_SECONDS)
    await_end(ending, Renewal(run.reporter, ask, clock=lambda: next(clock)))
    assert run.asked == 2
    assert caplog.text.count("the renewal of the report: unforeseen") == 2
