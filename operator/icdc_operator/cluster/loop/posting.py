"""Post Kubernetes Events about changes of a pipeline, which `kubectl describe` shows.

An Event is for people: a pipeline never depends on whether it could be posted. Its name is a hash
of its content, so that the same Event posted twice (after a lost answer, or by two operators)
exists once: the second request ends in a Conflict. `icdc_operator.core.events` derives the Events
and their messages.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from icdc_api.errors import IcdcError
from icdc_operator.cluster.kube.api_errors import Conflict
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.core import events

POST_SECONDS = 5.0
"""Time-out for all Events of one change together, because the actions of the reconcile follow."""

MAX_EVENTS = 25
"""Most Events of one change; those of many tables are one Event for each reason anyway."""

_log = logging.getLogger(__name__)


class EventApi(Protocol):
    """The part of `ClusterApi` that posts."""

    async def create_event(
        self, pipeline: dict[str, Any], *, name: str, reason: str, message: str, warning: bool
    ) -> None:
        """Post one Event about the pipeline; Conflict when one of that name exists."""
        ...


class Poster:
    """Posts the Events of one change, in order."""

    def __init__(
        self, api: EventApi, metrics: Metrics, *, limit_seconds: float = POST_SECONDS
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._limit_seconds = limit_seconds

    async def post(self, observation: Observation, changes: Sequence[events.Event]) -> None:
        """Post the Events of one written status; those that cannot be posted are counted."""
        left = len(changes)
        try:
            async with asyncio.timeout(self._limit_seconds):
                for position, event in enumerate(changes[:MAX_EVENTS]):
                    await self._post(observation, position, event)
                    left -= 1
        except (IcdcError, TimeoutError) as error:
            # The others are dropped with it: they would most likely fail too, and actions wait.
            _log.warning("events could not be posted: %s", error or "the time is up")
        if left:
            self._metrics.events_posted.labels("dropped").inc(left)

    async def _post(self, observation: Observation, position: int, event: events.Event) -> None:
        pipeline = observation.pipeline
        try:
            await self._api.create_event(
                pipeline,
                name=name_event(pipeline, position, event),
                reason=event.reason,
                message=event.message,
                warning=event.warning,
            )
        except Conflict:
            _log.debug("event %s was posted before", event.reason)
        self._metrics.events_posted.labels("posted").inc()


def name_event(pipeline: dict[str, Any], position: int, event: events.Event) -> str:
    """Return `<pipeline>.<hash>`, equal for the same Event of the same write of the pipeline."""
    metadata = pipeline["metadata"]
    # The resourceVersion makes the same message of another day another Event; the position tells
    # two equal messages of one write apart.
    parts = (
        metadata["uid"],
        metadata["resourceVersion"],
        str(position),
        event.reason,
        event.message,
    )
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{metadata['name']}.{digest[:16]}"
