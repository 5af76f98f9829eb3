"""Whose turn it is to start a run, where the number of active runs is limited.

Learns from every look what runs and what waits; does no I/O and writes nothing. A pipeline holds a
slot while a run of it is planned or may still write. Of those whose limits have room, one of the
namespace with the fewest slots goes first, then who has waited longest; who is held up by the limit
of its own namespace or target stands in nobody's way. What is remembered is a hint: after a restart
nothing starts until every pipeline was looked at once, and since when each waits is in its status.

    waits --called: a slot is kept for it--> looked at --granted--> its run is planned, and seen
      ^        |                                                               |
      +-missed-+ not looked at in time                 its run has ended: the slot is free
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from icdc_api.runs import RunKind
from icdc_operator.cluster.loop import slots
from icdc_operator.cluster.loop.slots import Home, Limits, Slot, Slots, State
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.core import run_log
from icdc_operator.core.observed import Decision, Observed, Queued

COUNT_SECONDS = 60.0
"""From the first list, for a look at each pipeline: those that take longer stop nobody."""

CALL_SECONDS = 30.0
"""For which a slot is kept for a pipeline that was called and is not looked at."""

PLACE_SECONDS = 60.0
"""Between two writes of the place of one pipeline."""

SOON_SECONDS = 2.0
"""Until a place is looked up that is not known while runs are still being counted."""

PLACES_A_MINUTE = 100
"""In a longer line the place of each is looked up less often, or looks would be all there is."""

EVERY_ELDEST = 10
"""Each so many turns is that of who has waited longest, wherever it is: runs that never end must
not make others of their namespace wait for ever."""

UNLIMITED_KINDS = frozenset(kind for kind in RunKind if not kind.needs_executors)
"""Runs that wait for nobody, though they hold a slot: a deletion must not stand in a line, and who
asks a question that reads no rows is answered by a driver alone."""


@dataclass
class _Waiting:
    home: Home
    since: datetime
    missed: bool = False
    """It was called in vain, and is not called again before it was looked at."""


class Admission:
    """The line and the slots of one operator. `clock`: seconds, monotonic.

    `wake` has a pipeline looked at soon; `waited` is told for each run how many seconds it waited.
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
        self._counted = not limits
        self._tried: set[PipelineKey] = set()
        self._untried: set[PipelineKey] | None = None
        self._count_until = 0.0

    @property
    def active(self) -> int:
        """Pipelines with a run that is planned or at work."""
        return sum(slot.state is not State.CALLED for slot in self._slots.held.values())

    @property
    def waiting(self) -> int:
        """Pipelines whose run is due and not planned yet."""
        return len(self._line)

    def note_listed(self, keys: Iterable[PipelineKey]) -> None:
        """All pipelines that there are. Only the first list matters: who is in it is counted."""
        if not self._counted and self._untried is None:
            self._untried = set(keys) - self._tried
            self._count_until = self._clock() + COUNT_SECONDS

    def note_reconciled(self, key: PipelineKey) -> None:
        """A look has ended, well or not."""
        if self._counted:
            return
        self._tried.add(key)
        if self._untried is not None:
            self._untried.discard(key)
        self._call()

    def admit(
        self, key: PipelineKey, observed: Observed, decision: Decision, now: datetime
    ) -> Queued | None:
        """Takes in a look. None: the decision stands; else its run must wait, in this place."""
        home = slots.home(key, observed.spec)
        planned = run_log.find_new_run(observed.status, decision.status)
        if planned is not None:
            due = observed.status.next_attempt_time or now
            return self._ask(key, home, planned.kind, due=min(due, now), now=now)
        if decision.status.current_run is not None or any(run.live for run in observed.runs):
            self._works(key, home)
        else:
            self.forget(key)
        return None

    def note_planned(self, key: PipelineKey) -> None:
        """What the look decided was written, the plan of a run perhaps."""
        slot = self._slots.held.get(key)
        if slot is not None and slot.state is State.GRANTED:
            slot.state = State.WORKING
            self._waited(slot.waited)

    def note_refused(self, key: PipelineKey) -> None:
        """The plan of a run was certainly not written: the turn is given to the next.

        Since when the pipeline waits is in its status, so that it keeps its place.
        """
        slot = self._slots.held.get(key)
        if slot is not None and slot.state is State.GRANTED:
            self._slots.free(key)
            self._call()

    def forget(self, key: PipelineKey) -> None:
        """The pipeline is gone, or neither runs nor wants to."""
        self._line.pop(key, None)
        if self._slots.free(key) is not None:
            self._call()

    def _ask(
        self, key: PipelineKey, home: Home, kind: RunKind, *, due: datetime, now: datetime
    ) -> Queued | None:
        held = self._slots.held.get(key)
        if held is not None and (held.state is State.WORKING or held.home != home):
            self._slots.free(key)  # the run before has ended: whoever is next may have its slot
            held = None
        if held is not None and held.state is State.GRANTED:
            return None  # its plan could not be written then
        since = self._line[key].since if key in self._line else due
        if not self._slots.limits or kind in UNLIMITED_KINDS:
            self._take(key, home, State.CALLED)
        elif held is None:
            self._line[key] = _Waiting(home, since)
            self._call(asking=key)
        slot = self._slots.held.get(key)
        if slot is None:
            return self._place(key)
        self._line.pop(key, None)
        slot.state = State.GRANTED
        slot.waited = max(0.0, (now - since).total_seconds())
        return None

    def _works(self, key: PipelineKey, home: Home) -> None:
        self._line.pop(key, None)
        slot = self._slots.held.get(key)
        if slot is None:
            self._take(key, home, State.WORKING)
            return
        self.note_planned(key)
        # It stays where it was counted when it began: the spec may name another target by now.
        slot.state = State.WORKING

    def _take(self, key: PipelineKey, home: Home, state: State) -> None:
        self._slots.take(key, Slot(home, state, self._clock()))

    def _call(self, asking: PipelineKey | None = None) -> None:
        """Keeps a slot for each that has room, and wakes it."""
        self._lapse()
        while self._knows_all() and (key := self._next()) is not None:
            self._turns += 1
            self._take(key, self._line[key].home, State.CALLED)
            if key != asking:
                self._wake(key)

    def _knows_all(self) -> bool:
        """Whether the runs at work are counted, since this operator began."""
        if not self._counted and self._untried is not None:
            self._counted = not self._untried or self._clock() >= self._count_until
            if self._counted:
                self._tried, self._untried = set(), None
        return self._counted

    def _lapse(self) -> None:
        """Takes back the slots that were kept for too long."""
        late = self._clock() - CALL_SECONDS
        for key, slot in list(self._slots.held.items()):
            if slot.state is State.CALLED and slot.taken < late:
                self._slots.free(key)
                self._line[key].missed = True

    def _next(self) -> PipelineKey | None:
        """Whose turn it is, if any limit leaves room."""
        if self._slots.full:
            return None
        counts = self._slots.by_namespace()
        eldest = (self._turns + 1) % EVERY_ELDEST == 0
        turns = (
            (0 if eldest else counts[key.namespace], waiting.since, key)
            for key, waiting in self._line.items()
            if key not in self._slots.held
            and not waiting.missed
            and self._slots.bound(waiting.home) is None
        )
        first = min(turns, default=None)
        return None if first is None else first[2]

    def _place(self, key: PipelineKey) -> Queued:
        """By the order in which those that wait for the same limit go if nothing else happens."""
        bound = self._slots.bound(self._line[key].home)
        share = PLACE_SECONDS * len(self._line) / PLACES_A_MINUTE
        if bound is None or not self._counted:
            return Queued(poll_after=min(PLACE_SECONDS, max(SOON_SECONDS, share)))
        rivals = sorted(
            (waiting.since, other)
            for other, waiting in self._line.items()
            if other not in self._slots.held and self._slots.bound(waiting.home) == bound
        )
        counts = self._slots.by_namespace()
        turns = []
        for since, other in rivals:
            turns.append((counts[other.namespace], since, other))
            counts[other.namespace] += 1
        turns.sort()
        return Queued(
            poll_after=max(PLACE_SECONDS, share),
            limit=bound.option,
            allowed=bound.allowed,
            position=1 + [turn[2] for turn in turns].index(key),
            waiting=len(turns),
        )
