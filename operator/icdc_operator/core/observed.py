"""The input and the output of the reconcile core: plain values without behaviour.

An adapter (a cluster, or one host) fills `Observed` from fresh reads and carries out the actions
of a `Decision` after the decision's status is durable. These values know neither adapter.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from icdc_api.job.run_files import Reexport, RunQuestion, RunReport
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure, RunStatus
from icdc_api.status.triggers import Ask


class RunPhase(StrEnum):
    """State of a run as an adapter reads it."""

    PENDING = "Pending"
    """Created, but no process of it has started."""
    RUNNING = "Running"
    """Its driver runs."""
    SUCCEEDED = "Succeeded"
    """Ended well; but see `RunSeen.writer_alive`."""
    FAILED = "Failed"
    """Ended with a failure; but see `RunSeen.writer_alive`."""
    MISSING = "Missing"
    """Nothing of its application exists; but see `RunSeen.writer_alive`."""

    @property
    def ended(self) -> bool:
        """True if the adapter expects nothing more of the run."""
        # Missing too: the next run finds out what it has done.
        return self in (RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.MISSING)


@dataclass(frozen=True)
class RunSeen:
    """One attempt of a run as an adapter reads it now."""

    name: str
    """Name of the application; not unique, since a name may return after a lost status."""
    epoch: int
    """Fencing number; with the name it identifies the attempt."""
    phase: RunPhase
    """State of the application."""
    writer_alive: bool
    """Whether any process of the run may still write, whatever `phase` says."""
    started_at: datetime | None = None
    """When the driver started; None where that is not known."""
    report: RunReport | None = None
    """The newest report of this very run."""
    failure: Failure | None = None
    """Evidence of the adapter: what blocks a live run, or why one ended without an outcome of
    its own."""
    given_up: bool = False
    """True if what may still write cannot be reached, or is frozen: only its epoch keeps it from
    writing, and nothing waits for it."""
    deaf: bool = False
    """True if the adapter was not able to hand it a question."""
    holds: bool = False
    """True if it has ended, and its pod takes disks or memory from others as long as it exists."""
    report_bytes: int | None = None
    """Bytes of the text that the report was read from; None where it is a file, or not alive."""
    report_age: float | None = None
    """Seconds for which the adapter has read no newer report, by its own clock; None where that
    says nothing of the driver."""

    @property
    def takes_questions(self) -> bool:
        """True if the run can be asked something while it goes on."""
        # Only a report says so: the image of a pipeline may be older than questions.
        return self.report is not None and self.report.takes_questions and not self.deaf

    @property
    def waits_for_executors(self) -> bool:
        """True if its jobs wait, by its report, and no executor is there."""
        return self.report is not None and self.report.without_executors_since is not None

    @property
    def live(self) -> bool:
        """True if the run is active or something of it may still write."""
        # Either is enough: a SparkApplication may fail beside a live driver, or wait for its first
        # one.
        return self.writer_alive or not self.phase.ended


@dataclass(frozen=True)
class Queued:
    """The queue position of a pipeline whose run is due but has to wait for a limit of runs."""

    poll_after: float
    """Seconds until the position is read again; a pipeline that becomes next is woken at once."""
    limit: str | None = None
    """The option whose limit is reached; None while active runs are still being counted."""
    allowed: int = 0
    """Value of that option."""
    position: int = 0
    """Position, from 1, among the pipelines that wait for the same limit."""
    waiting: int = 0
    """Number of those pipelines."""

    @property
    def text(self) -> str | None:
        """The position for people; None where it is not known yet."""
        if self.limit is None:
            return None
        position = f"queue position {self.position} of {self.waiting}"
        return f"{position}: the limit {self.limit} ({self.allowed}) is reached"


@dataclass(frozen=True)
class Observed:
    """One pipeline and all that belongs to it, read at one moment."""

    namespace: str
    """Namespace of the pipeline."""
    name: str
    """Name of the pipeline."""
    generation: int
    """`metadata.generation` of the spec."""
    spec: PipelineSpec | None
    """None where the spec is invalid; then `problem` says why."""
    status: PipelineStatus
    """The last durable status."""
    spec_hash: str | None = None
    """Hash of what runs read of the spec; None where a run never outlasts a change of the spec."""
    problem: str | None = None
    """What is wrong with the spec: each field, its value, what is allowed."""
    runs: tuple[RunSeen, ...] = ()
    """Every run of the pipeline that left a trace; one that still writes is never missing."""
    heads: Mapping[str, str | None] | None = None
    """Current snapshot by table name, None for an empty table. A table whose catalog cannot be
    read is left out: runs poll it. None as a whole when only runs can read any table."""
    old_heads: Set[str] = frozenset()
    """Tables whose head was the same when the last run began, so that it could have applied it."""
    heads_watched: bool = False
    """Whether the adapter reads heads by itself and reconciles when one changes. `heads` None then
    means that it has not read them since the last run."""
    asked_at: datetime | None = None
    """When somebody last asked for a run, such as by `icdc run`; a run planned later answers it."""
    ask: Ask | None = None
    """The question in the pipeline's annotation, answered or not."""
    queued: Queued | None = None
    """Set where a run is due but other pipelines come first: then none is planned."""
    others_wait: bool = False
    """Whether another pipeline waits for the place among the active runs that this one's has."""
    status_room: int | None = None
    """Bytes that the status may have as JSON; None where nothing limits it, as in a file."""
    operator_version: str | None = None
    """Version of the operator or command line, for `status.operatorVersion`."""
    denied: Failure | None = None
    """The operation that the adapter has no permission for; None once a person has granted it."""
    uncreated: Failure | None = None
    """Why the planned run could not be created when that was last tried; it is tried again."""
    blind: bool = False
    """True if runs cannot be read, because of `denied`: none is planned, created, stopped or
    closed."""
    closing: bool = False
    """True if the adapter is about to end: live runs stop after their batch, none starts."""
    next_attempt: str = "raise spec.restartNonce"
    """What a person does for an attempt that nothing starts by itself."""
    gives_up: bool = False
    """True if the adapter ends where a person should know of a failure: nothing retries it then."""
    finalizer: bool | None = None
    """Whether the pipeline carries our finalizer; None where there are no finalizers."""
    deleting_since: datetime | None = None
    """When somebody asked to delete the pipeline."""
    retain_asked: bool = False
    """Whether the annotation is set that removes the pipeline without deleting its indices."""
    namespace_ends: bool = False
    """Whether the namespace is being deleted too, and so accepts no new run."""

    def find_run(self, run: RunStatus | None) -> RunSeen | None:
        """Return this attempt of `run` as it was read; None where nothing of it exists."""
        if run is None:
            return None
        # By both: a name returns after a lost status, and every attempt has an epoch of its own.
        attempt = (run.name, run.epoch)
        return next((seen for seen in self.runs if (seen.name, seen.epoch) == attempt), None)


