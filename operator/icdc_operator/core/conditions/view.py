"""The input of every condition: the status under construction, and what was observed.

`PipelineView` answers the questions that more than one condition asks. It knows no condition and
no message; those are in `kstatus`, `details` and `deleting`. Pure.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from icdc_api.errors import FailureClass
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_operator.core import export_windows, progress, retry, run_log
from icdc_operator.core.observed import Observed


@dataclass(frozen=True)
class Claim:
    """A condition that has no transition time yet."""

    holds: bool | None
    """Its status: True, False, or None for Unknown."""
    reason: str
    """One CamelCase word for scripts; part of the API."""
    message: str = ""
    """The same for a person; empty where the reason says enough."""


@dataclass(frozen=True)
class PipelineView:
    """One pipeline at one moment, for the conditions."""

    status: PipelineStatus
    """The new status, complete but for its conditions, phase and totals."""
    observed: Observed
    """What was read. `observed.status` is the last durable status, with its conditions."""
    now: datetime
    """Time of the decision."""

    @property
    def spec(self) -> PipelineSpec | None:
        """The spec; None where it is invalid."""
        return self.observed.spec

    @property
    def suspended(self) -> bool:
        """True if a requested suspend is reached."""
        # A run that answers a question, or deletes the indices, may be active all the same.
        run = self.replication_run
        ended = run is None or run.kind is RunKind.DELETION
        return self.spec is not None and self.spec.suspend and ended

    @property
    def ending(self) -> str:
        """How the current run ends that is asked to."""
        seen = self.observed.find_run(self.status.current_run)
        if seen is not None and seen.waits_for_executors:
            return "the run has no executor, and is ended at once; its batch is repeated later"
        if seen is not None and seen.report is None:
            return "the run is ended before it has begun"
        return "the run ends after its current batch, or after two minutes"

    @cached_property
    def replication_run(self) -> RunStatus | None:
        """The current run; None where it only answers a question."""
        run = self.status.current_run
        return None if run is None or run.ask is not None else run

    @cached_property
    def stalled_tables(self) -> list[TableStatus]:
        """The tables that wait for a person."""
        return [table for table in self.status.tables if retry.waits_for_person(table)]

    @cached_property
    def exported(self) -> bool:
        """True if readers of every index see a whole snapshot."""
        tables = self.status.tables
        return bool(tables) and all(progress.is_exported(table) for table in tables)

    @cached_property
    def failure(self) -> Failure | None:
        """Why the pipeline does not advance at present; None when the last run succeeded."""
        status = self.status
        last = status.last_run
        passing = retry.find_passing_failure(status.tables)
        if last is not None and last.kind.inspects:
            return passing  # a failed comparison does not keep tables from being replicated
        failed = last is not None and last.state == RunState.FAILED and not self._recovered
        if status.consecutive_failures > 0 or failed:
            return (None if last is None else last.failure) or passing
        return passing

    @property
    def outlasted(self) -> bool:
        """True if a passing fault has used up `retry.maxAttempts`; also during an attempt."""
        if self.spec is None or self.failure is None:
            return False
        failures = self.status.consecutive_failures
        return retry.outlasts(self.failure, policy=self.spec.retry, failures=failures)

    @property
    def takeovers(self) -> int:
        """Number of runs in a row that a rival has fenced; 0 while that rival may have ended."""
        failure = self.failure
        if failure is None or failure.failure_class != FailureClass.FENCED:
            return 0
        takeovers = retry.count_takeovers(self.status.recent_runs)
        return takeovers if takeovers > retry.QUICK_TAKEOVERS else 0

    @property
    def losses(self) -> int:
        """Number of runs in a row that were lost with their node; 0 while that may be a chance."""
        failure, runs = self.failure, self.status.recent_runs
        if failure is None or not retry.is_lost_for_long(failure, runs):
            return 0
        return retry.count_losses(runs)

    @property
    def blocking_failure(self) -> Failure | None:
        """Why the current run is not created, or does not start or go on; None if not known."""
        seen = self.observed.find_run(self.status.current_run)
        return self.observed.uncreated if seen is None else seen.failure

    @property
    def unheard(self) -> str:
        """A clause where nothing is heard of the driver of a run that has reported: what it said
        last may have changed since. Empty while it is heard."""
        seen = self.observed.find_run(self.status.current_run)
        if seen is None or not seen.live or seen.report is None or seen.failure is None:
            return ""
        if seen.failure.failure_class != FailureClass.NODE_LOST:
            return ""
        return f"as of the last report of the run{self.hindrance}"

    @property
    def queue_position(self) -> str:
        """Position in the queue of pipelines whose run is due; empty where it is not queued."""
        if self.observed.queued is None or self.status.current_run is not None:
            return ""
        before = self.observed.status.find_condition(ConditionType.RUN_ACTIVE)
        # Active runs are counted after each start of the operator. Until then the last position
        # stays: a message that changes twice would be two writes of the status.
        last = before.message if before is not None and before.reason == "Queued" else ""
        return self.observed.queued.text or last or "active runs are being counted first"

    @cached_property
    def export_wait(self) -> str:
        """A clause about what exports wait for; empty where none does."""
        return export_windows.describe_wait(self.status, self.spec, now=self.now)

    @cached_property
    def hindrance(self) -> str:
        """A suffix for messages about work that does not go on; empty if nothing hinders it."""
        failure = self.blocking_failure
        text = failure.message if failure else self.queue_position or self.export_wait
        return f": {text}" if text else ""

    @property
    def _recovered(self) -> bool:
        """True if the current run has overcome the failure of the one before; it stays so."""
        run, before = self.status.current_run, self.observed.status
        if run is None:
            return False
        same = before.current_run is not None and before.current_run.epoch == run.epoch
        if same and before.holds(ConditionType.READY):
            return True  # a table that falls behind again must not flip Ready back
        seen = next((seen for seen in self.observed.runs if seen.epoch == run.epoch), None)
        return seen is not None and run_log.has_proved_itself(run, seen, now=self.now)
