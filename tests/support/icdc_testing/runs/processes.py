"""Run the application as real child processes, which a test may kill.

Started by the very adapter that `icdc run` uses, so that what is killed is what ships. Knows
the processes of a run; what a run does, and when to kill it, is the test's business.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.spec.spark import Spark
from icdc_cli.embedded.lake import QUICK_START
from icdc_cli.local import processes
from icdc_cli.local.application import find_installed
from icdc_cli.local.runs import LocalRuns
from icdc_operator.core.observed import RunSeen
from icdc_testing import SOURCES
from icdc_testing.runs.spark_conf import UNCOMPILED
from icdc_testing.waiting.processes import kill, read_command, read_name
from icdc_testing.waiting.wait import wait_until

END_SECONDS = 300.0
"""Seconds until a run must have ended, on a busy machine."""
ORPHAN_SECONDS = 120.0
"""Seconds until the other processes of a killed run must have ended."""

SMALL = Spark.model_validate(
    {
        "driver": {"memory": "1g"},
        "executor": {"instances": 1, "cores": 2},
        "conf": {
            **UNCOMPILED,
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.sql.shuffle.partitions": "2",
        },
    }
)
"""A JVM that starts quickly is worth more here than one that peaks high."""


class KilledProcess(StrEnum):
    """The processes of a run that are killed."""

    EVERYTHING = "everything"
    DRIVER_PYTHON = "driver Python"
    DRIVER_JVM = "driver JVM"


class Parent:
    """A process of its own that starts a run, and may die before it."""

    def __init__(self, folder: Path, request: Path) -> None:
        program = [sys.executable, __file__, str(folder), str(request)]
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": SOURCES},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == _STARTED

    def die(self) -> None:
        """Kill it by SIGKILL: it can warn nobody."""
        self._process.kill()
        self._process.communicate()


class ChildRun:
    """One run in processes of its own."""

    def __init__(self, runs: LocalRuns, request: RunRequest, folder: Path) -> None:
        self.request = request
        self._runs = runs
        self._folder = folder / request.run_id
        self._driver: int | None = None

    @property
    def marker(self) -> str:
        """The value that all processes of the run have in their environment."""
        return str(json.loads((self._folder / "process.json").read_text())["marker"])

    @property
    def log(self) -> str:
        """The output of the run."""
        return self._runs.build_log_path(self.request.run_id).read_text(errors="replace")

    def list_pids(self) -> list[int]:
        """Return every live process of the run."""
        return processes.list_members(self.marker)

    def find_driver_python(self) -> int:
        """Return the process that was started; the JVM and the workers come from it."""
        (pid,) = self._list_drivers()
        return pid

    def _list_drivers(self) -> list[int]:
        request = str(self._folder / "request.json")
        return [pid for pid in self.list_pids() if request in read_command(pid)]

    @property
    def alive(self) -> bool:
        """True while the driver runs."""
        if self._driver is None:
            # None where it ended before anybody asked.
            self._driver = next(iter(self._list_drivers()), None)
        return self._driver is not None and bool(read_command(self._driver)[0])

    def find_driver_jvm(self) -> int:
        """Return the JVM of the driver, in which the tasks run as well."""
        (pid,) = [pid for pid in self.list_pids() if read_name(pid) == "java"]
        return pid

    def kill(self, victim: KilledProcess) -> None:
        """Send SIGKILL, and return at once."""
        if victim is KilledProcess.EVERYTHING:
            processes.kill(self.marker)
        elif victim is KilledProcess.DRIVER_PYTHON:
            kill(self.find_driver_python())
        else:
            kill(self.find_driver_jvm())

    def terminate(self) -> None:
        """Send SIGTERM to the driver, as an orderly stop sends it."""
        os.kill(self.find_driver_python(), signal.SIGTERM)

    def pause(self) -> None:
        """Send SIGSTOP to every process of the run; no warning, and none can run until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT to every process of the run."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.list_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait_dead(self, seconds: float = ORPHAN_SECONDS) -> None:
        """Wait until no process of the run is left; end none of them."""
        marker = self.marker
        try:
            wait_until(
                lambda: not processes.list_members(marker),
                "every process has ended",
                seconds=seconds,
            )
        except AssertionError as error:
            left = [" ".join(read_command(pid))[-200:] for pid in processes.list_members(marker)]
            raise AssertionError(f"still alive: {left}\n{self.log[-4000:]}") from error

    def read_report(self) -> RunReport | None:
        """Return the last report of the run; None before its first one."""
        try:
            return RunReport.read(Path(self.request.report_path))
        except FileNotFoundError:
            return None

    def wait_for_end(self, seconds: float = END_SECONDS) -> RunReport:
        """Wait for the end of the run and return its last report."""
        self.wait_dead(seconds)
        last = self.read_report()
        assert last is not None, f"the run left no report:\n{self.log[-4000:]}"
        assert last.finished, f"the run did not say how it ended:\n{self.log[-4000:]}"
        return last

    def await_end_seen(self) -> RunSeen:
        """Return the run as the reconcile core sees it once it knows that the run has ended.

        A killed process loses its memory, by which `wait_dead` knows it, a moment before its
        parent is notified.
        """
        wait_until(lambda: not self._observe().live, "the end is seen", seconds=ORPHAN_SECONDS)
        return self._observe()

    def _observe(self) -> RunSeen:
        return next(run for run in self._runs.observe() if run.name == self.request.run_id)


class ChildRuns:
    """A context manager that starts runs, and leaves no process behind.

    `python` is the program that is started in place of this process' own.
    """

    def __init__(self, folder: Path, *, python: Path | None = None) -> None:
        self._folder = folder / "runs"
        self._folder.mkdir(parents=True)
        installed = find_installed()
        if python is not None:
            installed = replace(installed, python=str(python))
        self._runs = LocalRuns(self._folder, installed)
        self._parents: list[Parent] = []
        self._started: list[ChildRun] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for parent in self._parents:
            parent.die()
        for run in self._started:
            processes.kill(run.marker)
        self._runs.close()
        # Killed before and awaited now: they end at the same time.
        for run in self._started:
            run.wait_dead()

    def start(self, request: RunRequest) -> ChildRun:
        """Start a run that ends with this test."""
        run = self._prepare(request)
        self._runs.create(run.request.run_id, run.request, SMALL)
        # A process that becomes another program has no environment for a moment: it looks ended.
        wait_until(lambda: bool(run.list_pids() or run.log), "the run's process is seen")
        return run

    def start_by_parent(self, request: RunRequest) -> tuple[ChildRun, Parent]:
        """Start a run from another process, and return both."""
        run = self._prepare(request)
        path = self._folder.with_name(f"{request.run_id}.json")
        run.request.write(path)
        self._parents.append(Parent(self._folder, path))
        return run, self._parents[-1]

    def _prepare(self, request: RunRequest) -> ChildRun:
        report = self._runs.build_report_path(request.run_id)
        fields = {"end_with_stdin": True, "report_path": str(report)}
        run = ChildRun(self._runs, request.model_copy(update=fields), self._folder)
        self._started.append(run)
        return run


_STARTED = "started\n"


def main(folder: str, request: str) -> None:
    """Start a run and wait to be killed: the program of `Parent`."""
    run = RunRequest.read(Path(request))
    LocalRuns(Path(folder), find_installed()).create(run.run_id, run, SMALL)
    sys.stdout.write(_STARTED)
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
