"""Runs as child processes: what SparkApplications and driver pods are in a cluster.

The promise to the reconcile core: what `observe` says of `writer_alive` is true even if the driver,
or a runner before this one, was killed at any line of this file. Otherwise a second run would start
while Python workers of the first still write.

    process.json   processes   report       observe() says
    none           -           -            nothing: the run does not exist
    written        driver      none         Pending
    written        driver      unfinished   Running
    exit 0         none        finished     Succeeded, or Failed with an outcome
    exit -9        workers     unfinished   Failed, and something may still write: killed after 15 s
    no exit code   none        unfinished   Missing: it ended while no runner watched

Everything about a run is in its directory, so that a runner that was killed finds its runs again.
Knows how a process is started, watched and ended; what a run is for is the reconcile core's
business, and why it failed that of `failures`.

    runs/<run>/process.json      epoch and marker, written before the process is started
    runs/<run>/request.json      what the application is asked to do
    runs/<run>/report.json       what it has done, written by the application
    runs/<run>/application.log   what it and its JVM print
    runs/<run>/scratch/          shuffle and spill; removed when the run has ended
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from icdc_api.errors import BadSpec, Bug, Submission
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.spec.spark import Spark
from icdc_api.status.runs import Failure
from icdc_cli.local import application as app
from icdc_cli.local import failures, files, processes
from icdc_operator.core.observed import RunPhase, RunSeen

STOP_GRACE_SECONDS = 120.0
"""How long a run that was asked to stop may finish its batch before it is killed. A batch that is
cut off is written again by the next run, so the limit costs work and no data."""

LEFTOVER_GRACE_SECONDS = 15.0
"""How long processes may outlive their driver; a JVM needs some time to clean up."""

LOG_TAIL_BYTES = 16 * 1024
"""End of a log in which a cause is looked for: enough for several stack traces of Java."""


@dataclass(frozen=True)
class _Record:
    """`process.json`: what must survive the runner."""

    epoch: int
    """Epoch of the attempt; another attempt under this name has another."""
    marker: str
    """By which `processes` finds what belongs to it: its directory and epoch."""
    started_at: str
    """ISO 8601 with a time zone."""
    exit_code: int | None = None
    """Of the driver, negative for a signal; None while it runs or if nobody saw it end."""
    refused: str | None = None
    """Why the process could not be started."""


class LocalRuns:
    """The runs below one directory. Not for two threads."""

    def __init__(
        self, root: Path, application: app.Application, *, grace_seconds: float = STOP_GRACE_SECONDS
    ) -> None:
        self._root = root
        self._application = application
        self._grace = grace_seconds
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        """Drivers that this object has started and not yet seen end, by run."""
        self._kill_at: dict[str, float] = {}
        """When a run is killed, by the monotonic clock: of those that have to end."""

    def build_report_path(self, name: str) -> Path:
        """Return the path to which the application of that run writes its report."""
        return self._root / name / "report.json"

    def build_log_path(self, name: str) -> Path:
        """Return the path of the output of that run's application."""
        return self._root / name / "application.log"

    def create(self, name: str, request: RunRequest, spark: Spark, *, short: bool = False) -> None:
        """Start the run, unless a run of that name and epoch was started before.

        A process that cannot be started is no error here: `observe` returns a run that Failed.
        `short`: the run is expected to end within a minute.
        """
        directory = self._root / name
        record = self._read_record(name)
        # The core creates a run until it has seen it: after a crash of the runner it does so again.
        if record is not None and record.epoch == request.epoch:
            return
        # Of an earlier attempt: its report must not be taken for one of this run.
        shutil.rmtree(directory, ignore_errors=True)
        scratch = directory / "scratch"
        scratch.mkdir(parents=True)
        marker = f"{directory}@{request.epoch}"
        # Before the process: a runner that dies between the two leaves a record without a process,
        # which is seen as Missing. The other way round it would leave a process that nobody finds.
        record = _Record(request.epoch, marker, datetime.now(UTC).isoformat())
        self._write(name, record)
        path = directory / "request.json"
        request.write(path)
        env = app.build_environment(
            self._application, spark, scratch=scratch, marker=marker, short=short
        )
        try:
            with self.build_log_path(name).open("wb") as log:
                self._children[name] = subprocess.Popen(
                    app.build_command(self._application, path),
                    # Never written to. The kernel closes it with this process, however that
                    # ends, and its end tells the application that we have ended.
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=env,
                    # A terminal sends SIGINT to its whole foreground group: it is for us alone,
                    # who ask the driver to end after its batch.
                    start_new_session=True,
                )
        except OSError as error:
            # Such as E2BIG, or an interpreter whose virtual environment was removed meanwhile.
            refused = f"{self._application.python} cannot be started: {error.strerror}"
            self._write(name, _Record(record.epoch, marker, record.started_at, refused=refused))

    def observe(self) -> tuple[RunSeen, ...]:
        """Return all runs that have a record; first kill those whose grace is over."""
        # Here, as the runner's loop comes by all the time: there is no thread for deadlines.
        for name, moment in list(self._kill_at.items()):
            if time.monotonic() >= moment:
                self._kill(name)
        names = sorted(entry.name for entry in self._root.iterdir() if entry.is_dir())
        seen = (self._observe_run(name) for name in names)
        return tuple(run for run in seen if run is not None)

    def stop(self, name: str, *, graceful: bool) -> None:
        """End a run, after its batch or at once; a second graceful call keeps the deadline."""
        record = self._read_record(name)
        if record is None:
            return
        if not graceful:
            self._kill(name)
        elif name not in self._kill_at:
            self._kill_at[name] = time.monotonic() + self._grace
            self._ask_to_end(name, record)

    def forget(self, name: str) -> None:
        """Remove a run's directory."""
        shutil.rmtree(self._root / name, ignore_errors=True)
        self._kill_at.pop(name, None)

    def close(self) -> None:
        """Kill all children of this object and wait until they have ended.

        Without the wait, an exit code that nobody collects leaves a zombie until this process ends,
        which in tests and the demo is long after the runs.
        """
        for name, child in self._children.items():
            if child.poll() is None:
                self._kill(name)
            child.wait()
            if child.stdin is not None:
                child.stdin.close()
        self._children.clear()

    def _observe_run(self, name: str) -> RunSeen | None:
        """Return a run as it is now; None for a directory without a record.

        Processes are searched for only where no child of ours is alive: that takes a walk over all
        processes of the host, and the loop comes by five times a second.
        """
        record = self._read_record(name)
        if record is None:
            return None
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            record = self._record_end(name, record, child)
            child = None
        if child is not None:
            alive = True
        else:
            alive = bool(processes.list_members(record.marker))
            if alive:
                # The driver has ended, or belongs to a runner before us: nobody watches these.
                self._kill_at.setdefault(name, time.monotonic() + LEFTOVER_GRACE_SECONDS)
            else:
                self._kill_at.pop(name, None)
                # Shuffle files may be gigabytes; report and log stay for people.
                shutil.rmtree(self._root / name / "scratch", ignore_errors=True)
        report, unreadable = self._read_report(name)
        phase, failure = self._judge(name, record, report, unreadable, alive=alive)
        started = datetime.fromisoformat(record.started_at)
        return RunSeen(name, record.epoch, phase, alive, started, report, failure)

    def _judge(
        self,
        name: str,
        record: _Record,
        report: RunReport | None,
        unreadable: Failure | None,
        *,
        alive: bool,
    ) -> tuple[RunPhase, Failure | None]:
        """Return the phase, and the failure where the run could not report one of its own.

        Evidence by falling trust: our own refusal, a live driver, its report, its exit code. The
        report goes before the exit code, since a JVM that crashes while it ends changes nothing
        about tables that are done.
        """
        if record.refused is not None:
            return RunPhase.FAILED, Failure.of(Submission(record.refused))
        if alive and record.exit_code is None:
            return (RunPhase.PENDING if report is None else RunPhase.RUNNING), None
        if report is not None and report.finished:
            good = report.outcome is None
            return (RunPhase.SUCCEEDED if good else RunPhase.FAILED), None
        if unreadable is not None:
            return RunPhase.FAILED, unreadable
        if record.exit_code is None:
            return RunPhase.MISSING, None
        log = self.build_log_path(name)
        tail = files.read_tail(log, LOG_TAIL_BYTES)
        return RunPhase.FAILED, failures.explain_exit(record.exit_code, tail, log=str(log))

    def _record_end(self, name: str, record: _Record, child: subprocess.Popen[bytes]) -> _Record:
        """Save the exit code and forget the child; return the new record."""
        record = _Record(record.epoch, record.marker, record.started_at, child.returncode)
        self._write(name, record)
        if child.stdin is not None:
            child.stdin.close()
        del self._children[name]
        return record

    def _read_report(self, name: str) -> tuple[RunReport | None, Failure | None]:
        try:
            return self._explain(name, RunReport.read(self.build_report_path(name))), None
        except FileNotFoundError:
            return None, None
        except BadSpec as error:
            return None, Failure.of(Bug(error.message))

    def _explain(self, name: str, report: RunReport) -> RunReport:
        """Return the report, with the cause from the log where the application could not know it:
        its Python sees a JVM that ran out of memory as lost, which would be tried again at once."""
        outcome = report.outcome
        if outcome is None or not outcome.may_hide_cause:
            return report
        log = self.build_log_path(name)
        cause = failures.find_cause(files.read_tail(log, LOG_TAIL_BYTES), log=str(log))
        return report if cause is None else report.model_copy(update={"outcome": cause})

    def _ask_to_end(self, name: str, record: _Record) -> None:
        """Send SIGTERM to the driver alone: its JVM must run until the batch is finished.

        A signal to the whole group, as a terminal sends it, would take the JVM from under it.
        """
        child = self._children.get(name)
        if child is not None:
            child.send_signal(signal.SIGTERM)
            return
        # A driver of an earlier runner: its standard input has ended, which asks for the same.
        for pid in processes.list_members(record.marker):
            with contextlib.suppress(ProcessLookupError):
                # It leads the session that it was started in; JVM and workers do not.
                if os.getsid(pid) == pid:
                    os.kill(pid, signal.SIGTERM)

    def _kill(self, name: str) -> None:
        record = self._read_record(name)
        child = self._children.get(name)
        if child is not None:
            child.kill()
        if record is not None:
            processes.kill(record.marker)

    def _read_record(self, name: str) -> _Record | None:
        try:
            return _Record(**json.loads((self._root / name / "process.json").read_text()))
        except FileNotFoundError:
            return None

    def _write(self, name: str, record: _Record) -> None:
        files.write_atomically(self._root / name / "process.json", json.dumps(vars(record)))