@dataclass(frozen=True)
class CreateRun:
    """Create the run. An existing run of that name is the same run and no error."""

    run: RunStatus
    """The record: name, epoch and kind."""
    continuous: bool
    """Whether the application keeps running and polls its tables."""
    linger_seconds: int | None = None
    """Seconds that it waits for the next commit once its tables are caught up; None: it ends."""
    reexport: Reexport | None = None
    """The re-export that its tables owe."""
    tables: tuple[str, ...] | None = None
    """Tables to compare; None for a run that replicates all of them."""
    max_cpu: float | None = None
    """CPU limit of its executor; None for what `spec.spark` gives."""
    ask: Ask | None = None
    """The question that the run answers, with its details; None where the spec wants the run."""
    short: bool = False
    """Whether it is expected to end within a minute, so that its JVMs need not optimise code."""


@dataclass(frozen=True)
class AskRun:
    """Ask a live run something, in place of what it was asked before. Repeated until the answer
    is in its report."""

    run: RunStatus
    """The record of the run."""
    question: RunQuestion | None = None
    """The question; None withdraws the one before."""


@dataclass(frozen=True)
class StopRun:
    """End the run. Repeated by every decision until the run has ended."""

    name: str
    """Name of the run."""
    graceful: bool
    """True: let the current batch finish first. False: end its processes now."""


@dataclass(frozen=True)
class ForgetRun:
    """Remove the remains of an ended run."""

    name: str
    """Name of the run."""
    pods_only: bool = False
    """True: its pods alone, with what they hold; all else stays as a record."""


@dataclass(frozen=True)
class AddFinalizer:
    """Keep the pipeline, once somebody deletes it, until its indices are deleted."""


@dataclass(frozen=True)
class RemoveFinalizer:
    """Let Kubernetes remove the pipeline."""

    why: str
    """The reason, for the log."""


Action = CreateRun | AskRun | StopRun | ForgetRun | AddFinalizer | RemoveFinalizer


@dataclass(frozen=True)
class Decision:
    """The next step: make `status` durable, carry out `actions`, then observe again."""

    status: PipelineStatus
    """The new status, with conditions and totals."""
    actions: tuple[Action, ...] = field(default=())
    """What to do, in this order."""
    requeue_after: float | None = None
    """Seconds until the next reconcile; None if only a change of the resource can matter."""
    settled: bool = False
    """True if nothing runs, waits for a retry or was asked for: tables are up to date, complete
    or stalled, or a failure waits that a person should know of. `icdc run --once` ends here."""
