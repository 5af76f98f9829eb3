"""Reconcile one pipeline: observe, decide, write the status, post Events, act.

The order makes a crash at any point harmless: the next reconcile finds in the cluster what the
one before had done.

    crash after          the next reconcile finds              and does
    observe, decide      nothing new                           all of it again
    write the status     the planned run in the status         creates it, by the same name
    the first action     the run's ConfigMap, perhaps more     creates the rest

It decides nothing but how often progress is written. It must not know a client library: the
cluster is behind `Adapter`.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from icdc_api.errors import IcdcError
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunState
from icdc_operator.cluster import logs
from icdc_operator.cluster.kube.api_errors import (
    Conflict,
    Denied,
    NameTaken,
    NotFound,
    Unavailable,
)
from icdc_operator.cluster.loop import changes
from icdc_operator.cluster.loop.admission import POSITION_SECONDS, Admission
from icdc_operator.cluster.loop.slots import Limits
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.core import decide, events
from icdc_operator.core.limits import usage
from icdc_operator.core.observed import Action, AskRun, CreateRun, Decision

WATCHED_SECONDS = 30.0
"""Between two reconciles of a running run. Its reports come by the watch of its driver pod, so this
is for a report that the watch lost, and for `timeouts.runSeconds`."""

_log = logging.getLogger(__name__)

TRIES = 3
"""Tries in a row while somebody else writes the pipeline; then the queue backs off."""


class Adapter(Protocol):
    """The cluster, as one pipeline needs it. Raises the errors of `kube.api_errors`."""

    async def observe(self, namespace: str, name: str) -> Observation | None:
        """Read the pipeline and its runs now; None if there is no such pipeline."""
        ...

    def forget(self, key: PipelineKey) -> None:
        """Forget what is known of a pipeline that is gone."""
        ...

    async def save(self, observation: Observation, status: PipelineStatus) -> Observation:
        """Write the status; Conflict if the pipeline was written since it was observed."""
        ...

    async def confirm(self, observation: Observation) -> None:
        """Raise Conflict if the pipeline was written or deleted since it was observed."""
        ...

    async def act(self, observation: Observation, action: Action) -> None:
        """Carry out one action; harmless if it was carried out before."""
        ...


PostEvents = Callable[[Observation, Sequence[events.Event]], Awaitable[None]]
"""Posts Events of changes. Never raises for what the cluster answers."""


class Reconciler:
    """Reconciles pipelines, each by one caller at a time: the queue guarantees that."""

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
        self._last_versions: dict[PipelineKey, str] = {}
        # Reported deleted, and not read since.
        self._deleted: set[PipelineKey] = set()

    def get_last_versions(self) -> dict[PipelineKey, str]:
        """Return the resourceVersion in which each pipeline was last reconciled or written."""
        return dict(self._last_versions)

    def knows(self, key: PipelineKey, version: str) -> bool:
        """Return whether the pipeline was last reconciled, or written, in that version."""
        return self._last_versions.get(key) == version

    def note_event(self, key: PipelineKey, *, deleted: bool) -> None:
        """Take in what a watch reports last of the pipeline; the next reconcile reads whether."""
        (self._deleted.add if deleted else self._deleted.discard)(key)

    async def reconcile(self, key: PipelineKey) -> float | None:
        """Reconcile once; return the seconds until the next time, None to wait for a change.

        Raises the adapter's errors, Conflict if somebody else keeps writing.
        """
        try:
            for _ in range(TRIES - 1):
                try:
                    return await self._try(key)
                except NameTaken:
                    raise  # a subclass of Conflict, but trying again does not free a name
                except Conflict:
                    self._metrics.reconciles.labels("conflict").inc()
            return await self._try(key)
        except Conflict:
            self._admission.note_refused(key)
            raise
        finally:
            self._admission.note_reconciled(key)

    async def _try(self, key: PipelineKey) -> float | None:
        try:
            observation = await self._adapter.observe(*key)
        except Denied:
            # Its Role may be deleted with it. Then nobody can read that it is gone, and others
            # would wait for its slot for ever.
            if key not in self._deleted:
                raise
            observation = None
        else:
            self._deleted.discard(key)
        if observation is None:
            self._forget(key)
            return None
        now = self._now()
        others_wait = self._admission.is_waited_for(key)
        observed = replace(observation.observed, others_wait=others_wait)
        observation = replace(observation, observed=observed)
        # Twice where the run has to wait: only `decide` knows whether a run is due, and only it
        # may say what the status of a waiting pipeline is.
        decision = decide.decide(observation.observed, now)
        queued = self._admission.admit(key, observation.observed, decision, now)
        if queued is not None:
            waits = replace(observation.observed, queued=queued)
            observation = replace(observation, observed=waits)
            decision = decide.decide(waits, now)
        run = decision.status.current_run
        with logs.label_lines(**({} if run is None else {"run": run.name})):
            return await self._carry_out(key, observation, decision, now)

    async def _carry_out(
        self, key: PipelineKey, observation: Observation, decision: Decision, now: datetime
    ) -> float | None:
        self._metrics.show(key, decision.status)
        run = observation.observed.find_run(decision.status.current_run)
        self._metrics.show_run(key, run)
        self._metrics.show_usage(key, usage.measure(observation.observed, decision.status, run))
        write_wait = self._compute_write_wait(key, observation, decision, now)
        if write_wait is None and decision.status != observation.observed.status:
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
        self._last_versions[key] = _get_version(observation)
        requeue = _compute_requeue_seconds(decision)
        return requeue if write_wait is None else _find_earliest(requeue, write_wait)

    async def _save(
        self, key: PipelineKey, observation: Observation, status: PipelineStatus, now: datetime
    ) -> Observation:
        before = observation.observed.status
        try:
            saved = await self._adapter.save(observation, status)
        except (Conflict, Unavailable):
            # Conflict: tried again at once. Unavailable: perhaps written after all. In both cases
            # the next reconcile reads which it was, so the slot is not given away.
            raise
        except IcdcError:
            self._admission.note_refused(key)
            raise
        self._admission.note_planned(key)
        queued = observation.observed.queued
        # A position that is not known yet is written as soon as it is.
        if queued is None or queued.text is not None:
            self._written[key] = now
        self._metrics.count_change(before, status)
        # After the write and before the actions: an Event reports only what is durable, and a crash
        # in between costs an Event, never a run.
        changes_to_post = events.derive_events(before, status)
        for event in changes_to_post:
            level = logging.WARNING if event.warning else logging.INFO
            _log.log(level, "%s: %s", event.reason, event.message)
        if changes_to_post:
            await self._post_events(saved, changes_to_post)
        return saved

    def _compute_write_wait(
        self, key: PipelineKey, observation: Observation, decision: Decision, now: datetime
    ) -> float | None:
        """Return the seconds until the status may be written; None if it may be now."""
        before, after = observation.observed.status, decision.status
        # A run is asked again with each decision, for hours, and no status says that it was.
        must_be_durable = any(not isinstance(action, AskRun) for action in decision.actions)
        if before == after or must_be_durable or not changes.is_progress_only(before, after):
            return None
        # Not written by this process: another operator or an earlier one did, nobody knows when.
        written = self._written.get(key)
        if written is None:
            return None
        waits = observation.observed.queued is not None
        period = POSITION_SECONDS if waits else changes.compute_progress_seconds(after)
        left = written + timedelta(seconds=period) - now
        # A clock that was set back must not hold the status back for longer.
        seconds = min(left.total_seconds(), period)
        return seconds if seconds > 0 else None

    def _forget(self, key: PipelineKey) -> None:
        self._adapter.forget(key)
        self._written.pop(key, None)
        self._last_versions.pop(key, None)
        self._admission.forget(key)
        self._metrics.forget(key)


def _get_version(observation: Observation) -> str:
    return str(observation.pipeline["metadata"]["resourceVersion"])


def _compute_requeue_seconds(decision: Decision) -> float | None:
    """Return the wait of the decision, longer where a watch reports the run.

    `decide` reads a live run every OBSERVE_SECONDS, because a local run has no watch.
    """
    run = decision.status.current_run
    if run is None or run.state != RunState.RUNNING or decision.actions:
        return decision.requeue_after
    wanted = decision.requeue_after
    return WATCHED_SECONDS if wanted == decide.OBSERVE_SECONDS else wanted


def _find_earliest(first: float | None, second: float) -> float:
    return second if first is None else min(first, second)
