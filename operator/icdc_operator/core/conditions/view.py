"""What a condition looks at: the status under construction, and what was observed. Pure.

It answers questions about a pipeline that more than one condition asks; the conditions and their
words are in `claims`.
"""

from dataclasses import dataclass
from datetime import datetime

from icdc_api.conditions import ConditionType
from icdc_api.errors import FailureClass
from icdc_api.runs import Failure, RunState, RunStatus
from icdc_api.spec import PipelineSpec
from icdc_api.status import PipelineStatus, TableStatus
from icdc_operator.core import progress, retry, run_log
from icdc_operator.core.observed import Observed


@dataclass(frozen=True)
class Claim:
    """A condition before it has a time: the answer to one question about the pipeline."""

    holds: bool | None
    reason: str
    message: str = ""


@dataclass(frozen=True)
class PipelineView:
    """The status under construction with what the conditions ask of it."""

    status: PipelineStatus
    observed: Observed
    now: datetime

    @property
    def spec(self) -> PipelineSpec | None:
        return self.observed.spec

    @property
    def suspended(self) -> bool:
        """Whether a requested suspend is reached."""
        return self.spec is not None and self.spec.suspend and self.following_run is None

    @property
    def following_run(self) -> RunStatus | None:
        """The run at work, unless it only answers a question."""
        run = self.status.current_run
        return None if run is None or run.ask is not None else run

    @property
    def stalled_tables(self) -> list[TableStatus]:
        return [table for table in self.status.tables if retry.waits_for_person(table)]

    @property
    def exported(self) -> bool:
        tables = self.status.tables
        return bool(tables) and all(progress.is_exported(table) for table in tables)

    @property
    def failure(self) -> Failure | None:
        """Why the pipeline does not advance at present; None when the last run went well."""
        status = self.status
        last = status.last_run
        passing = retry.find_passing_failure(status.tables)
        if last is not None and last.kind.inspects:
            return passing  # tables are followed as well as before
        lost = last is not None and last.state == RunState.FAILED and not self._healed
        if status.consecutive_failures > 0 or lost:
            told = None if last is None else last.failure
            return told or passing
        return passing

    @property
    def outlasted(self) -> bool:
        """Whether a passing fault has used up `retry.maxAttempts`; also during an attempt."""
        if self.spec is None or self.failure is None:
            return False
        failures = self.status.consecutive_failures
        return retry.outlasts(self.failure, policy=self.spec.retry, failures=failures)

    @property
    def contested(self) -> int:
        """How many runs in a row another one has fenced; 0 while its rival may have ended."""
        failure = self.failure
        if failure is None or failure.failure_class != FailureClass.FENCED:
            return 0
        takeovers = retry.takeovers_in_a_row(self.status.recent_runs)
        return takeovers if takeovers > retry.QUICK_TAKEOVERS else 0

    @property
    def held_up(self) -> Failure | None:
        """What keeps the run at work from starting, or from going on, as far as is known."""
        seen = self.observed.seen(self.status.current_run)
        return None if seen is None else seen.failure

    @property
    def line(self) -> str:
        """Where the pipeline stands in the line of those whose run is due; empty if in none."""
        if self.observed.queued is None or self.status.current_run is not None:
            return ""
        before = self.observed.status.condition(ConditionType.RUN_ACTIVE)
        known = before.message if before is not None and before.reason == "Queued" else ""
        return self.observed.queued.text or known or "the runs at work are counted first"

    @property
    def hindrance(self) -> str:
        """What to add to a message about work that does not go on; empty if nothing hinders."""
        text = self.line if self.held_up is None else self.held_up.message
        return f": {text}" if text else ""

    @property
    def _healed(self) -> bool:
        """Whether the run at work has got over the failure of the one before; once so, it stays."""
        run, before = self.status.current_run, self.observed.status
        if run is None:
            return False
        same = before.current_run is not None and before.current_run.epoch == run.epoch
        if same and before.holds(ConditionType.READY):
            return True
        seen = next((each for each in self.observed.runs if each.epoch == run.epoch), None)
        return seen is not None and run_log.has_proved_itself(run, seen, now=self.now)
