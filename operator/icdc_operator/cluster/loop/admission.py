"""Decide which pipeline may start the next run, where the number of active runs is limited.

Learns from every reconcile what runs and what waits; does no I/O and writes nothing. A pipeline
holds a slot while a run of it is planned or may still write. All memory is a hint: after a restart
no run starts until every pipeline was reconciled once, and since when a pipeline waits is in its
status.

    waits --called: a slot is reserved--> reconciled --granted--> its run is planned, and seen
      ^        |                                                             |
      +-missed-+ not reconciled in time              its run has ended: the slot is free

Order: the namespace with the fewest slots first, then the pipeline that has waited longest. A
pipeline at the limit of its own namespace or target delays nobody else.

    total 3, per namespace 2     team-a runs 2 (a1, a2), team-b runs 0, one slot is free
    waiting since 09:00  a3      skipped: team-a is at its limit
    waiting since 09:05  b1      called: team-b has the fewest slots
    waiting since 09:06  b2      position 1 of --max-active-runs
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from icdc_api.status.runs import RunKind
from icdc_operator.cluster.loop import slots
from icdc_operator.cluster.loop.slots import Limits, LimitScope, Slot, Slots, SlotState
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.core import run_log
from icdc_operator.core.observed import Decision, Observed, Queued, StopRun

COUNT_SECONDS = 60.0
"""Time after the first list to reconcile every pipeline once; slower ones are not waited for."""

CALL_SECONDS = 30.0
"""How long a slot stays reserved for a pipeline that was called and is not reconciled."""

POSITION_SECONDS = 60.0
"""Between two writes of the queue position of one pipeline."""

SOON_SECONDS = 2.0
"""Until a position is asked for again that is unknown while active runs are still counted."""

POSITIONS_A_MINUTE = 100
"""Positions that are updated in a minute. In a longer queue each is updated less often, or
reconciles would do nothing else."""

EVERY_ELDEST = 10
"""Every n-th slot goes to the pipeline that has waited longest, whatever its namespace holds: runs
that never end must not make others of their namespace wait for ever."""

UNLIMITED_KINDS = frozenset(kind for kind in RunKind if not kind.needs_executors)
"""Runs that never wait, though they hold a slot: a deletion must not queue behind exports, and a
question that reads no rows is answered by a driver alone."""


@dataclass
class _Waiting:
    """A pipeline whose run is due."""

    home: LimitScope
    """What its run will count for."""
    since: datetime
    """When its run was due, from its status."""
    missed: bool = False
    """It did not reconcile when it was called, and is not called again before it does. Such as a
    pipeline whose reconciles fail: its free slot must go to the next one, not back to it."""


class Admission:
    """The waiting pipelines and the slots of one operator. `clock` gives monotonic seconds.

    `wake` requests a reconcile; `waited` is called with the seconds that a planned run waited.
    """

    def __init__(
        self,
        limits: Limits,
        wake: Callable[[PipelineKey], None],
        clock: Callable[[], float],
        *,
        waited: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._slots = Slots(limits)
        self._line: dict[PipelineKey, _Waiting] = {}
        self._wake = wake
        self._clock = clock
        self._waited = waited
        self._turns = 0
        # Counting at the start: which pipelines were reconciled (`_tried`, also before the first
        # list), which of that list were not yet, and until when they are waited for.
        self._counted = not limits
        self._tried: set[PipelineKey] = set()
        self._untried: set[PipelineKey] | None = None
        self._count_until = 0.0

    @property
    def active(self) -> int:
        """Return how many pipelines have a run that is planned or running."""
        return sum(slot.state is not SlotState.CALLED for slot in self._slots.held.values())

    @property
    def waiting(self) -> int:
        """Return how many pipelines have a run that is due and not planned yet."""
        return len(self._line)

    def find_longest_wait(self, now: datetime) -> float:
        """Return for how many seconds the eldest that waits has waited; 0 where none does."""
        return max(((now - one.since).total_seconds() for one in self._line.values()), default=0.0)

    def note_listed(self, keys: Iterable[PipelineKey]) -> None:
        """Take in a list of all pipelines. The first one says whose runs must be counted."""
        if not self._counted and self._untried is None:
            self._untried = set(keys) - self._tried
            self._count_until = self._clock() + COUNT_SECONDS

    def note_reconciled(self, key: PipelineKey) -> None:
        """Take in that a reconcile has ended, well or not."""
        if self._counted:
            return
        self._tried.add(key)
        if self._untried is not None:
            self._untried.discard(key)
        self._call()

    def admit(
        self, key: PipelineKey, observed: Observed, decision: Decision, now: datetime
    ) -> Queued | None:
        """Return None if the decision stands, or the queue position if its run must wait.

        Called once in each reconcile, before anything is written.
        """
        home = slots.build_limit_scope(key, observed.spec)
        planned = run_log.find_new_run(observed.status, decision.status)
        if planned is not None:
            # Due before its nextAttemptTime where a person asked for it: then it waits since now.
            due = observed.status.next_attempt_time or now
            return self._ask(key, home, planned.kind, due=min(due, now), now=now)
        if decision.status.current_run is not None or any(run.live for run in observed.runs):
            self._note_working(key, home)
            stops = any(isinstance(action, StopRun) for action in decision.actions)
            self._slots.held[key].gives_way = stops
        else:
            self.forget(key)
        return None

    def is_waited_for(self, key: PipelineKey) -> bool:
        """Return whether a pipeline waits that could start a run if `key` had none.

        Of two that wait, two give way: a slot that is free soon is one for one of them.
        """
        slot = self._slots.held.get(key)
        if slot is None or slot.gives_way:
            return slot is not None
        waiting = (w for other, w in self._line.items() if other not in self._slots.held)
        bounds = (self._slots.find_limit(w.home) for w in waiting if not w.missed)
        # A limit of the operator is everybody's, any other that of a namespace or a target.
        wanted = sum(1 for bound in bounds if bound and bound.of in (None, *slot.home))
        return wanted > sum(held.gives_way for held in self._slots.held.values())

    def note_planned(self, key: PipelineKey) -> None:
        """Take in that the decided status was written, perhaps with the plan of a run."""
        slot = self._slots.held.get(key)
        if slot is not None and slot.state is SlotState.GRANTED:
            slot.state = SlotState.RUNNING
            self._waited(slot.waited)

    def note_refused(self, key: PipelineKey) -> None:
        """Take in that the plan of a run was certainly not written, and give its slot away.

        The pipeline keeps its position: since when it waits is in its status.
        """
        slot = self._slots.held.get(key)
        if slot is not None and slot.state is SlotState.GRANTED:
            self._slots.free(key)
            self._call()

    def forget(self, key: PipelineKey) -> None:
        """Drop a pipeline that is deleted, or that neither runs nor waits."""
        self._line.pop(key, None)
        if self._slots.free(key) is not None:
            self._call()

    def _ask(
        self, key: PipelineKey, home: LimitScope, kind: RunKind, *, due: datetime, now: datetime
    ) -> Queued | None:
        held = self._slots.held.get(key)
        if held is not None and (held.state is SlotState.RUNNING or held.home != home):
            # The run before has ended. Its slot is free for all: keeping it would let a busy
            # pipeline pass those that wait.
            self._slots.free(key)
            held = None
        if held is not None and held.state is SlotState.GRANTED:
            # Granted in an earlier reconcile, whose status could not be written.
            return None
        since = self._line[key].since if key in self._line else due
        if not self._slots.limits or kind in UNLIMITED_KINDS:
            # A slot all the same, perhaps beyond the limit: its run counts for the others.
            self._take(key, home, SlotState.CALLED)
        elif held is None:
            # Even where a slot is free it enters the queue, so that it passes nobody before it.
            self._line[key] = _Waiting(home, since)
            self._call(asking=key)
        slot = self._slots.held.get(key)
        if slot is None:
            return self._find_position(key)
        self._line.pop(key, None)
        slot.state = SlotState.GRANTED
        slot.waited = max(0.0, (now - since).total_seconds())
        return None

    def _note_working(self, key: PipelineKey, home: LimitScope) -> None:
        self._line.pop(key, None)
        slot = self._slots.held.get(key)
        if slot is None:
            self._take(key, home, SlotState.RUNNING)
            return
        self.note_planned(key)
        # Keeps the target that it was counted for: the spec may name another one by now.
        slot.state = SlotState.RUNNING

    def _take(self, key: PipelineKey, home: LimitScope, state: SlotState) -> None:
        self._slots.take(key, Slot(home, state, self._clock()))

    def _call(self, asking: PipelineKey | None = None) -> None:
        """Reserve a slot for each pipeline that has room, and wake it."""
        self._lapse()
        while self._knows_all() and (key := self._choose_next()) is not None:
            self._turns += 1
            self._take(key, self._line[key].home, SlotState.CALLED)
            if key != asking:
                self._wake(key)

    def _knows_all(self) -> bool:
        """Return whether the active runs have been counted since this operator started."""
        if not self._counted and self._untried is not None:
            self._counted = not self._untried or self._clock() >= self._count_until
            if self._counted:
                self._tried, self._untried = set(), None
        return self._counted

    def _lapse(self) -> None:
        """Take back the slots that were reserved for too long."""
        late = self._clock() - CALL_SECONDS
        for key, slot in list(self._slots.held.items()):
            # Only CALLED: the reconcile of a GRANTED slot may have planned the run, so it is taken
            # back only after another reconcile has read the status.
            if slot.state is SlotState.CALLED and slot.taken < late:
                self._slots.free(key)
                self._line[key].missed = True

    def _choose_next(self) -> PipelineKey | None:
        """Return the pipeline to call next; None if nobody has room."""
        if self._slots.full:
            return None
        counts = self._slots.count_by_namespace()
        eldest = (self._turns + 1) % EVERY_ELDEST == 0
        turns = (
            (0 if eldest else counts[key.namespace], waiting.since, key)
            for key, waiting in self._line.items()
            if key not in self._slots.held
            and not waiting.missed
            and self._slots.find_limit(waiting.home) is None
        )
        first = min(turns, default=None)
        return None if first is None else first[2]

    def _find_position(self, key: PipelineKey) -> Queued:
        """Return the position of `key` among those that wait for the same limit.

        It is the order in which they would start if nothing else happened: each start counts for
        its namespace.
        """
        bound = self._slots.find_limit(self._line[key].home)
        # 50 in the queue: each position once a minute. 500: each every 300 s.
        share = POSITION_SECONDS * len(self._line) / POSITIONS_A_MINUTE
        if bound is None or not self._counted:
            return Queued(poll_after=min(POSITION_SECONDS, max(SOON_SECONDS, share)))
        rivals = sorted(
            (waiting.since, other)
            for other, waiting in self._line.items()
            if other not in self._slots.held and self._slots.find_limit(waiting.home) == bound
        )
        counts = self._slots.count_by_namespace()
        turns = []
        for since, other in rivals:
            turns.append((counts[other.namespace], since, other))
            counts[other.namespace] += 1
        turns.sort()
        return Queued(
            poll_after=max(POSITION_SECONDS, share),
            limit=bound.option,
            allowed=bound.allowed,
            position=1 + [turn[2] for turn in turns].index(key),
            waiting=len(turns),
        )
