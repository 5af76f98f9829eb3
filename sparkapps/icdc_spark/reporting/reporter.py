"""Reports the progress of a run to whoever started it: one report file, replaced whole.

The report is a copy for people and for the operator's status; recovery never reads it. So it is
written at most twice a second however many batches pass, and at every change of a table's state.
A sink, such as the driver's pod on a cluster, is handed each report that is written.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from icdc_api.errors import Bug, IcdcError, TableError
from icdc_api.job.answers import RunAnswer
from icdc_api.job.resources import UsedResource, is_fuller
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.status.pipeline_status import TableReason, TableState, TableStatus
from icdc_api.status.runs import Failure
from icdc_spark.reporting import pod_report

LOG = logging.getLogger(__name__)

MIN_INTERVAL_SECONDS = 0.5
"""The least time between two reports in which no state of a table changes."""

RENEWAL_SECONDS = 120
"""The time between two reports of a run of which nothing changes. By them the operator sees that it
is not frozen; 500 runs send four a second together."""


def get_utc_now() -> datetime:
    """Return the present moment, in UTC."""
    return datetime.now(tz=UTC)


class ReportSink(Protocol):
    """A second receiver of reports, beside the file. Raises nothing."""

    def offer(self, report: RunReport, *, urgent: bool) -> None:
        """Take a report and return at once; `urgent` when the state of a table has changed."""

    def deliver(self, report: RunReport) -> None:
        """Take the last report; return when it has been passed on, or could not be."""


def choose_sink(request: RunRequest) -> ReportSink | None:
    """Return the second receiver of the reports of this run; None where there is none."""
    # A host that is itself a pod, such as a notebook's, does not stand for the run.
    return None if request.end_with_stdin else pod_report.get_own_sink()


class Reporter:
    """The report of one run; its methods may be called from every table's thread."""

    def __init__(
        self,
        request: RunRequest,
        tables: Sequence[TableStatus],
        sink: ReportSink | None = None,
        *,
        takes_questions: bool = False,
    ) -> None:
        now = get_utc_now()
        self._sink = choose_sink(request) if sink is None else sink
        self._path = Path(request.report_path)
        self._lock = threading.Lock()
        self._tables = {table.name: table for table in tables}
        self._open_sessions: set[str] = set()
        self._resources: dict[str, UsedResource] = {}
        self._unwritten = False
        self._report = RunReport(
            run_id=request.run_id,
            started_at=now,
            updated_at=now,
            tables=tuple(tables),
            takes_questions=takes_questions,
            renewal_seconds=RENEWAL_SECONDS,
        )
        # Before any work: whoever waits for the run sees that it has begun.
        self._report.write(self._path)
        self._pass_on(urgent=True)

    def get_table_reporter(self, name: str) -> "TableReporter":
        """Return the part of the report that one table writes."""
        return TableReporter(self, name)

    def get_status(self, name: str) -> TableStatus:
        """Return the entry of a table as it is now."""
        with self._lock:
            return self._tables[name]

    def update(self, name: str, changes: dict[str, Any]) -> None:
        """Change fields of one table's entry, and write the report if it is time.

        After the last report nothing is changed: a table whose catalog does not answer may still be
        running then, and nobody waits for it.
        """
        with self._lock:
            if self._report.finished:
                return
            before = self._tables[name]
            after = before
            if any(getattr(before, field) != value for field, value in changes.items()):
                # Validated as a whole: a report that its reader would refuse is an error here.
                after = TableStatus.model_validate({**vars(before), **changes})
            self._tables[name] = after
            now = get_utc_now()
            age = (now - self._report.updated_at).total_seconds()
            changed = (before.state, before.reason) != (after.state, after.reason)
            self._unwritten = self._unwritten or after != before
            if changed or (self._unwritten and age >= MIN_INTERVAL_SECONDS):
                self._show(urgent=changed, updated_at=now)

    def mark_lingering(self) -> None:
        """Report that the run stays only for later commits."""
        with self._lock:
            if not self._report.finished:
                self._report = self._report.model_copy(update={"lingers": True})
                self._show(urgent=True, updated_at=get_utc_now())

    def mark_without_executors(self, since: datetime | None) -> None:
        """Report since when jobs have waited without any executor; None once one is there."""
        with self._lock:
            if not self._report.finished and since != self._report.without_executors_since:
                self._report = self._report.model_copy(update={"without_executors_since": since})
                self._show(urgent=True, updated_at=get_utc_now())

    def mark_session(self, name: str, *, is_open: bool) -> None:
        """Note whether a table has a session open; the next report that is written says so."""
        with self._lock:
            (self._open_sessions.add if is_open else self._open_sessions.discard)(name)

    def note_resource(self, kind: str, used: int, limit: int) -> None:
        """Note what is used of a limit; the next report that is written has the most of it."""
        with self._lock:
            most = self._resources.get(kind)
            if most is None or is_fuller((used, limit), (most.used, most.limit)):
                self._resources[kind] = UsedResource(kind=kind, used=used, limit=limit)

    def set_result(self, result: RunAnswer | None) -> None:
        """Write the answer so far of a run that goes on; None removes it."""
        with self._lock:
            if self._report.finished:
                return
            self._show(urgent=True, updated_at=get_utc_now(), result=result)

    def finish(self, *, outcome: IcdcError | None, result: RunAnswer | None = None) -> None:
        """Write the last report of the run; a sink may need some seconds for it."""
        with self._lock:
            self._write(
                updated_at=get_utc_now(),
                finished=True,
                outcome=Failure.of(outcome) if outcome else None,
                # Of a continuous run the last answer stays, for whoever has not read it yet.
                result=result if result is not None else self._report.result,
            )
            last = self._report
        # Outside the lock: the threads of tables must not wait for the sink.
        if self._sink is not None:
            self._sink.deliver(last)

    def renew(self) -> None:
        """Write the report now, whatever the interval, though nothing may have changed."""
        with self._lock:
            # The last one has been handed over, and is waited for.
            if not self._report.finished:
                self._show(urgent=False, updated_at=get_utc_now())

    def _show(self, *, urgent: bool, **changes: Any) -> None:
        """Write the report and pass it on; the file is written later where the disk is full."""
        try:
            self._write(**changes)
        except OSError as error:
            # Raised in the thread that happened to report, it would end that one's work.
            LOG.warning("the report is written with the next change: %s", error)
            self._unwritten = True
        self._pass_on(urgent=urgent)

    def _pass_on(self, *, urgent: bool) -> None:
        if self._sink is not None:
            self._sink.offer(self._report, urgent=urgent)

    def _write(self, **changes: Any) -> None:
        tables = tuple(self._tables.values())
        sessions = tuple(name for name in self._tables if name in self._open_sessions)
        resources = tuple(self._resources.values()) or None
        shown = {**changes, "tables": tables, "open_sessions": sessions, "resources": resources}
        self._report = self._report.model_copy(update=shown)
        self._report.write(self._path)
        self._unwritten = False


class TableReporter:
    """Writes the entry of one table."""

    def __init__(self, reporter: Reporter, name: str) -> None:
        self._reporter = reporter
        self._name = name

    @property
    def status(self) -> TableStatus:
        """Return the entry as it was written last."""
        return self._reporter.get_status(self._name)

    def set(self, **changes: Any) -> None:
        """Change fields of the table's entry, by their Python names."""
        self._reporter.update(self._name, changes)

    def note_resources(self, most: Mapping[str, Sequence[int]]) -> None:
        """Note by kind (`ResourceKind`) what is used of a limit, and the limit."""
        for kind, (used, limit) in most.items():
            self._reporter.note_resource(kind, used, limit)

    def mark_working(self, state: TableState, message: str | None = None) -> None:
        """Report that the table advances; an earlier failure is over."""
        self.set(state=state, reason=None, message=message)

    def fail(self, error: IcdcError) -> None:
        """Report that the table does not advance: stalled if a person must act, else waiting."""
        reason = TableReason(type(error).__name__)
        # Any other error passes by itself: the table keeps its state and says what it waits for.
        if isinstance(error, TableError | Bug):
            self.set(state=TableState.STALLED, reason=reason, message=error.message)
        else:
            self.set(reason=reason, message=error.message)
