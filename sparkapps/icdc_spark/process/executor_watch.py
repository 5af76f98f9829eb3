"""Notices that the jobs of a run wait while it has no executor at all, and reports since when.

Without executors a job waits for ever, and Spark says so in a log alone. Why there are none, the
operator finds out: Kubernetes writes it on their pods. Where the driver runs the tasks itself, it
is never so. Example, the watch asks every 5 s, and executors take 12 s to come:

    second       0      5      10     15              a node is lost at 600
    executors    0      0      0      2               0, for an hour
    reported     -      -      -      -               from 630 on: since 600
"""

import threading
import time
from datetime import datetime
from typing import Protocol

from icdc_api.errors import IcdcError
from icdc_spark.process.failures import outlive_errors
from icdc_spark.reporting.reporter import Reporter, get_utc_now

POLL_SECONDS = 5.0
"""Seconds between two polls; each is a few calls of the JVM."""

USUAL_SECONDS = 30.0
"""For so long it is not reported: executors need some time to start."""


class ExecutorJobs(Protocol):
    """The Spark jobs of a run, see `TableJobs`."""

    def lack_executors(self) -> bool:
        """Return whether a job runs although no executor is there."""


class ExecutorWatch:
    """Watch the executors of one run; a context manager, outside of which nobody asks."""

    def __init__(self, jobs: ExecutorJobs, reporter: Reporter) -> None:
        self._jobs = jobs
        self._reporter = reporter
        self._since: tuple[float, datetime] | None = None
        """When it was seen first, on the monotonic clock and for people."""
        self._closed = threading.Event()

    def __enter__(self) -> "ExecutorWatch":
        threading.Thread(target=self._poll_until_closed, name="executor-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        # However short: Spark ends a run whose executors end as they start, again and again.
        if self._since is not None:
            self._reporter.mark_without_executors(self._since[1])

    def poll(self, now: float) -> None:
        """Ask once, at `now` on the monotonic clock."""
        try:
            lack = self._jobs.lack_executors()
        except IcdcError:
            # Of a JVM that has ended, every table hears by itself.
            return
        if not lack:
            self._since = None
        elif self._since is None:
            self._since = (now, get_utc_now())
        if self._since is None:
            self._reporter.mark_without_executors(None)
        elif now - self._since[0] >= USUAL_SECONDS:
            self._reporter.mark_without_executors(self._since[1])

    def _poll_until_closed(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            with outlive_errors("the watch of executors"):
                self.poll(time.monotonic())
