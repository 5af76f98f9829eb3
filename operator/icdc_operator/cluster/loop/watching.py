"""Keeps the informer watching: starts it, and starts it anew when a watch has ended.

An outage of the API server is nothing to die of: whoever waits for a restart of the process waits
longer. Whether the watch works is judged elsewhere, by what it missed.
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
from icdc_operator.cluster.kube.errors import NotFound
from icdc_operator.cluster.kube.kinds import Kind
from icdc_operator.cluster.loop.informer import MANAGED_SELECTOR, Scope
from icdc_operator.cluster.loop.relist import ListApi
from icdc_operator.cluster.loop.watch_age import WatchAge
from icdc_operator.cluster.metrics import Metrics


@dataclass(frozen=True)
class WatchBackoff:
    """How fast watches are started anew. Seconds."""

    first: float = 1.0
    """Before a watch is started anew; doubled while it keeps ending."""
    cap: float = 30.0
    steady: float = 60.0
    """A watch that lived for so long has got over what ended the one before it."""
    unknown: float = 30.0
    """Between two looks whether the cluster knows a kind by now."""


_log = logging.getLogger(__name__)


class Watcher(Protocol):
    """The informer."""

    async def watch(
        self, *, applications: bool, started: Callable[[], None] = lambda: None
    ) -> None:
        """Watches until it is cancelled; raises WatchError."""
        ...


class Watching:
    """Watches for as long as `run` runs."""

    def __init__(
        self,
        informer: Watcher,
        api: ListApi,
        scope: Scope,
        watch_age: WatchAge,
        metrics: Metrics,
        *,
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
        """Watches until it is cancelled."""
        loop = asyncio.get_running_loop()
        pace = self._pace
        wait = pace.first
        while True:
            began = loop.time()
            try:
                await self._watch()
                continue
            except IcdcError as error:
                self._metrics.watch_restarts.inc()
                if loop.time() - began >= pace.steady:
                    wait = pace.first
                _log.warning("%s; watching again in %.0f s", error, wait)
            await asyncio.sleep(wait)
            wait = min(pace.cap, 2 * wait)

    async def _watch(self) -> None:
        """One watch; returns when another, of more kinds, should take its place."""
        await self._known(
            kinds.PIPELINE, f"the cluster does not know {naming.KIND}: install the CRD"
        )
        applications = await self._knows(kinds.APPLICATION)
        self._watch_age.note_restart()
        watch = self._informer.watch(applications=applications, started=self._started)
        if applications:
            await watch
            return
        text = "the cluster does not know SparkApplication: install spark-operator; no run starts"
        await together.first_of(watch, self._known(kinds.APPLICATION, text))

    async def _known(self, kind: Kind, problem: str) -> None:
        """Returns once the cluster knows the kind."""
        told = False
        while not await self._knows(kind):
            if not told:
                _log.error("%s", problem)
                told = True
            await asyncio.sleep(self._pace.unknown)

    async def _knows(self, kind: Kind) -> bool:
        selector = "" if kind is kinds.PIPELINE else MANAGED_SELECTOR
        try:
            await self._api.list_objects(
                kind, self._scope.listed[0], selector=selector, accept=METADATA_ONLY
            )
        except NotFound:
            return False
        return True
