"""One attempt of a run, and why it failed, as the status and the reports show it.

Pure data: which run comes next is decided by the operator.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from icdc_api.base import ApiModel, Clipped, Count, Flag, Message, ShortText, Timestamp
from icdc_api.errors import FailureClass, Fenced, IcdcError, TableError, WhoActs


class Rival(ApiModel):
    """The run that owns an index which another wanted to write."""

    epoch: Count
    """Its fencing number; a run needs a higher one to take over."""
    run_id: Clipped | None = None
    """Identity of that attempt."""


class Failure(ApiModel):
    """Why a run or a table failed, and who acts next."""

    failure_class: Annotated[FailureClass, Field(alias="class")]
    """Kind of the failure; it fixes the retry policy."""
    reason: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=128)]
    """The exact error as one CamelCase word."""
    message: Message = ""
    """One or two sentences for a person, without row content."""
    retryable: Flag
    """Whether trying again can help."""
    who_acts: WhoActs
    """Who must do something before the failure can go away."""
    rival: Rival | None = None
    """The run that owns the index instead; only with class Fenced, absent where it is not known."""

    @classmethod
    def of(cls, error: IcdcError) -> "Failure":
        """The failure that an error of this project stands for."""
        rival = None
        if isinstance(error, Fenced) and error.epoch is not None:
            rival = Rival(epoch=error.epoch, run_id=error.run_id)
        return cls(
            failure_class=error.failure_class,
            reason=error.reason if isinstance(error, TableError) else type(error).__name__,
            message=error.message,
            retryable=error.retryable,
            who_acts=error.who_acts,
            rival=rival,
        )


class ResyncMode(StrEnum):
    """What a higher resync nonce asks for."""

    EXPORT = "Export"
    VERIFY = "Verify"
    REPAIR = "Repair"


class RunKind(StrEnum):
    """What a run does. A run that exports some tables and follows others is an export."""

    EXPORT = "Export"
    CHANGELOG = "Changelog"
    PLAN = "Plan"
    VERIFY = "Verify"
    REPAIR = "Repair"
    DELETION = "Deletion"

    @property
    def letter(self) -> str:
        """`e`, `c`, `p`, `v`, `r` or `d`, as in the name of the run."""
        return self.value[0].lower()

    @property
    def inspects(self) -> bool:
        """Whether such a run answers a question about index and table, and so follows no table."""
        return self in (RunKind.PLAN, RunKind.VERIFY, RunKind.REPAIR)


class RunState(StrEnum):
    """Where a run stands. The record is written before the run is created."""

    PLANNED = "Planned"
    SUBMITTED = "Submitted"
    RUNNING = "Running"
    STOPPING = "Stopping"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def finished(self) -> bool:
        """Whether nothing more is expected of the run."""
        return self in (RunState.SUCCEEDED, RunState.FAILED)


class RunStatus(ApiModel):
    """One attempt of one run: one Spark application."""

    name: ShortText
    """Name of the application: `<pipeline>-<e|c|p|v|r|d><sequence>-<attempt>`."""
    kind: RunKind
    """Export, Changelog, Plan, Verify, Repair or Deletion."""
    sequence: Count
    """Counts the runs of the pipeline from 1; attempts of one run share it."""
    attempt: Annotated[Count, Field(ge=1)] = 1
    """Counts the attempts of this run from 1."""
    epoch: Count
    """Fencing number: a run with a higher one makes this one stop writing."""
    state: RunState = RunState.PLANNED
    """Where the run stands."""
    run_id: Clipped | None = None
    """Identity of this attempt, for its report and logs."""
    ask: ShortText | None = None
    """Id of the question that the run answers; absent for a run that the spec wants."""
    generation: Count | None = None
    """`metadata.generation` of the spec that the run was given."""
    planned_at: Timestamp | None = None
    """When the run was recorded, before it was created."""
    started_at: Timestamp | None = None
    """When the application was seen running."""
    finished_at: Timestamp | None = None
    """When it ended."""
    failure: Failure | None = None
    """Why it failed; absent unless `state` is Failed."""
