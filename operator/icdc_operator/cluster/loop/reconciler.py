"""One look at one pipeline: observe, decide, make the status durable, tell of it, act.

The order is what makes a crash at any point harmless: `decide` finds in the cluster whatever the
look before it had done. Decides nothing but how often what a run reports is written. Knows no
client library: the cluster is behind `Adapter`.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from icdc_api.errors import IcdcError
from icdc_api.runs import RunState
from icdc_api.status import PipelineStatus
from icdc_operator.cluster import logs
from icdc_operator.cluster.kube.errors import Conflict, NameTaken, NotFound, Unavailable
from icdc_operator.cluster.loop import changes
from icdc_operator.cluster.loop.admission import PLACE_SECONDS, Admission
from icdc_operator.cluster.loop.slots import Limits
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.cluster.runs.adapter import Observation
from icdc_operator.core import decide, events
from icdc_operator.core.observed import Action, CreateRun, Decision

PROGRESS_SECONDS = 5.0
"""Between two writes of a status that differ in nothing but how far the tables are."""

WATCHED_SECONDS = 30.0
"""Between two looks at a run that works: its reports come by the watch of its driver pod, so the
look is for a report that the watch lost, and for `timeouts.runSeconds`."""

_log = logging.getLogger(__name__)

LOOKS = 3
"""Looks in a row when somebody else writes the pipeline meanwhile; then the key backs off."""


class Adapter(Protocol):
    """The cluster, as far as one pipeline is concerned. Raises the errors of `cluster.errors`."""

    async def observe(self, namespace: str, name: str) -> Observation | None:
        """All that belongs to the pipeline, read now; None when there is no such pipeline."""
        ...

    async def save(self, observation: Observation, status: PipelineStatus) -> Observation:
        """Writes the status; Conflict when the pipeline is not as observed any more."""
        ...

    async def confirm(self, observation: Observation) -> None:
        """Conflict when the pipeline is not as observed any more, or gone."""
        ...

    async def act(self, observation: Observation, action: Action) -> None:
        """Carries out one action; harmless when it was carried out before."""
        ...


PostEvents = Callable[[Observation, Sequence[events.Event]], Awaitable[None]]
"""Tells people of changes. Never raises for what the cluster answers."""


class Reconciler:
    """Looks at pipelines. Not for two looks at one pipeline at a time: the queue sees to that."""

    def __init__(
        self,
        adapter: Adapter,
        *,
        now: Callable[[], datetime],
        post_events: PostEvents,
        metrics: Metrics,
        admission: Admission | None = None,
    ) -> None:
        """`admission` is asked before a run is planned; None: runs are not limited."""
        self._adapter = adapter
        self._admission = admission or Admission(Limits(), lambda _: None, time.monotonic)
        self._now = now
        self._post_events = post_events
        self._metrics = metrics
        self._written: dict[PipelineKey, datetime] = {}
        self._looked_at: dict[PipelineKey, str] = {}

    def reconciled_versions(self) -> dict[PipelineKey, str]:
        """The resourceVersion with which each known pipeline was last looked at, or written."""
        return dict(self._looked_at)

    def knows(self, key: PipelineKey, version: str) -> bool:
        """Whether the pipeline was looked at, or written, in that very version."""
        return self._looked_at.get(key) == version

    async def reconcile(self, key: PipelineKey) -> float | None:
        """One look; seconds until the next one, or None when only a change can matter.

        Raises the adapter's errors, Conflict if somebody else keeps writing.
        """
        try:
            for _ in range(LOOKS - 1):
                try:
                    return await self._look(key)
                except NameTaken:
                    raise  # looking again does not free a name
                except Conflict:
                    self._metrics.reconciles.labels("conflict").inc()
            return await self._look(key)
        except Conflict:
            self._admission.note_refused(key)
            raise
        finally:
            self._admission.note_reconciled(key)

    async def _look(self, key: PipelineKey) -> float | None:
        observation = await self._adapter.observe(*key)
        if observation is None:
            self._forget(key)
            return None
        now = self._now()
        decision = decide.decide(observation.observed, now)
        queued = self._admission.admit(key, observation.observed, decision, now)
        if queued is not None:
            waits = replace(observation.observed, queued=queued)
            observation = replace(observation, observed=waits)
            decision = decide.decide(waits, now)
        run = decision.status.current_run
        with logs.about(**({} if run is None else {"run": run.name})):
            return await self._carry_out(key, observation, decision, now)

    async def _carry_out(
        self, key: PipelineKey, observation: Observation, decision: Decision, now: datetime
    ) -> float | None:
        self._metrics.show(key, decision.status)
        held_back = self._held_back_seconds(key, observation, decision, now)
        if held_back is not None:
            self._looked_at[key] = _version(observation)
            return _earliest(_requeue_seconds(decision), held_back)
        if decision.status != observation.observed.status:
            try:
                observation = await self._save(key, observation, decision.status, now)
            except NotFound:
                self._forget(key)
                return None
        elif any(not isinstance(action, CreateRun) for action in decision.actions):
            # Runs are listed after the pipeline was read: another operator may have recorded one
            # and created it in between, which looks as if no record asked for it.
            await self._adapter.confirm(observation)
        for action in decision.actions:
            await self._adapter.act(observation, action)
        self._looked_at[key] = _version(observation)
        return _requeue_seconds(decision)

    async def _save(
        self, key: PipelineKey, observation: Observation, status: PipelineStatus, now: datetime
    ) -> Observation:
        before = observation.observed.status
        try:
            saved = await self._adapter.save(observation, status)
        except (Conflict, Unavailable):
            raise  # looked at again at once, or perhaps written after all: the next look knows
        except IcdcError:
            self._admission.note_refused(key)
            raise
        self._admission.note_planned(key)
        queued = observation.observed.queued
        if queued is None or queued.text is not None:  # else the place is told once it is known
            self._written[key] = now
        self._metrics.saw_change(before, status)
        told = events.derive_events(before, status)
        for event in told:
            level = logging.WARNING if event.warning else logging.INFO
            _log.log(level, "%s: %s", event.reason, event.message)
        if told:
            await self._post_events(saved, told)
        return saved

    def _held_back_seconds(
        self, key: PipelineKey, observation: Observation, decision: Decision, now: datetime
    ) -> float | None:
        """Seconds until the status may be written; None when it need not wait."""
        before, after = observation.observed.status, decision.status
        if before == after or decision.actions or not changes.is_progress_only(before, after):
            return None
        written = self._written.get(key)
        if written is None:
            return None
        waits = observation.observed.queued is not None
        period = PLACE_SECONDS if waits else PROGRESS_SECONDS
        left = written + timedelta(seconds=period) - now
        # A clock that was set back must not hold the status back for longer.
        seconds = min(left.total_seconds(), period)
        return seconds if seconds > 0 else None

    def _forget(self, key: PipelineKey) -> None:
        self._written.pop(key, None)
        self._looked_at.pop(key, None)
        self._admission.forget(key)
        self._metrics.forget(key)


def _version(observation: Observation) -> str:
    return str(observation.pipeline["metadata"]["resourceVersion"])


def _requeue_seconds(decision: Decision) -> float | None:
    run = decision.status.current_run
    if run is None or run.state != RunState.RUNNING or decision.actions:
        return decision.requeue_after
    wanted = decision.requeue_after
    return WATCHED_SECONDS if wanted == decide.OBSERVE_SECONDS else wanted


def _earliest(first: float | None, second: float) -> float:
    return second if first is None else min(first, second)
