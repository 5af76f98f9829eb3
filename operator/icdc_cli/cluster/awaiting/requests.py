"""A request that is waited for, and what one status says of its end.

Pure: neither clock nor cluster, nor the spec but for what was in it when the request was made. A
run that has succeeded is no proof of an export: one that was asked to end has succeeded as well.

    status                                              end of resync 5
    generation 7 of 8 seen for 60 s                     code 3: no operator
    SpecValid is False                                  code 2: its message
    observedTriggers.resync.nonce is 6                  code 2: another request has replaced it
    a table that was asked for is not listed            code 2: it has left the spec
    Export: every table applied since its first run     code 0: the tables
    Rollback: every table rolled back since then,
      or a run of it has succeeded and none follows,
      or it is continuous and has caught up             code 0: the tables
    Rollback: the request has no id                     code 2: no run makes it
    either: a table waits for a person (anew)           code 1: its message
    Verify, Repair: verifiedNonce is 5                  code 0, or 1: what was compared
    its run has failed, and Stalled is True             as `icdc status`
    else                                                none yet
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from icdc_api.base import drop_name
from icdc_api.errors import BadSpec
from icdc_api.spec.pipeline import Retry
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import ResyncMode, RunState, RunStatus
from icdc_cli import exits
from icdc_cli.exits import Exit
from icdc_operator.core import progress, retry
from icdc_operator.core.asked import verification
from icdc_operator.core.asked.verification import ComparisonResult


@dataclass(frozen=True)
class RequestEnd:
    """How a request has ended."""

    code: Exit
    """Exit code of the command."""
    text: str
    """For a person; to standard output with DONE, else to standard error."""


@dataclass
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
    generation: int
    """`metadata.generation` of the spec with that nonce."""
    continuous: bool
    """Whether `spec.changelog.trigger` is Continuous: only then the run does not end."""
    policy: Retry
    """`spec.retry`."""
    rolled_back: set[str] = field(default_factory=set, init=False)
    """The tables that were rolled back, as seen so far: a table shows what its last run did."""
    planned_at: datetime | None = field(default=None, init=False)
    """When its first run was planned, as seen so far: the log of runs forgets it."""

    @property
    def what(self) -> str:
        """Return the name of the request for messages."""
        return f"resync {self.nonce}"

    def is_taken_up(self, status: PipelineStatus) -> bool:
        """Return whether a run was planned for it."""
        triggers = status.observed_triggers
        return triggers is not None and triggers.resync_nonce >= self.nonce

    def find_end(self, status: PipelineStatus, *, settled: bool) -> RequestEnd | None:
        """Return how it has ended; None if it has not, or was not acted on yet.

        `settled`: whether the active run has reported for so long that it has come to each table.
        """
        triggers = status.observed_triggers
        if triggers is None or not self.is_taken_up(status):
            return None
        request = triggers.resync
        if request is not None and request.nonce > self.nonce:
            raise BadSpec(f"{self.what} was replaced by resync {request.nonce}")
        tables = self._select_tables(status)
        absent = sorted({*self.tables} - {table.name for table in tables})
        if not status.tables:
            return RequestEnd(Exit.USAGE, f"{self.what}: status.tables is empty, so no end is seen")
        if absent:
            return RequestEnd(Exit.USAGE, f"{self.what}: the spec has lost {', '.join(absent)}")
        if self.mode.compares and triggers.verified_nonce >= self.nonce:
            return self._describe_comparison(status)
        if self.mode is ResyncMode.ROLLBACK and (request is None or request.id is None):
            return RequestEnd(
                Exit.USAGE,
                f"{self.what}: no run makes it, as nobody knows whether it was made before: the "
                "operator found its nonce in a pipeline that was new to it. Ask again",
            )
        # Without an id the spec had the nonce before its first run: then any run is one of it.
        epoch = 0 if request is None or request.id is None else request.id
        runs = [run for run in _list_runs(status) if run.epoch >= epoch]
        if not self.mode.compares:
            # Proofs and questions in between export nothing, however they end.
            runs = [run for run in runs if not run.kind.inspects]
            ending = self._find_end_of_change(status, runs, tables, settled=settled)
            if ending is not None:
                return ending
        return _find_failure(status, runs, tables, self.policy)

    def _find_end_of_change(
        self,
        status: PipelineStatus,
        runs: list[RunStatus],
        tables: list[TableStatus],
        *,
        settled: bool,
    ) -> RequestEnd | None:
        # While another one follows, the run before may have ended because it was asked to; not two.
        rests = status.current_run is None and not status.holds(ConditionType.SUSPENDED)
        states = [run.state for run in runs if run.state.finished]
        ended = (rests and bool(states)) or states.count(RunState.SUCCEEDED) > 1
        is_rollback = self.mode is ResyncMode.ROLLBACK
        settles = self.continuous and settled and _wait_for_persons(status)
        for table in tables:
            # A table that waited for a person before shows that until the run has come to it.
            again = settles and not (is_rollback and table.reason != TableReason.ROLLBACK_REFUSED)
            news = ended or again or table.message != self.before.get(table.name)
            if news and retry.waits_for_person(table):
                message = drop_name(table.name, table.message or "see the log of the run")
                return RequestEnd(Exit.STALLED, f"{table.name}: {table.reason}: {message}")
        times = (self.planned_at, *(run.planned_at for run in runs))
        self.planned_at = min((time for time in times if time is not None), default=None)
        if is_rollback:
            ended = rests and RunState.SUCCEEDED in states
            # The first step of each table is the rollback, if it has one.
            follows = self.continuous and _has_caught_up(status, self.generation)
            return self._find_end_of_rollback(tables, ended=ended or follows or settles)
        if not all(_is_exported(table, runs, self.planned_at) for table in tables):
            return None
        shown = [f"{table.name} (snapshot {table.applied_snapshot_id})" for table in tables]
        return RequestEnd(Exit.DONE, f"{self.what} has ended: exported {', '.join(shown)}")

    def _find_end_of_rollback(self, tables: list[TableStatus], *, ended: bool) -> RequestEnd | None:
        planned = self.planned_at
        self.rolled_back |= {
            table.name
            for table in tables
            if planned and table.rolled_back_at is not None and table.rolled_back_at >= planned
        }
        back = [table.name for table in tables if table.name in self.rolled_back]
        # A table without an earlier index stays as it is: of it, only the end of a run says so.
        if len(back) < len(tables) and not ended:
            return None
        names = ", ".join(back) or "no table, as none has an earlier index to go on from"
        return RequestEnd(Exit.DONE, f"{self.what} has ended: rolled back {names}")

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
        elif unverified := results[ComparisonResult.NOT_VERIFIED]:
            last = status.last_run
            if last is not None and last.kind.inspects and last.failure is not None:
                code = exits.choose_for_failure(last.failure)
            else:
                answers = [table.verification for table in unverified]
                passes = all(exits.may_pass(one.reason if one else None) for one in answers)
                code = Exit.OUTLASTED if passes else Exit.STALLED
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
    continuous: bool
    """Whether `spec.changelog.trigger` is Continuous: only then the run does not end."""
    policy: Retry
    """`spec.retry`."""

    @property
    def what(self) -> str:
        """Return the name of the request for messages."""
        return f"restart {self.nonce}"

    def is_taken_up(self, status: PipelineStatus) -> bool:
        """Return whether the new run was planned."""
        triggers = status.observed_triggers
        return triggers is not None and triggers.restart_nonce >= self.nonce

    def find_end(self, status: PipelineStatus, *, settled: bool) -> RequestEnd | None:
        """Return how the new run has ended, or that it follows its tables; None if neither.

        `settled`: as for a resync.
        """
        if not self.is_taken_up(status):
            return None
        runs = [run for run in _list_runs(status) if (run.generation or 0) >= self.generation]
        runs = [run for run in runs if not run.kind.inspects]
        for run in runs:
            if run.state == RunState.SUCCEEDED:
                return _end_with_status(status, f"the run {run.name} has succeeded")
            if not self.continuous or run.state != RunState.RUNNING:
                continue
            if _has_caught_up(status, self.generation):
                return _end_with_status(status, f"the run {run.name} has caught up and goes on")
            if settled and _wait_for_persons(status):
                return _end_with_status(status, f"the run {run.name} goes on")
        # None was asked for by name: one that waits for a person may have done so before.
        return _find_failure(status, runs, (), self.policy)


def _end_with_status(status: PipelineStatus, text: str) -> RequestEnd:
    """Return the end of a run that went well; a table may wait for a person all the same."""
    code, problem = exits.choose_for_status(status)
    return RequestEnd(code, f"{text}; {problem}" if problem else text)


def _has_caught_up(status: PipelineStatus, generation: int) -> bool:
    """Return whether a continuous run of the spec of that generation has caught up."""
    spec = status.find_condition(ConditionType.RECONCILING)
    # Until a run of it has reported every table, CaughtUp is what the run before has left.
    if spec is None or spec.reason != "UpToDate":
        return False
    of_this = (spec.observed_generation or 0) >= generation
    return of_this and status.holds(ConditionType.CAUGHT_UP)


def _wait_for_persons(status: PipelineStatus) -> bool:
    """Return whether tables wait for a person, and all others have caught up."""
    rest = [table for table in status.tables if not retry.waits_for_person(table)]
    return len(rest) < len(status.tables) and all(map(progress.is_caught_up, rest))


def _list_runs(status: PipelineStatus) -> list[RunStatus]:
    """Return the active run and those that ended last, newest first."""
    current = [] if status.current_run is None else [status.current_run]
    return [*current, *status.recent_runs]


def _is_exported(table: TableStatus, runs: list[RunStatus], planned: datetime | None) -> bool:
    """Return whether one of `runs` has exported the table; the first was planned at `planned`."""
    if table.state not in (TableState.STREAMING, TableState.COMPLETE):
        return False
    # An empty table has nothing that was applied at some time; of it the end of a run says enough.
    # Of others it says nothing: a run that was asked to end has succeeded, too.
    if table.applied_snapshot_id is None and any(run.state == RunState.SUCCEEDED for run in runs):
        return True
    # Before the first report, the table is shown as the run before left it.
    return planned is not None and table.applied_at is not None and table.applied_at >= planned


def _find_failure(
    status: PipelineStatus, runs: list[RunStatus], tables: Sequence[TableStatus], policy: Retry
) -> RequestEnd | None:
    """Return the end by a failure, of one of `runs` or in it of a table, else None.

    As long as it is retried soon, nothing has ended. `tables`: those that were asked for.
    """
    failed = any(run.state == RunState.FAILED for run in runs)
    failed = failed or (bool(runs) and any(map(retry.is_retried, tables or status.tables)))
    stalled = status.find_condition(ConditionType.STALLED)
    if not failed or status.current_run is not None:
        return None
    if stalled is None or stalled.status != ConditionStatus.TRUE:
        return None
    if stalled.reason != "TableStalled" or any(map(retry.waits_for_person, tables)):
        return RequestEnd(*exits.choose_for_status(status))
    # The condition is about another table, and hides whether the failure is retried soon.
    failure = runs[0].failure or retry.find_passing_failure(tables or status.tables)
    if failure is None:
        return None
    log, count = status.recent_runs, status.consecutive_failures - 1  # without the last one
    verdict = retry.judge(failure, policy=policy, failures=count, newest_first=log, key="")
    return (
        RequestEnd(exits.choose_for_failure(failure), failure.message) if verdict.stalls else None
    )
