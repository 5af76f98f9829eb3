"""What the reconcile core looks at and what it answers: plain values, no behaviour worth a test.

An adapter (a cluster, or one host) fills `Observed` from fresh reads and carries out the actions
of a `Decision` after the decision's status is durable. These values know neither adapter.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from icdc_api.job import Reexport, RunReport
from icdc_api.runs import Failure, RunStatus
from icdc_api.spec import PipelineSpec
from icdc_api.status import PipelineStatus
from icdc_api.triggers import Ask


class RunPhase(StrEnum):
    """What an adapter sees of a run. The last three are ends, but see `RunSeen.writer_alive`."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    GONE = "Gone"

    @property
    def ended(self) -> bool:
        """Whether the adapter expects nothing more of the run."""
        return self in (RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.GONE)


@dataclass(frozen=True)
class RunSeen:
    """One run as an adapter finds it now."""

    name: str
    epoch: int
    phase: RunPhase
    writer_alive: bool
    """Whether any process of the run may still write, whatever `phase` says."""
    started_at: datetime | None = None
    report: RunReport | None = None
    """The newest report of this very run."""
    failure: Failure | None = None
    """What the adapter has evidence for: what holds up a run that lives, or why one ended without
    an outcome of its own."""
    given_up: bool = False
    """Nobody reaches what may still write, nor waits for it: only its epoch keeps it away."""

    @property
    def live(self) -> bool:
        """Whether the run works or something of it may still write."""
        return self.writer_alive or not self.phase.ended


@dataclass(frozen=True)
class Queued:
    """The place of a pipeline whose run is due but has to wait, because runs are limited."""

    look_after: float
    """Seconds until the place should be looked up again; who is next is told at once."""
    limit: str | None = None
    """The option whose limit is reached; None while runs at work are still being counted."""
    allowed: int = 0
    """What that option allows."""
    position: int = 0
    """From 1, among those that wait for the same limit."""
    waiting: int = 0
    """How many do."""

    @property
    def text(self) -> str | None:
        """For people; None where nothing can be said about the place yet."""
        if self.limit is None:
            return None
        place = f"place {self.position} of {self.waiting} in line"
        return f"{place}: {self.limit} ({self.allowed}) is reached"


@dataclass(frozen=True)
class Observed:
    """One pipeline and all that belongs to it, read at one moment."""

    namespace: str
    name: str
    generation: int
    spec: PipelineSpec | None
    """None when the spec is wrong; then `problem` says why."""
    status: PipelineStatus
    """As it was last made durable."""
    problem: str | None = None
    runs: tuple[RunSeen, ...] = ()
    """Every run of the pipeline that left a trace; one that still writes is never missing."""
    heads: Mapping[str, str | None] | None = None
    """Newest snapshot by table name, None for an empty table; a table that cannot be looked at is
    left out, and only a run can look at it. None as a whole when only a run can look at any."""
    old_heads: Set[str] = frozenset()
    """Tables whose head was the same when the last run began: it could have taken it in."""
    heads_told: bool = False
    """The adapter looks at heads by itself and asks for a decision when they change. None as heads
    then says that it has not looked since the last run."""
    asked_at: datetime | None = None
    """When somebody last asked for a run, such as by `icdc run`; one planned later answers it."""
    ask: Ask | None = None
    """The question that somebody asks by an annotation, be it answered or not."""
    queued: Queued | None = None
    """Set where a run is due and other pipelines go first: then none is planned."""
    operator_version: str | None = None
    """Version of what decides, for `status.operatorVersion`."""
    denied: Failure | None = None
    """What the adapter was not allowed to do, until a person gives it the right."""
    blind: bool = False
    """Runs cannot be looked at, for what `denied` says: none is planned, made, ended or closed."""
    closing: bool = False
    """The adapter is about to end: what runs stops after its batch, and nothing new starts."""
    finalizer: bool | None = None
    """Whether the pipeline carries our finalizer; None where there are no finalizers."""
    deleting_since: datetime | None = None
    """When somebody asked to delete the pipeline."""
    retain_asked: bool = False
    """Whether the annotation is set that lets the pipeline go without its indices."""
    namespace_ends: bool = False
    """Whether the namespace is being deleted too, and so takes no new run."""

    def seen(self, run: RunStatus | None) -> RunSeen | None:
        """That very attempt, as it is found now; None where nothing of it is."""
        if run is None:
            return None
        one = (run.name, run.epoch)
        return next((each for each in self.runs if (each.name, each.epoch) == one), None)


@dataclass(frozen=True)
class CreateRun:
    """Create the run; one of that name that exists is the same run and no error."""

    run: RunStatus
    continuous: bool
    """Whether the spec asks for one long-running application."""
    reexport: Reexport | None = None
    """What re-export its tables owe."""
    tables: tuple[str, ...] | None = None
    """The tables that a comparison is about; None for a run that follows all of them."""


@dataclass(frozen=True)
class StopRun:
    """End the run. Asked again at every decision until the run is gone."""

    name: str
    graceful: bool
    """True: let the current batch finish first. False: end its processes now."""


@dataclass(frozen=True)
class ForgetRun:
    """Remove what an ended run left behind."""

    name: str


@dataclass(frozen=True)
class AddFinalizer:
    """Keep the pipeline, once it is deleted, until its indices are."""


@dataclass(frozen=True)
class RemoveFinalizer:
    """Let the pipeline go."""

    why: str
    """For the log."""


Action = CreateRun | StopRun | ForgetRun | AddFinalizer | RemoveFinalizer


@dataclass(frozen=True)
class Decision:
    """The next step: make `status` durable, then carry out `actions`, then look again."""

    status: PipelineStatus
    actions: tuple[Action, ...] = field(default=())
    requeue_after: float | None = None
    """Seconds until the next look; None when only a change of the resource can matter."""
    settled: bool = False
    """Nothing runs, waits for a retry or was asked for: what is left are tables that are up to
    date, complete or stalled, or a failure of which a person should know."""
