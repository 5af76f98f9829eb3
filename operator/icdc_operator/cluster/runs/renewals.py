"""Notice drivers that are frozen: they no longer renew their reports.

A driver that hangs as a whole (SIGSTOP, a disk that does not answer, a JVM that only collects
garbage, a deadlock) does not end, and its node says that it runs. It is judged by the operator's
own clock alone:

    what the operator reads                          the age of the report counts from
    a report that has changed                        now
    the same report                                  when it was first read
    the same, after nothing was read for a while     now: it may have changed twice meanwhile
    the same, and the node does not answer           not at all: Kubernetes evicts the pod
    finished, none, of an image that renews none     not at all
    of an image that renews it more seldom           not at all

    age                           what follows
    SHOWN_SECONDS                 the run says so; the alert fires
    FROZEN_SECONDS                the run is ended and retried, as one that was lost with its node.
                                  If it lives on, it is fenced by its epoch
    that of all drivers is high   no run is ended: the API server takes no reports
    FROZEN_SECONDS, and a write   no run is ended, as above: see `excuse`
    of ours gets no answer

What is remembered is a hint: an operator that is restarted counts anew. For one event loop.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from icdc_api.errors import NodeLost
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure, RunStatus
from icdc_operator.cluster.runs import evidence
from icdc_operator.core.observed import RunPhase, RunSeen

SHOWN_SECONDS = 300.0
"""Age from which a report is shown as late: a driver renews it every two minutes."""

FROZEN_SECONDS = 600.0
"""Age from which the driver is taken for frozen. Full garbage collections, a CPU that is throttled,
and requests that are repeated take minutes at most."""

UNREAD_SECONDS = 120.0
"""Between two reads that are further apart the report may have changed, and the operator may not
have been able to read it, just as the driver to write it. A live run is read every 30 s."""

Key = tuple[str, str]
"""Namespace and name of a pipeline."""


@dataclass(frozen=True)
class _KnownReport:
    epoch: int
    """Of the run that it is from."""
    updated_at: datetime
    """Its time, by which another one is known; from another clock."""
    since: datetime
    """When it was first read."""
    read_at: datetime
    """When it was last read."""
    counts_since: datetime
    """Since when it is this driver alone that is late, if it is."""


class ReportRenewals:
    """The newest report of each pipeline's run, and since when it is the newest."""

    def __init__(self) -> None:
        self._known: dict[Key, _KnownReport] = {}

    def forget(self, key: Key) -> None:
        """Drop what is known of a pipeline that has no run."""
        self._known.pop(key, None)

    def excuse(self, key: Key, now: datetime) -> None:
        """Count no time up to now against a driver: its reports may be what gets no answer."""
        known = self._known.get(key)
        if known is not None:
            self._known[key] = replace(known, counts_since=now)

    def judge_current(
        self, key: Key, current: RunStatus | None, runs: Iterable[RunSeen], now: datetime
    ) -> tuple[RunSeen, ...]:
        """Return the runs of a pipeline; the current one with the age of its report."""
        if current is None:
            self.forget(key)
            return tuple(runs)
        attempt = (current.name, current.epoch)
        return tuple(
            self._judge(key, run, now) if (run.name, run.epoch) == attempt else run for run in runs
        )

    def _judge(self, key: Key, run: RunSeen, now: datetime) -> RunSeen:
        report = run.report
        if report is None or run.phase != RunPhase.RUNNING or run.failure or not _renews(report):
            self.forget(key)
            return run
        known = self._known.get(key)
        if known is None or (known.epoch, known.updated_at) != (run.epoch, report.updated_at):
            known = _KnownReport(run.epoch, report.updated_at, now, now, now)
        elif not timedelta(0) <= now - known.read_at <= timedelta(seconds=UNREAD_SECONDS):
            known = replace(known, since=now, counts_since=now)
        if self._is_everybody_late(key, now):
            known = replace(known, counts_since=now)
        self._known[key] = replace(known, read_at=now)
        age = (now - known.since).total_seconds()
        if age < SHOWN_SECONDS:
            return replace(run, report_age=age)
        frozen = now - known.counts_since >= timedelta(seconds=FROZEN_SECONDS)
        return replace(run, report_age=age, failure=_explain(run, known.since), given_up=frozen)

    def _is_everybody_late(self, key: Key, now: datetime) -> bool:
        """Return whether there are other drivers, and no report of any of them has changed."""
        others = list(self._iterate_others(key, now))
        limit = now - timedelta(seconds=SHOWN_SECONDS)
        return bool(others) and all(other.since <= limit for other in others)

    def _iterate_others(self, key: Key, now: datetime) -> Iterator[_KnownReport]:
        limit = now - timedelta(seconds=UNREAD_SECONDS)
        for other, known in self._known.items():
            if other != key and known.read_at >= limit:
                yield known


def _renews(report: RunReport) -> bool:
    """Return whether a driver writes this report anew often enough to be judged by its age."""
    # An image of another version may do so more seldom; twice, as one renewal may come late.
    interval = report.renewal_seconds
    return not report.finished and interval is not None and 2 * interval <= SHOWN_SECONDS


def _explain(run: RunSeen, since: datetime) -> Failure:
    # The time and not the age, so that the same evidence gives the same message.
    moment = since.isoformat(timespec="seconds").replace("+00:00", "Z")
    text = (
        f"the driver of {run.name} has not renewed its report since {moment}: it is frozen, or "
        "cannot write to the API server. A run that goes on so is ended and retried; if that "
        "happens again, the platform engineer must look at the driver's node, memory and log"
    )
    return evidence.build_failure(NodeLost(text), "DriverNotResponding")
