"""SIGSTOP of a driver of which nothing changes: its report shows it, and it harms nobody later.

The operator's time goes faster than that of the driver, which renews its report every second.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import FailureClass
from icdc_operator.cluster.runs.renewals import ReportRenewals
from icdc_operator.core.observed import RunPhase, RunSeen
from icdc_testing.operator.deciding.pipelines import run_record
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import BatchKind, Plot, create_plot
from icdc_testing.runs.processes import END_SECONDS, ChildRun, ChildRuns
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

_LAUNCHER = """#!/bin/sh
case "$*" in *request.json) ;; *) exec {python} "$@" ;; esac
exec {python} -c '
import runpy, sys
from icdc_spark.reporting import renewal
renewal.RENEWAL_SECONDS = 1
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
"""
"""Workers of Spark are started by it too, and are as always."""
READ_SECONDS = 30
"""Of the operator, in half a second of the driver."""
RENEWALS = 5


@pytest.fixture
def quick_runs(tmp_path: Path) -> Iterator[ChildRuns]:
    """Start runs that renew their reports every second."""
    python = tmp_path / "python"
    python.write_text(_LAUNCHER.format(python=sys.executable))
    python.chmod(0o755)
    with ChildRuns(tmp_path, python=python) as started:
        yield started


class FrozenStage:
    """A continuous run that has caught up, and an operator that reads its report."""

    def __init__(self, run: ChildRun) -> None:
        self.run = run
        self.now = datetime.now(UTC)
        self._renewals = ReportRenewals()
        self._record = run_record(name=run.request.run_id, epoch=run.request.epoch)

    def is_given_up(self) -> bool:
        """Read the report, as the operator does; return whether the driver is taken for frozen."""
        self.now += timedelta(seconds=READ_SECONDS)
        name, epoch, report = self._record.name, self._record.epoch, self.run.read_report()
        seen = RunSeen(name, epoch, RunPhase.RUNNING, True, report=report)
        key = ("default", "shop")
        (judged,) = self._renewals.judge_current(key, self._record, (seen,), self.now)
        return judged.given_up

    def wait_for_renewals(self) -> None:
        """Wait until the report was renewed some times although nothing has changed."""
        times: set[datetime] = set()

        def is_renewed() -> bool:
            report = self.run.read_report()
            assert self.run.alive, self.run.log[-4000:]
            assert not self.is_given_up(), self.run.log[-4000:]
            if report is not None and report.tables[0].snapshots_behind == 0:
                times.add(report.updated_at)
            return len(times) > RENEWALS

        wait_until(is_renewed, "the report is renewed", seconds=END_SECONDS, pause=0.5)

    def wait_until_given_up(self) -> None:
        wait_until(self.is_given_up, "the driver is given up", seconds=120, pause=0.5)


def pause_jvm(run: ChildRun) -> None:
    """Stop the JVM alone, as one that only collects garbage: Python goes on."""
    os.kill(run.find_driver_jvm(), signal.SIGSTOP)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("freeze", [ChildRun.pause, pause_jvm], ids=["all of it", "its JVM"])
def test_a_driver_that_is_frozen_is_noticed_and_fenced_when_it_goes_on(
    spark: SparkSession,
    clean_indices: str,
    quick_runs: ChildRuns,
    tmp_path: Path,
    freeze: Callable[[ChildRun], None],
) -> None:
    table: Plot = create_plot(spark, clean_indices, BatchKind.COPY_ON_WRITE, "frozen")
    harness = Harness(spark, clean_indices, tmp_path, [table.entry])
    run = quick_runs.start(harness.make_request(continuous=True))
    stage = FrozenStage(run)
    stage.wait_for_renewals()

    freeze(run)
    try:
        stage.wait_until_given_up()
        # What the operator does then: another run takes over.
        table.change(1)
        harness.sync()
        table.check()
    finally:
        run.resume()
    outcome = run.wait_for_end().outcome
    assert outcome is not None
    assert outcome.failure_class is FailureClass.FENCED, f"{outcome}\n{run.log[-4000:]}"
    table.check()
