"""Keep the informer watching: start it, and start it again when a watch has ended.

An outage of the API server must not end the process: a restart would take longer. Whether a watch
works is judged by `watch_age`, from what it missed.

    the watch ends after 2 s, 5 s, 90 s     waits of 1 s, 2 s, and 1 s again (it had been steady)
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from icdc_api import naming
from icdc_api.errors import IcdcError
from icdc_operator.cluster import together
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import METADATA_ONLY
from icdc_operator.cluster.kube.api_errors import NotFound
from icdc_operator.cluster.kube.kinds import Kind
from icdc_operator.cluster.loop.informer import MANAGED_SELECTOR, Scope
from icdc_operator.cluster.loop.relist import ListApi
from icdc_operator.cluster.loop.watch_age import WatchAge
from icdc_operator.cluster.metrics import Metrics


@dataclass(frozen=True)
class WatchBackoff:
    """Waits before a watch is started again, in seconds."""

    first: float = 1.0
    """Before the first restart; doubled with each watch that ends early."""
    cap: float = 30.0
    """Longest wait."""
    steady: float = 60.0
    """A watch that ran for so long resets the wait to `first`."""
    unknown: float = 30.0
    """Between two checks whether a missing CRD is installed."""


_log = logging.getLogger(__name__)


class Watcher(Protocol):
    """The informer."""

    async def watch(
        self, *, applications: bool, started: Callable[[], None] = lambda: None
    ) -> None:
        """Watch until cancelled; raises WatchError."""
        ...


class Watching:
    """A watch that is started again whenever it ends."""

    def __init__(
        self,
        informer: Watcher,
        api: ListApi,
        *,
        scope: Scope,
        watch_age: WatchAge,
        metrics: Metrics,
        started: Callable[[], None] = lambda: None,
        pace: WatchBackoff | None = None,
    ) -> None:
        self._informer = informer
        self._api = api
        self._scope = scope
        self._watch_age = watch_age
        self._metrics = metrics
        self._started = started
        self._pace = pace or WatchBackoff()

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        pace = self._pace
        wait = pace.first
        while True:
            began = loop.time()
            try:
                await self._watch()
                # No failure: it has ended because a kind that was missing can be watched now.
                continue
            except IcdcError as error:
                self._metrics.watch_restarts.inc()
                if loop.time() - began >= pace.steady:
                    wait = pace.first
                _log.warning("%s; watching again in %.0f s", error, wait)
            await asyncio.sleep(wait)
            wait = min(pace.cap, 2 * wait)

    async def _watch(self) -> None:
        """Run one watch; return when spark-operator was installed and its kind can be watched."""
        await self._wait_for_kind(
            kinds.PIPELINE, f"the cluster does not know {naming.KIND}: install the CRD"
        )
        # kopf looks up the kinds when a watch starts and never again: a kind that is missing then
        # needs a new watch once it is there.
        applications = await self._knows(kinds.APPLICATION)
        self._watch_age.note_restart()
        watch = self._informer.watch(applications=applications, started=self._started)
        if applications:
            await watch
            return
        text = "the cluster does not know SparkApplication: install spark-operator; no run starts"
        await together.run_until_first(watch, self._wait_for_kind(kinds.APPLICATION, text))

    async def _wait_for_kind(self, kind: Kind, problem: str) -> None:
        """Return once the cluster has the CRD of that kind; log `problem` once if it has not."""
        logged = False
        while not await self._knows(kind):
            if not logged:
                _log.error("%s", problem)
                logged = True
            await asyncio.sleep(self._pace.unknown)

    async def _knows(self, kind: Kind) -> bool:
        # By a list of the objects and not of the CRDs, which would take a right in the whole
        # cluster. The first namespace speaks for all: a CRD is known in each or in none.
        selector = "" if kind is kinds.PIPELINE else MANAGED_SELECTOR
        try:
            await self._api.list_objects(
                kind, self._scope.listed[0], selector=selector, accept=METADATA_ONLY
            )
        except NotFound:
            return False
        return True
