"""Keep the informer of a namespace watching: start it, and again when a watch has ended.

Each namespace has its own, so that one that may not be read holds up no other.

An outage of the API server must not end the process: a restart would take longer. Whether a watch
works is judged by `watch_age`, from what it missed.

    the watch ends after 2 s, 5 s, 90 s     waits of 1 s, 2 s, and 1 s again (it had been steady)
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from icdc_api.errors import IcdcError, WhoActs
from icdc_operator.cluster import together
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import METADATA_ONLY
from icdc_operator.cluster.kube.api_errors import Denied, NotFound
from icdc_operator.cluster.kube.kinds import Kind
from icdc_operator.cluster.loop.informer import MANAGED_SELECTOR
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
    """Between two checks whether a missing CRD is installed, or a missing right was given."""


_CURES = {
    kinds.PIPELINE: "install the CRD",
    kinds.APPLICATION: "install spark-operator; no run starts",
}
"""What to do where the cluster does not know a kind."""

_log = logging.getLogger(__name__)


class Watcher(Protocol):
    """The informer."""

    @property
    def namespace(self) -> str | None:
        """Return the namespace that it watches; None for all."""
        ...

    async def watch(
        self, *, applications: bool, started: Callable[[], None] = lambda: None
    ) -> None:
        """Watch until cancelled; raises WatchError."""
        ...


class Watching:
    """A watch of one namespace, or of all by None, that is started again whenever it ends."""

    def __init__(
        self,
        informer: Watcher,
        api: ListApi,
        *,
        watch_age: WatchAge,
        metrics: Metrics,
        started: Callable[[], None] = lambda: None,
        pace: WatchBackoff | None = None,
    ) -> None:
        self._informer = informer
        self._api = api
        self._namespace = informer.namespace
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
                # No failure: it has ended because a kind that could not be listed can be now.
                continue
            except IcdcError as error:
                self._metrics.watch_restarts.inc()
                if loop.time() - began >= pace.steady:
                    wait = pace.first
                _log.warning("%s; watching again in %.0f s", error, wait)
            await asyncio.sleep(wait)
            wait = min(pace.cap, 2 * wait)

    async def _watch(self) -> None:
        """Run one watch; return when SparkApplications, which it lacks, can be watched as well."""
        await self._wait_for_kind(kinds.PIPELINE)
        # kopf looks up the kinds when a watch starts and never again: a kind that is missing then
        # needs a new watch once it is there.
        applications = await self._find_obstacle(kinds.APPLICATION) is None
        self._watch_age.note_restart(self._namespace)
        watch = self._informer.watch(applications=applications, started=self._started)
        if applications:
            await watch
            return
        await together.run_until_first(watch, self._wait_for_kind(kinds.APPLICATION))

    async def _wait_for_kind(self, kind: Kind) -> None:
        """Return once objects of that kind can be listed; log once why they cannot."""
        logged = None
        while (obstacle := await self._find_obstacle(kind)) is not None:
            if obstacle != logged:
                _log.error("%s", obstacle)
                logged = obstacle
            await asyncio.sleep(self._pace.unknown)
        if logged is not None:
            _log.info("%s of %s can be watched now", kind.plural, self._where)

    async def _find_obstacle(self, kind: Kind) -> str | None:
        """Return why objects of that kind cannot be watched and who must act; None if they can."""
        # By a list of the objects and not of the CRDs, which would take a right in the whole
        # cluster.
        selector = "" if kind is kinds.PIPELINE else MANAGED_SELECTOR
        try:
            await self._api.list_objects(
                kind, self._namespace, selector=selector, accept=METADATA_ONLY
            )
        except NotFound:
            return f"the cluster does not know {kind.name}: {_CURES[kind]}"
        except Denied as error:
            leave = "" if self._namespace is None else ", or remove it from watchNamespaces"
            return (
                f"{kind.plural} of {self._where} cannot be watched: {error}; action required: "
                f"{WhoActs.PLATFORM.value} must give the operator its role there{leave}"
            )
        return None

    @property
    def _where(self) -> str:
        return "all namespaces" if self._namespace is None else f"namespace {self._namespace}"
