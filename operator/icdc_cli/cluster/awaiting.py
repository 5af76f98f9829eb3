"""`--wait` of `icdc resync` and `restart`: read the status until the request has ended.

Scripts want the result and not only that something was requested. It is read from the status alone,
as a person would, so that it needs no right but to read pipelines, and waiting holds nothing up:
whoever stops it (Ctrl-C, --timeout) leaves the request as it is.

    status                                              end of resync 5
    generation 7 of 8 seen for 60 s, no active run      code 3: no operator
    SpecValid is False                                  code 2: its message
    observedTriggers.resync.nonce is 6                  code 2: another request has replaced it
    Export: every table applied since its first run     code 0: the tables
    Export: a table waits for a person                  code 1: its message
    Verify, Repair: verifiedNonce is 5                  code 0, or 1: what was compared
    its run has failed, and Stalled is True             as `icdc status`
    else                                                none yet
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icdc_api.errors import BadSpec, StartTimeout
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus
from icdc_api.status.runs import ResyncMode, RunState, RunStatus
from icdc_cli import exits, terminal
from icdc_cli.cluster import status as statuses
from icdc_cli.cluster.session import Target
from icdc_cli.exits import Exit
from icdc_operator.cluster.kube import errors
from icdc_operator.core import retry
from icdc_operator.core.asked import verification
from icdc_operator.core.asked.verification import ComparisonResult

POLL_SECONDS = 2.0
"""Between two reads of the pipeline."""

TAKEN_UP_SECONDS = 60.0
"""How long an operator may take to read a changed spec while no run is active."""

MAX_UNANSWERED = 30
"""Reads in a row that the API server may leave unanswered, such as while it is upgraded."""


@dataclass(frozen=True)
class RequestEnd:
    """How a request has ended."""

    code: Exit
    """Exit code of the command."""
    text: str
    """For a person; to standard output with DONE, else to standard error."""


@dataclass(frozen=True)
class AwaitedResync:
    """A resync that was requested."""

    nonce: int
    """`spec.resync.nonce`."""
    mode: ResyncMode
    """`spec.resync.mode`."""
    tables: tuple[str, ...]
    """`spec.resync.tables`; empty for all."""
    before: Mapping[str, str | None]
    """Message of each table when it was requested, by name: a stall of before may be its cause."""

    @property
    def what(self) -> str:
        """Return the name of the request for messages."""
        return f"resync {self.nonce}"

    def find_end(self, status: PipelineStatus) -> RequestEnd | None:
        """Return how it has ended; None if it has not, or was not acted on yet."""
        triggers = status.observed_triggers
        if triggers is None or triggers.resync_nonce < self.nonce:
            return None
        request = triggers.resync
        if request is not None and request.nonce > self.nonce:
            raise BadSpec(f"{self.what} was replaced by resync {request.nonce}")
        if self.mode != ResyncMode.EXPORT and triggers.verified_nonce >= self.nonce:
            return self._describe_comparison(status)
        # Without an id the spec had the nonce before its first run: then any run is one of it.
        epoch = 0 if request is None or request.id is None else request.id
        runs = [run for run in _list_runs(status) if run.epoch >= epoch]
        if self.mode == ResyncMode.EXPORT:
            ending = self._find_end_of_export(status, runs)
            if ending is not None:
                return ending
        return _find_failure(status, runs, self._select_tables(status))

    def _find_end_of_export(
        self, status: PipelineStatus, runs: list[RunStatus]
    ) -> RequestEnd | None:
        tables = self._select_tables(status)
        ended = any(run.state.finished for run in runs)
        for table in tables:
            # A table that waited for a person before shows that until the run has reported.
            news = ended or table.message != self.before.get(table.name)
            if news and retry.waits_for_person(table):
                return RequestEnd(Exit.STALLED, f"{table.name}: {table.reason}: {table.message}")
        if not all(_is_exported(table, runs) for table in tables):
            return None
        names = ", ".join(
            f"{table.name} (snapshot {table.applied_snapshot_id})" for table in tables
        )
        return RequestEnd(Exit.DONE, f"{self.what} has ended: exported {names}")

    def _describe_comparison(self, status: PipelineStatus) -> RequestEnd:
        compared = [
            table
            for table in self._select_tables(status)
            if table.verification is not None and table.verification.nonce == self.nonce
        ]
        results = verification.group_by_result(compared)
        text = "; ".join(map(verification.describe_table, compared)) or "no table was compared"
        code = Exit.DONE if compared else Exit.STALLED
        if results[ComparisonResult.DIFFERENT]:
            code = Exit.STALLED
        elif results[ComparisonResult.NOT_VERIFIED]:
            last = status.last_run
            failure = None if last is None or not last.kind.inspects else last.failure
            code = Exit.STALLED if failure is None else exits.of_failure(failure)
        return RequestEnd(code, f"{self.what} has ended: {text}")

    def _select_tables(self, status: PipelineStatus) -> list[TableStatus]:
        return [table for table in status.tables if not self.tables or table.name in self.tables]


@dataclass(frozen=True)
class AwaitedRestart:
    """A new run that was requested."""

    nonce: int
    """`spec.restartNonce`."""
    generation: int
    """`metadata.generation` of the spec with that nonce."""

    @property
    def what(self) -> str:
        """Return the name of the request for messages."""
        return f"restart {self.nonce}"

    def find_end(self, status: PipelineStatus) -> RequestEnd | None:
        """Return how the new run has ended, or that it follows its tables; None if neither."""
        triggers = status.observed_triggers
        if triggers is None or triggers.restart_nonce < self.nonce:
            return None
        runs = [run for run in _list_runs(status) if (run.generation or 0) >= self.generation]
        for run in runs:
            if run.state == RunState.SUCCEEDED:
                return RequestEnd(Exit.DONE, f"the run {run.name} has succeeded")
            # A continuous run does not end.
            if run.state == RunState.RUNNING and status.holds(ConditionType.CAUGHT_UP):
                return RequestEnd(Exit.DONE, f"the run {run.name} has caught up and goes on")
        return _find_failure(status, runs, status.tables)


async def wait(
    target: Target, request: AwaitedResync | AwaitedRestart, *, generation: int, seconds: int
) -> Exit:
    """Wait until the request of that generation has ended; say how, and return the exit code.

    `seconds` 0: without limit. StartTimeout after that time, and where no operator reads the spec.
    """
    began, shown = time.monotonic(), ""
    while True:
        status = await _read_status(target)
        waited = time.monotonic() - began
        seen = (status.observed_generation or 0) >= generation
        ending = _find_end(status, request.find_end) if seen else None
        if ending is not None:
            (terminal.say if ending.code == Exit.DONE else terminal.complain)(
                f"{target.name}: {ending.text}"
            )
            return ending.code
        if not seen and status.current_run is None and waited >= TAKEN_UP_SECONDS:
            raise StartTimeout(
                f"no operator has read generation {generation} of {target.name} within "
                f"{waited:.0f} s; action required: the platform engineer must check that an "
                f"operator is running and watches the namespace {target.namespace}"
            )
        progress = _describe_progress(status, seen=seen)
        if seconds and waited >= seconds:
            raise StartTimeout(
                f"{request.what} has not ended within {seconds} s and goes on: {progress}"
            )
        if progress != shown:
            terminal.complain(f"{request.what}: {progress}")
            shown = progress
        # The last read falls on the deadline, however the two divide.
        _sleep(min(POLL_SECONDS, max(0.0, seconds - waited)) if seconds else POLL_SECONDS)


async def _read_status(target: Target) -> PipelineStatus:
    for reads_left in reversed(range(MAX_UNANSWERED)):
        try:
            resource = await target.read_pipeline()
        except errors.Unavailable:
            if not reads_left:
                raise
            _sleep(POLL_SECONDS)
        else:
            break
    return statuses.parse_status_of(resource)


def _sleep(seconds: float) -> None:
    """Wait, and with it the whole command: it has nothing else to do, see `thin_client`."""
    time.sleep(seconds)


def _find_end(
    status: PipelineStatus, find_end: Callable[[PipelineStatus], RequestEnd | None]
) -> RequestEnd | None:
    # With a spec that is wrong no run starts, and nothing is going to end.
    valid = status.find_condition(ConditionType.SPEC_VALID)
    if valid is not None and valid.status == ConditionStatus.FALSE:
        return RequestEnd(*statuses.choose_exit(status))
    return find_end(status)


def _list_runs(status: PipelineStatus) -> list[RunStatus]:
    """Return the active run and those that ended last, newest first."""
    current = [] if status.current_run is None else [status.current_run]
    return [*current, *status.recent_runs]


def _is_exported(table: TableStatus, runs: list[RunStatus]) -> bool:
    """Return whether one of `runs`, newest first, has exported the table."""
    if table.state not in (TableState.STREAMING, TableState.COMPLETE):
        return False
    # An empty table has no time at which it was applied; of it the end of a run says enough.
    if any(run.state == RunState.SUCCEEDED for run in runs):
        return True
    # Before the first report, the table is shown as the run before left it.
    planned = runs[-1].planned_at if runs else None
    return planned is not None and table.applied_at is not None and table.applied_at >= planned


def _find_failure(
    status: PipelineStatus, runs: list[RunStatus], tables: Iterable[TableStatus]
) -> RequestEnd | None:
    """Return the end by a failure, of one of `runs` or in it of a table, else None.

    As long as it is retried soon, nothing has ended.
    """
    failed = any(run.state == RunState.FAILED for run in runs)
    failed = failed or (bool(runs) and any(map(retry.is_retried, tables)))
    if not failed or status.current_run is not None or not status.holds(ConditionType.STALLED):
        return None
    return RequestEnd(*exits.of_status(status))


def _describe_progress(status: PipelineStatus, *, seen: bool) -> str:
    """Return what is waited for, as one line that changes only with the state of a run or table."""
    run = status.current_run
    if status.holds(ConditionType.SUSPENDED):
        return "the pipeline is suspended; it begins when it is resumed"
    if not seen and run is not None:
        return f"the run {run.name} is active and must end first"
    if not seen:
        return "no operator has read it yet"
    if run is None:
        return "no run is active"
    exporting = sum(1 for table in status.tables if table.state == TableState.EXPORTING)
    exports = f", {exporting} tables are exporting" if exporting else ""
    return f"the run {run.name} is {run.state.value}{exports}"
