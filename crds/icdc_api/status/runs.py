"""One attempt of a run, and why it failed, as in the status and in reports.

Pure data: the operator decides which run comes next.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from icdc_api.base import ApiModel, Clipped, Count, Flag, Message, ShortText, Timestamp
from icdc_api.errors import FailureClass, Fenced, IcdcError, TableError, WhoActs


class Rival(ApiModel):
    """The run that owns an index which another one tried to write."""

    epoch: Count
    """Its fencing number; a run needs a higher one to take over."""
    run_id: Clipped | None = None
    """Identity of that attempt."""


class Failure(ApiModel):
    """Why a run or a table failed, and who acts next."""

    # `class` is a keyword of Python, so the attribute cannot have the name of the field.
    failure_class: Annotated[FailureClass, Field(alias="class")]
    """Kind of the failure; it fixes the retry policy."""
    reason: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=128)]
    """The exact error as one CamelCase word."""
    message: Message = ""
    """One or two sentences for a person, without row content."""
    retryable: Flag
    """Whether a retry can help."""
    who_acts: WhoActs
    """Who must act before the failure can be resolved."""
    rival: Rival | None = None
    """The run that owns the index instead; only with class Fenced, absent where it is not known."""

    @property
    def may_hide_cause(self) -> bool:
        """Whether a driver that reports it may not know the cause.

        Its Python sees a JVM that ran out of memory as lost, or as one that never started; what
        was seen from outside, and the log, say more then.
        """
        unclear = (FailureClass.BUG, FailureClass.NODE_LOST, FailureClass.SUBMISSION)
        return self.failure_class in unclear

    @classmethod
    def of(cls, error: IcdcError) -> "Failure":
        """Return the failure for `error`, with its class, reason, message and who acts."""
        # The next run needs an epoch above that of its rival, so the record must hold it.
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
    """Fill a new index while the old one serves readers."""
    VERIFY = "Verify"
    """Compare index and table, and change nothing."""
    REPAIR = "Repair"
    """Compare index and table, and correct the documents that differ."""
    ROLLBACK = "Rollback"
    """Switch readers back to the index that they used before."""

    @property
    def compares(self) -> bool:
        """True if an answer is asked for; else a run that replicates does what is asked for."""
        return self in (ResyncMode.VERIFY, ResyncMode.REPAIR)


class RunKind(StrEnum):
    """What a run does. One that exports some tables and replicates others is an export."""

    EXPORT = "Export"
    """Write a whole snapshot to a new index, then replicate."""
    CHANGELOG = "Changelog"
    """Apply the changes since the applied snapshot."""
    PLAN = "Plan"
    """Report what the next run would do."""
    VERIFY = "Verify"
    """Compare index and table."""
    REPAIR = "Repair"
    """Compare, and correct what differs."""
    DEAD_LETTERS = "DeadLetters"
    """List the rows that indices refused."""
    REPLAY = "Replay"
    """Write the refused rows again."""
    DELETION = "Deletion"
    """Delete all that the pipeline has created."""

    @property
    def letter(self) -> str:
        """`e`, `c`, `p`, `v`, `r`, `l` or `d`, as in the name of the run."""
        # Both kinds about dead letters are `l`: `r` and `d` are taken, and the sequence number
        # alone keeps the names of two runs apart.
        about_dead_letters = self in (RunKind.DEAD_LETTERS, RunKind.REPLAY)
        return "l" if about_dead_letters else self.value[0].lower()

    @property
    def inspects(self) -> bool:
        """True if such a run answers a question about index and table, and so replicates none."""
        # By what is not among them: a new kind of run is most likely a question.
        return self not in (RunKind.EXPORT, RunKind.CHANGELOG, RunKind.DELETION)

    @property
    def needs_executors(self) -> bool:
        """True if such a run reads rows; else its driver does the work alone."""
        # These ask the catalog for metadata and OpenSearch for what it has; no data file is opened.
        return self not in (RunKind.PLAN, RunKind.DEAD_LETTERS, RunKind.DELETION)


class RunState(StrEnum):
    """State of a run. The record is written before the run is created."""

    PLANNED = "Planned"
    """Recorded, not created. The operator creates it next."""
    SUBMITTED = "Submitted"
    """Created; its driver has not reported yet."""
    RUNNING = "Running"
    """Its driver runs and reports."""
    STOPPING = "Stopping"
    """Asked to end after its current batch, or being killed."""
    SUCCEEDED = "Succeeded"
    """Ended well, or as it was asked to."""
    FAILED = "Failed"
    """Ended with a failure; see `failure`."""

    @property
    def finished(self) -> bool:
        """True if nothing more is expected of the run."""
        # Not STOPPING: a run that is asked to end, or is being killed, may still write.
        return self in (RunState.SUCCEEDED, RunState.FAILED)


class RunStatus(ApiModel):
    """One attempt of one run: one Spark application."""

    name: ShortText
    """Name of the application: `<pipeline>-<e|c|p|v|r|l|d><sequence>-<attempt>`."""
    kind: RunKind
    """Export, Changelog, Plan, Verify, Repair, DeadLetters, Replay or Deletion."""
    sequence: Count
    """Counts the runs of the pipeline from 1; attempts of one run share it."""
    attempt: Annotated[Count, Field(ge=1)] = 1
    """Counts the attempts of this run from 1."""
    epoch: Count
    """Fencing number: a run with a higher one makes this one stop writing."""
    state: RunState = RunState.PLANNED
    """State of the run."""
    run_id: Clipped | None = None
    """Identity of this attempt, for its report and logs."""
    ask: ShortText | None = None
    """Id of the question that the run answers; absent for a run that the spec asks for."""
    generation: Count | None = None
    """`metadata.generation` of the spec that the run was given; or of a later one, if nothing that
    the run reads has changed."""
    spec_hash: ShortText | None = None
    """Hash of what the run reads of the spec; absent once it has ended."""
    planned_at: Timestamp | None = None
    """When the run was recorded, before it was created."""
    started_at: Timestamp | None = None
    """When the application was seen running."""
    finished_at: Timestamp | None = None
    """When it ended."""
    failure: Failure | None = None
    """Why it failed; absent unless `state` is Failed."""
