"""Reports the progress of a run through the driver's own pod.

While it is running: an annotation with the newest report. When it ends: the annotation once more,
and the termination message, which needs no API server. A thread of its own waits for the API
server, and the end of the run, for a while. An API server that cannot be reached fails no run: the
truth about progress is the state document. Knows what a pod gives its processes; the client
library is in `pod_api`.

Example, reports at second 0, 1, 2 and (a table has stalled) 2.2, the last one at 30:

    0     sent at once
    1, 2  replaced by the one of 2.2
    2.2   sent at once: half a second has passed since the last patch
    30    sent at once, and again every second until it has arrived, for at most 20 s
"""

import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport

LOG = logging.getLogger(__name__)

NAME_VARIABLE = "POD_NAME"
NAMESPACE_VARIABLE = "POD_NAMESPACE"
MESSAGE_VARIABLE = "TERMINATION_MESSAGE_PATH"
"""The variable with the container's `terminationMessagePath`, where it is not MESSAGE_PATH."""

MESSAGE_PATH = "/dev/termination-log"
TOKEN_PATH = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

Annotate = Callable[[str, float], str | None]
"""Writes the annotation within some seconds; returns why that failed, None if not."""


@dataclass(frozen=True)
class Intervals:
    """The times between requests to the API server; all in seconds."""

    interval: float = 5.0
    """The least time between two patches."""
    urgent_interval: float = 0.5
    """The same when the state of a table has changed: those of many tables change together."""
    retry: float = 1.0
    """The time between two attempts for the last report."""
    last: float = 20.0
    """The time for which the last report is tried. The pod has 120 s from SIGTERM for all."""
    request: float = 5.0
    """The time that one patch may take."""


class PodSink:
    """Sends reports to a pod. Only the newest counts: one that is not sent in time is replaced."""

    def __init__(
        self,
        annotate: Annotate | None,
        message_path: Path,
        *,
        intervals: Intervals | None = None,
    ) -> None:
        self._annotate = annotate
        self._message_path = message_path
        self._intervals = intervals or Intervals()
        self._changed = threading.Condition()
        self._newest: RunReport | None = None
        self._urgent = False
        self._last: RunReport | None = None
        self._delivered: RunReport | None = None
        self._free_since: float | None = None
        self._complaint: str | None = None
        if annotate is not None:
            arguments = (annotate,)
            threading.Thread(target=self._work, args=arguments, name="pod", daemon=True).start()

    def offer(self, report: RunReport, *, urgent: bool) -> None:
        """Take the newest report; return at once."""
        with self._changed:
            self._newest = report
            self._urgent = self._urgent or urgent
            self._changed.notify_all()

    def deliver(self, report: RunReport) -> None:
        """Take the last report; return when it has arrived, or when that took too long."""
        # First, because it needs no API server, and the pod may be killed while that is waited for.
        self._write_message(report)
        if self._annotate is None:
            return
        with self._changed:
            self._newest = self._last = report
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._delivered is report, self._intervals.last):
                LOG.warning(
                    "the last report is not in the pod's annotation: %s; the operator reads the "
                    "termination message instead",
                    self._complaint,
                )

    def _write_message(self, report: RunReport) -> None:
        try:
            self._message_path.write_text(
                report_text.to_termination_message(report), encoding="utf-8"
            )
        except OSError as error:
            LOG.warning("the termination message cannot be written: %s", error)

    def _work(self, annotate: Annotate) -> None:
        while True:
            report = self._wait_for_report()
            problem: str | None
            try:
                # Without the lock: a patch may take seconds, and `offer` must return at once.
                problem = annotate(report_text.to_annotation(report), self._intervals.request)
            except Exception as error:  # noqa: BLE001 - the root of a thread
                # Without this thread the driver would be taken for frozen. The text of the error
                # may quote the report.
                problem = f"{type(error).__name__}, which is unforeseen"
            self._note(report, problem)

    def _wait_for_report(self) -> RunReport:
        """Wait for the newest report and the time to send it; return the report."""
        with self._changed:
            while self._newest is None or (wait := self._wait(self._newest)) > 0:
                self._changed.wait(None if self._newest is None else wait)
            report, self._newest, self._urgent = self._newest, None, False
            return report

    def _wait(self, report: RunReport) -> float:
        """Return the seconds until `report` may be sent."""
        # The first report: somebody waits for a sign that the run has begun.
        if self._free_since is None:
            return 0.0
        intervals = self._intervals
        if report is self._last:
            # At once; only after a failure it waits, so that a refusing server is not flooded.
            pause = intervals.retry if self._complaint else 0.0
        else:
            pause = intervals.urgent_interval if self._urgent else intervals.interval
        return self._free_since + pause - time.monotonic()

    def _note(self, report: RunReport, problem: str | None) -> None:
        with self._changed:
            # From the end of the patch: a slow server is not asked more often than it can answer.
            self._free_since = time.monotonic()
            if problem is None:
                self._delivered = report
            elif self._newest is None:
                # Still the newest, so it is sent again. Otherwise a newer one replaces it.
                self._newest = report
            # Said once, not at every try: without the right to patch it would fill the log.
            if problem is not None and problem != self._complaint:
                LOG.warning("the report is not in the pod's annotation yet: %s", problem)
            if problem is None and self._complaint is not None:
                LOG.info("the report is in the pod's annotation again")
            self._complaint = problem
            self._changed.notify_all()


@functools.cache
def get_own_sink() -> PodSink | None:
    """Return the one sink of this process; None outside a pod. Two would overtake each other."""
    return build_sink(os.environ)


def build_sink(environment: Mapping[str, str], token: Path = TOKEN_PATH) -> PodSink | None:
    """Return a sink for the pod that `environment` belongs to; None if it belongs to none."""
    name, namespace = (environment.get(key) for key in (NAME_VARIABLE, NAMESPACE_VARIABLE))
    if not name or not namespace:
        return None
    message_path = Path(environment.get(MESSAGE_VARIABLE) or MESSAGE_PATH)
    if not token.is_file():
        LOG.warning(
            "the pod has no token of its service account, so its annotation shows no progress; the "
            "operator reads the termination message when the run has ended"
        )
        return PodSink(None, message_path)
    # Here and not above: a run on a plain host neither has this library nor waits for its import.
    from icdc_spark.reporting.pod_api import OwnPod

    return PodSink(OwnPod(namespace, name).annotate, message_path)
