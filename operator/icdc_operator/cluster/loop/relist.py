"""List all pipelines from time to time, so that a lost event costs minutes and not for ever.

    listed in the version of its last reconcile       due in one round of ROUNDS, at a random time
    listed in another version, or never reconciled    due now
    reconciled before, not listed                     due now: it was deleted

Within an hour (12 rounds of 5 minutes) every pipeline is reconciled, whatever was lost, without a
burst of requests. A namespace that is denied is passed over: its pipelines may exist or not, and
those of the others must not wait for it.
"""

import asyncio
import itertools
import logging
import random
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from icdc_api.errors import IcdcError
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import METADATA_ONLY
from icdc_operator.cluster.kube.api_errors import Denied
from icdc_operator.cluster.kube.kinds import Kind, Resource
from icdc_operator.cluster.kube.transport import JSON
from icdc_operator.cluster.loop.watch_age import WatchAge
from icdc_operator.cluster.queue import PipelineKey, WorkQueue

PERIOD_SECONDS = 300.0
"""Between two lists."""
ROUNDS = 12
"""Lists after which every pipeline was reconciled, whether or not it changed."""

RETRY_SECONDS = 5.0
"""Wait after a failed list. Short, because events may be lost exactly then."""

_log = logging.getLogger(__name__)


class ListApi(Protocol):
    """The part of `ClusterApi` that lists."""

    async def list_objects(
        self, kind: Kind, namespace: str | None, *, selector: str = "", accept: str = JSON
    ) -> list[Resource]:
        """Return all objects of a kind in one namespace, or in all by None."""
        ...


class Relist:
    """Lists the pipelines of these namespaces, or of all by None, and adds keys to the queue.

    `last_versions` gives the resourceVersion of each pipeline's last reconcile; `listed` is called
    with each list before the queue gets its keys.
    """

    def __init__(
        self,
        api: ListApi,
        namespaces: Sequence[str | None],
        *,
        queue: WorkQueue,
        watch_age: WatchAge,
        last_versions: Callable[[], dict[PipelineKey, str]],
        listed: Callable[[Iterable[PipelineKey]], None] = lambda _: None,
        period_seconds: float = PERIOD_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._api = api
        self._namespaces = namespaces
        self._queue = queue
        self._watch_age = watch_age
        self._last_versions = last_versions
        self._listed = listed
        self._period_seconds = period_seconds
        self._retry_seconds = retry_seconds
        self._round = itertools.cycle(range(ROUNDS))
        self.done = asyncio.Event()
        """Set once everything was listed: from then on no pipeline is unknown, except where a
        namespace is denied."""

    async def run(self) -> None:
        """List until cancelled. A list that fails is tried again."""
        logged = ""
        while True:
            try:
                await self.list_once()
            except IcdcError as error:
                if str(error) != logged:
                    _log.warning("pipelines cannot be listed: %s", error)
                logged = str(error)
                await asyncio.sleep(self._retry_seconds)
            else:
                logged = ""
                # Jitter: many operators that started together must not list in step.
                await asyncio.sleep(self._period_seconds * random.uniform(0.9, 1.1))

    async def list_once(self) -> None:
        """List everything once; raises the API's errors, Denied only if nothing may be listed."""
        # Before the request: events that come while it runs are newer than its answer.
        reported_before, last_versions = self._watch_age.get_versions(), self._last_versions()
        versions: dict[PipelineKey, str] = {}
        denied: dict[str | None, Denied] = {}
        for namespace in self._namespaces:
            try:
                versions |= await self._list_namespace(namespace)
            except Denied as error:
                # Reported by `watching`, which waits until the namespace can be read.
                denied[namespace] = error
        if len(denied) == len(self._namespaces):
            # An installation without any right must not look ready.
            raise next(iter(denied.values()))
        self._watch_age.note_list(versions, began=_leave_out(reported_before, denied))
        # Before the queue has the keys: admission must know whose reconciles it waits for.
        self._listed(versions)
        self._feed(versions, _leave_out(last_versions, denied))
        self.done.set()

    async def _list_namespace(self, namespace: str | None) -> dict[PipelineKey, str]:
        """Return the resourceVersion of each pipeline in the namespace."""
        versions: dict[PipelineKey, str] = {}
        # Metadata alone: names and versions are compared, and statuses are most of the bytes.
        for pipeline in await self._api.list_objects(
            kinds.PIPELINE, namespace, accept=METADATA_ONLY
        ):
            metadata = pipeline["metadata"]
            key = PipelineKey(metadata["namespace"], metadata["name"])
            versions[key] = metadata["resourceVersion"]
        return versions

    def _feed(
        self, versions: dict[PipelineKey, str], last_versions: dict[PipelineKey, str]
    ) -> None:
        turn = next(self._round)
        for key in versions.keys() | last_versions.keys():
            if versions.get(key) != last_versions.get(key):
                self._queue.add(key)
            # By a hash of the name, so that a key has the same round in each cycle. `hash` of
            # Python would differ in each process.
            elif zlib.crc32(str(key).encode()) % ROUNDS == turn:
                self._queue.add(key, after=random.uniform(0.0, self._period_seconds))


def _leave_out(
    versions: dict[PipelineKey, str], denied: Collection[str | None]
) -> dict[PipelineKey, str]:
    """Return the versions without those of denied namespaces: not listed there is not deleted."""
    return {key: version for key, version in versions.items() if key.namespace not in denied}
