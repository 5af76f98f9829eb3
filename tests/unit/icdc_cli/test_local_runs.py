"""Runs as child processes, with a scripted application in place of Spark."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icdc_api.errors import FailureClass
from icdc_api.job.run_files import RunRequest
from icdc_cli.local import processes, resource
from icdc_cli.local.application import Application
from icdc_cli.local.runs import LocalRuns
from icdc_operator.core.observed import RunPhase, RunSeen

pytestmark = pytest.mark.unit

RUN = "shop-e1-1"
DEADLINE_SECONDS = 60.0

PipelineFile = Callable[..., Path]


@pytest.fixture
def runs(tmp_path: Path, fake_application: Application) -> Iterator[LocalRuns]:
    root = tmp_path / "runs"
    root.mkdir()
    local = LocalRuns(root, fake_application, grace_seconds=0.5)
    yield local
    local.close()


def start(runs: LocalRuns, path: Path, *, epoch: int = 5, short: bool = False) -> None:
    local = resource.load(path)
    request = RunRequest(
        run_id=f"{RUN}.{epoch}",
        pipeline=local.request,
        owner="default/shop",
        epoch=epoch,
        report_path=str(runs.build_report_path(RUN)),
    )
    runs.create(RUN, request, local.pipeline.spec.spark, short=short)


def wait_for(runs: LocalRuns, wanted: Callable[[RunSeen], bool]) -> RunSeen:
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        for seen in runs.observe():
            if wanted(seen):
                return seen
        time.sleep(0.02)
    raise AssertionError(f"not seen within {DEADLINE_SECONDS} s: {runs.observe()}")


def has_ended(seen: RunSeen) -> bool:
    return not seen.live


def is_reporting(seen: RunSeen) -> bool:
    return seen.phase == RunPhase.RUNNING


@pytest.mark.parametrize("short", [True, False])
def test_only_the_jvm_of_a_short_run_optimises_no_code(
    runs: LocalRuns, pipeline_file: PipelineFile, tmp_path: Path, short: bool
) -> None:
    start(runs, pipeline_file("end_when_asked"), short=short)
    properties = (tmp_path / "runs" / RUN / "scratch" / "spark.properties").read_text()
    assert ("TieredStopAtLevel" in properties) == short


@pytest.mark.parametrize(
    ("fake", "phase", "failure", "text"),
    [
        ("succeed", RunPhase.SUCCEEDED, None, ""),
        ("stall", RunPhase.SUCCEEDED, None, ""),
        ("fail_to_connect", RunPhase.FAILED, None, ""),
        ("sigkill", RunPhase.FAILED, FailureClass.NODE_LOST, "from outside by SIGKILL"),
        ("exhaust_memory", RunPhase.FAILED, FailureClass.OUT_OF_MEMORY, "spark.driver.memory"),
        ("crash", RunPhase.FAILED, FailureClass.BUG, "ValueError: nobody foresaw this"),
        ("garble_report", RunPhase.FAILED, FailureClass.BUG, "is not a RunReport"),
    ],
)
def test_an_end_is_seen_with_its_class(
    runs: LocalRuns,
    pipeline_file: PipelineFile,
    fake: str,
    phase: RunPhase,
    failure: FailureClass | None,
    text: str,
) -> None:
    start(runs, pipeline_file(fake))
    seen = wait_for(runs, has_ended)
    assert (seen.phase, seen.epoch) == (phase, 5)
    if failure is None:
        assert seen.failure is None
        assert seen.report is not None
        assert seen.report.finished
    else:
        assert seen.failure is not None
        assert seen.failure.failure_class == failure
        assert text in seen.failure.message
        assert len(seen.failure.message) <= 1024


@pytest.mark.parametrize(
    ("fake", "failure"),
    [
        ("lose_jvm", FailureClass.NODE_LOST),
        ("exhaust_jvm_heap", FailureClass.OUT_OF_MEMORY),
        ("start_no_jvm", FailureClass.SUBMISSION),
    ],
)
def test_what_the_application_cannot_know_of_its_jvm_is_told_by_the_log(
    runs: LocalRuns, pipeline_file: PipelineFile, fake: str, failure: FailureClass
) -> None:
    start(runs, pipeline_file(fake))
    seen = wait_for(runs, has_ended)
    assert seen.report is not None
    assert seen.report.outcome is not None
    assert seen.report.outcome.failure_class == failure
    # In the words of the JVM, where it had any.
    said = "Could not reserve enough space" in seen.report.outcome.message
    assert said == (fake == "start_no_jvm")


def test_a_polite_run_that_is_asked_to_stop_finishes_by_itself(
    runs: LocalRuns, pipeline_file: PipelineFile
) -> None:
    start(runs, pipeline_file("end_when_asked"))
    wait_for(runs, is_reporting)
    runs.stop(RUN, graceful=True)
    assert wait_for(runs, has_ended).phase == RunPhase.SUCCEEDED


@pytest.mark.parametrize("graceful", [True, False])
def test_a_deaf_run_is_killed(runs: LocalRuns, pipeline_file: PipelineFile, graceful: bool) -> None:
    start(runs, pipeline_file("ignore_sigterm"))
    wait_for(runs, is_reporting)
    runs.stop(RUN, graceful=graceful)
    seen = wait_for(runs, has_ended)
    assert seen.failure is not None
    assert seen.failure.failure_class == FailureClass.NODE_LOST


def test_closing_kills_and_leaves_no_process(runs: LocalRuns, pipeline_file: PipelineFile) -> None:
    start(runs, pipeline_file("ignore_sigterm"))
    wait_for(runs, is_reporting)
    runs.close()
    wait_for(runs, has_ended)


def test_a_worker_that_outlives_its_driver_counts_as_a_writer_until_it_is_killed(
    runs: LocalRuns, pipeline_file: PipelineFile
) -> None:
    start(runs, pipeline_file("leave_worker"))
    seen = wait_for(runs, lambda seen: seen.phase == RunPhase.FAILED)
    assert seen.writer_alive
    runs.stop(RUN, graceful=False)
    assert not wait_for(runs, has_ended).writer_alive


def test_creating_a_run_twice_starts_one_process(
    runs: LocalRuns, pipeline_file: PipelineFile
) -> None:
    start(runs, pipeline_file("end_when_asked"))
    wait_for(runs, is_reporting)
    start(runs, pipeline_file("end_when_asked"))
    assert len(processes.list_members(f"{runs.build_report_path(RUN).parent}@5")) == 1


def test_an_application_that_cannot_be_started_is_seen_as_failed(
    runs: LocalRuns, pipeline_file: PipelineFile, tmp_path: Path, fake_application: Application
) -> None:
    missing = Application(fake_application.main_file, str(tmp_path / "python"), None)
    lame = LocalRuns(tmp_path / "runs", missing)
    start(lame, pipeline_file())
    (seen,) = lame.observe()
    assert seen.failure is not None
    assert seen.failure.failure_class == FailureClass.SUBMISSION
    assert seen.failure.message.endswith("cannot be started: No such file or directory")


def test_a_forgotten_run_leaves_nothing(runs: LocalRuns, pipeline_file: PipelineFile) -> None:
    start(runs, pipeline_file())
    wait_for(runs, has_ended)
    runs.forget(RUN)
    assert runs.observe() == ()


def test_scratch_space_is_removed_when_the_run_has_ended_and_requests_are_private(
    runs: LocalRuns, pipeline_file: PipelineFile
) -> None:
    start(runs, pipeline_file())
    wait_for(runs, has_ended)
    directory = runs.build_report_path(RUN).parent
    assert not (directory / "scratch").exists()
    assert (directory / "request.json").stat().st_mode & 0o077 == 0


RUNNER = """
import sys, pathlib, time
from icdc_api.job.run_files import RunRequest
from icdc_cli.local import resource
from icdc_cli.local.application import Application
from icdc_cli.local.runs import LocalRuns
root, main, pipeline = map(pathlib.Path, sys.argv[1:])
runs = LocalRuns(root, Application(main, sys.executable, None))
local = resource.load(pipeline)
request = RunRequest(run_id="a", pipeline=local.request, owner="default/shop", epoch=5,
                     report_path=str(runs.build_report_path("shop-e1-1")))
runs.create("shop-e1-1", request, local.pipeline.spec.spark)
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("fake", "phase"),
    [("wait_for_end_of_stdin", RunPhase.SUCCEEDED), ("ignore_sigterm", RunPhase.MISSING)],
)
def test_the_next_runner_sees_the_end_of_a_run_whose_runner_was_killed(
    runs: LocalRuns,
    pipeline_file: PipelineFile,
    fake_application: Application,
    fake: str,
    phase: RunPhase,
) -> None:
    root = runs.build_report_path(RUN).parent.parent
    arguments = [str(root), str(fake_application.main_file), str(pipeline_file(fake))]
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"started\n"
        wait_for(runs, lambda seen: seen.report is not None)
        os.kill(runner.pid, signal.SIGKILL)
    if fake == "ignore_sigterm":
        assert wait_for(runs, is_reporting).writer_alive
        runs.stop(RUN, graceful=False)
    assert wait_for(runs, has_ended).phase == phase
