"""Cancels the steps of tables that make no progress, and keeps them from holding up the others.

A step may take days: what is limited is the time in which nothing is done. That is seen in the
Spark jobs of the table, which carry its tag: a job begins or ends, a task ends, rows or bytes are
read, shuffled, sent or written. One thread watches all steps. It must know neither tables nor what
their steps do; calls to catalogs have a limit of their own (`call_watch`).

Example, steps may do nothing for 900 s, and the watch polls every 45 s:

    step A writes for an hour      not cancelled: requests are answered all the time
    its driver plans for an hour   not cancelled, if it notes each plan that it has made
    step B, no row for 900 s       its jobs are cancelled; the step fails at once, with NoProgress
    step C waits for its catalog   not cancelled: the call watch limits that
    its job waits for executors    not cancelled: executors work for others
    step D hangs outside of jobs   there is nothing to cancel; at the next poll its `on_stuck` runs,
                                   and whenever it ends, NoProgress is raised in its thread

A step that was cancelled has left requests under way, as any step that fails: what it intended
is recorded, and the next attempt waits for them and repeats it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from icdc_api.errors import Bug, IcdcError, NoProgress
from icdc_spark.iceberg.jvm.table_jobs import JobProgress
from icdc_spark.process.failures import outlive_errors

LOG = logging.getLogger(__name__)

POLLS = 20
"""Times that a step is observed in the time in which it must make progress."""


class Jobs(Protocol):
    """The Spark jobs of tables, see `TableJobs`."""

    def read(self, tag: str) -> JobProgress:
        """Return what the jobs with a tag have done so far."""

    def cancel(self, tag: str) -> None:
        """Cancel the running jobs with a tag."""


@dataclass(eq=False)
class _WatchedStep:
    table: str
    """Name of the table, for messages; a table has one step at a time."""
    tag: str
    """Tag of the table's Spark jobs, by which they are read and cancelled."""
    on_stuck: Callable[[NoProgress], None]
    """Runs once, if the step does not end although its jobs were cancelled."""
    since: float
    """When progress was seen last, on the monotonic clock, in seconds."""
    progress: JobProgress | None = None
    """The progress that was seen then; None where Spark did not say."""
    has_progressed: bool = False
    """It was noted since the last poll that the step goes on."""
    calls: int = 0
    """Calls under way that have a limit of their own."""
    error: NoProgress | None = None
    """Why the step was cancelled; None while it may go on."""
    is_stuck: bool = False
    """`on_stuck` has run, or runs now."""
    has_ended: bool = False
    """The step has ended: it is no longer judged."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the step is judged, so that it cannot end in the middle of it."""


class StepWatch:
    """Watch steps that may do nothing for `seconds` each.

    A context manager: outside of it no step is watched.
    """

    def __init__(self, seconds: float, jobs: Jobs) -> None:
        self._seconds = seconds
        self._jobs = jobs
        # Guards the steps only: a table has one at a time.
        self._lock = threading.Lock()
        self._steps: dict[str, _WatchedStep] = {}
        self._closed = threading.Event()

    def __enter__(self) -> "StepWatch":
        threading.Thread(target=self._poll, name="step-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()

    @contextmanager
    def step(self, table: str, tag: str, on_stuck: Callable[[NoProgress], None]) -> Iterator[None]:
        """Watch the block; NoProgress where it was cancelled, also if it succeeded after all.

        `tag` is that of the table's jobs. `on_stuck` runs once, in another thread, if the block
        does not end although its jobs were cancelled; it must be quick. Errors of the block are
        those of the project.
        """
        step = _WatchedStep(table, tag, on_stuck, time.monotonic())
        with self._lock:
            self._steps[table] = step
        try:
            yield
        except (NoProgress, Bug) as error:
            self._end(step)
            # How a cancelled job fails. Any other error says more than that time has passed.
            if step.error is not None:
                raise step.error from error
            raise
        finally:
            self._end(step)
        if step.error is not None:
            raise step.error

    @contextmanager
    def call(self, table: str) -> Iterator[None]:
        """Do not judge the table's step in the block, which has a limit of its own."""
        with self._lock:
            step = self._steps.get(table)
        if step is None:
            # Such as while its session is closed, after the step.
            yield
            return
        with step.lock:
            step.calls += 1
        try:
            yield
        finally:
            with step.lock:
                step.calls -= 1
                step.since = time.monotonic()

    def note(self, table: str) -> None:
        """Take it that the table's step has just done something, which no Spark job shows."""
        with self._lock:
            step = self._steps.get(table)
        if step is not None:
            with step.lock:
                step.has_progressed = True

    def judge_all(self, now: float) -> None:
        """Observe all steps, and cancel those that have done nothing for too long by `now`."""
        with self._lock:
            steps = list(self._steps.values())
        for step in steps:
            with outlive_errors(f"the watch of {step.table}"), step.lock:
                if not step.has_ended:
                    self._judge(step, now)

    def _judge(self, step: _WatchedStep, now: float) -> None:
        if step.error is None:
            progress = self._observe(step)
            is_excused = step.calls > 0 or (progress is not None and progress.is_waiting)
            if is_excused or step.has_progressed or progress != step.progress:
                step.progress, step.since, step.has_progressed = progress, now, False
            if now - step.since < self._seconds:
                return
            step.error = _describe(step, now)
            # Also of one that then ends at once, and so is reported only until the next attempt.
            LOG.warning("%s", step.error)
        elif not step.is_stuck:
            step.is_stuck = True
            step.on_stuck(step.error)
        # Each time: it may have begun another job meanwhile.
        with suppress(IcdcError):
            self._jobs.cancel(step.tag)

    def _observe(self, step: _WatchedStep) -> JobProgress | None:
        try:
            return self._jobs.read(step.tag)
        except IcdcError:
            # Of a JVM that has ended, every table hears by itself.
            return None

    def _end(self, step: _WatchedStep) -> None:
        """Let nobody judge the step from here on; wait for a judgement that has begun."""
        with step.lock:
            step.has_ended = True
        with self._lock:
            self._steps.pop(step.table, None)

    def _poll(self) -> None:
        while not self._closed.wait(self._seconds / POLLS):
            self.judge_all(time.monotonic())


def _describe(step: _WatchedStep, now: float) -> NoProgress:
    """Return the failure of a step: what hangs, since when, what happens next, and who acts."""
    moment = datetime.now(tz=UTC) - timedelta(seconds=now - step.since)
    since = moment.isoformat(timespec="seconds").replace("+00:00", "Z")
    running = step.progress.running if step.progress else ()
    if running:
        what = f"{'; '.join(running)}. The step is cancelled and retried"
        whom = "the files of the table, or OpenSearch"
    else:
        what = "outside of Spark jobs. The step is retried as soon as it ends"
        whom = "the metadata of the table, or OpenSearch"
    return NoProgress(
        f"{step.table}: no progress since {since}: {what}; nothing is lost. Other tables go on. If "
        "this happens again, the platform engineer must find out what the driver or its executors "
        f"wait for: {whom}"
    )
