"""The net below lost events: from time to time all pipelines are listed.

A pipeline that the list shows in another version than it was last looked at is due now. One in
`ROUNDS` of the others is looked at too, spread over the time until the next list, so that within
an hour each was looked at whatever was lost, without a burst of requests.
"""

import asyncio
import itertools
import logging
import random
import zlib
from collections.abc import Callable, Iterable
from typing import Protocol

from icdc_api.errors import IcdcError
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import METADATA_ONLY
from icdc_operator.cluster.kube.kinds import Kind, Resource
from icdc_operator.cluster.kube.transport import JSON
from icdc_operator.cluster.loop.informer import Scope
from icdc_operator.cluster.loop.watch_age import WatchAge
from icdc_operator.cluster.queue import PipelineKey, WorkQueue

PERIOD_SECONDS = 300.0
ROUNDS = 12
"""Lists until each pipeline was looked at, whether or not it changed."""

RETRY_SECONDS = 5.0
"""After a list that failed: the net must not have a hole of minutes."""

_log = logging.getLogger(__name__)


class ListApi(Protocol):
    """The part of `ClusterApi` that lists."""

    async def list_objects(
        self, kind: Kind, namespace: str | None, *, selector: str = "", accept: str = JSON
    ) -> list[Resource]:
        """All objects of a kind in one namespace, or in all."""
        ...


class Relist:
    """Lists what is in `scope` and feeds the queue. `looked_at` gives the resourceVersion with
    which a pipeline was last looked at, and all pipelines that were; `listed` is told of each list
    before the queue is."""

    def __init__(
        self,
        api: ListApi,
        scope: Scope,
        queue: WorkQueue,
        watch_age: WatchAge,
        looked_at: Callable[[], dict[PipelineKey, str]],
        *,
        listed: Callable[[Iterable[PipelineKey]], None] = lambda _: None,
        period_seconds: float = PERIOD_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._api = api
        self._scope = scope
        self._queue = queue
        self._watch_age = watch_age
        self._looked_at = looked_at
        self._listed = listed
        self._period_seconds = period_seconds
        self._retry_seconds = retry_seconds
        self._round = itertools.cycle(range(ROUNDS))
        self.done = asyncio.Event()
        """Set once everything was listed: from then on no pipeline is unknown."""

    async def run(self) -> None:
        """Lists until it is cancelled. A list that fails is tried again."""
        while True:
            try:
                await self.once()
            except IcdcError as error:
                _log.warning("pipelines cannot be listed: %s", error)
                await asyncio.sleep(self._retry_seconds)
            else:
                # So that many operators, or one that starts often, do not list in step.
                await asyncio.sleep(self._period_seconds * random.uniform(0.9, 1.1))

    async def once(self) -> None:
        """One list of everything; raises the API's errors."""
        told_before, looked_at = self._watch_age.versions(), self._looked_at()
        versions: dict[PipelineKey, str] = {}
        for namespace in self._scope.listed:
            for found in await self._api.list_objects(
                kinds.PIPELINE, namespace, accept=METADATA_ONLY
            ):
                metadata = found["metadata"]
                key = PipelineKey(metadata["namespace"], metadata["name"])
                versions[key] = metadata["resourceVersion"]
        self._watch_age.note_list(versions, began=told_before)
        self._listed(versions)
        self._feed(versions, looked_at)
        self.done.set()

    def _feed(self, versions: dict[PipelineKey, str], looked_at: dict[PipelineKey, str]) -> None:
        turn = next(self._round)
        for key in versions.keys() | looked_at.keys():
            if versions.get(key) != looked_at.get(key):
                self._queue.add(key)
            elif zlib.crc32(str(key).encode()) % ROUNDS == turn:
                self._queue.add(key, after=random.uniform(0.0, self._period_seconds))
