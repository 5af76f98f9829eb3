"""Run the operator as one process: create its parts, start and end them in the right order.

    start     probes and metrics answer; standby until this process leads (if leader election is on)
    lead      watch, list and reconcile side by side; the first that ends ends all
    SIGTERM   take no new keys; finish running reconciles (at most DRAIN_SECONDS); release the
              lease, so that another operator goes on within seconds

Ended in any other way it leaves nothing that the next one does not find in the cluster.
"""

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from icdc_api import naming
from icdc_operator.cluster import health, together
from icdc_operator.cluster.heads import connections
from icdc_operator.cluster.heads.api_addresses import ApiServerAddresses
from icdc_operator.cluster.heads.catalog_secrets import CatalogSecrets
from icdc_operator.cluster.heads.head_watch import HeadWatch
from icdc_operator.cluster.heads.table_heads import HeadReader
from icdc_operator.cluster.kube import connect, kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.leader import Leader
from icdc_operator.cluster.loop.admission import Admission
from icdc_operator.cluster.loop.informer import Informer, WatchEvent
from icdc_operator.cluster.loop.posting import Poster
from icdc_operator.cluster.loop.reconciler import Reconciler
from icdc_operator.cluster.loop.relist import Relist
from icdc_operator.cluster.loop.watch_age import WatchAge
from icdc_operator.cluster.loop.watching import Watching
from icdc_operator.cluster.loop.workers import Workers
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.options import Options
from icdc_operator.cluster.queue import WorkQueue
from icdc_operator.cluster.runs import adapter
from icdc_operator.cluster.runs.adapter import ClusterAdapter

DRAIN_SECONDS = 20.0
"""For reconciles that run when SIGTERM comes; a pod has 30 s by default."""

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


async def run(options: Options, environ: Mapping[str, str] | None = None) -> None:
    """Run until SIGTERM or SIGINT. Raises LeadershipLostError, and the errors of its parts."""
    environ = os.environ if environ is None else environ
    stop = asyncio.Event()
    # Again after each start of a watch: kopf takes the signals for itself, and SIGTERM would end
    # that watch and not this process.
    take_signals = functools.partial(_handle_signals, stop.set)
    take_signals()
    metrics = Metrics()
    try:
        async with connect.open_api(environ, observer=metrics.count_request) as api:
            operator = Operator(options, api, metrics, environ, take_signals=take_signals)
            async with operator.serve():
                await operator.run(stop)
    finally:
        _give_signals_back()


class Operator:
    """The parts of one operator, and their state for `/healthz`."""

    def __init__(
        self,
        options: Options,
        api: ClusterApi,
        metrics: Metrics,
        environ: Mapping[str, str],
        *,
        take_signals: Callable[[], None] = lambda: None,
    ) -> None:
        self._options, self._metrics = options, metrics
        self._queue = WorkQueue(time.monotonic)
        age = self._watch_age = WatchAge(time.monotonic)
        secrets = CatalogSecrets(api, allowed=options.read_catalog_secrets)
        learn = ApiServerAddresses(api).learn
        readers = connections.build_readers(options.heads, options.heads_socket, learn)
        self._head_reader = HeadReader(secrets, metrics, readers)
        self._head_watch = HeadWatch(self._head_reader, self._queue.add, metrics)
        self._adapter = ClusterAdapter(api, options.runs, heads=self._head_watch)
        self._admission = Admission(
            options.limits, self._queue.add, time.monotonic, waited=metrics.run_wait_seconds.observe
        )
        self._reconciler = Reconciler(
            self._adapter,
            now=lambda: datetime.now(UTC),
            post_events=Poster(api, metrics).post,
            metrics=metrics,
            admission=self._admission,
        )
        self._workers = Workers(self._queue, self._reconciler.reconcile, metrics)
        self._relist = Relist(
            api,
            options.namespaces,
            queue=self._queue,
            watch_age=age,
            last_versions=self._reconciler.get_last_versions,
            listed=self._admission.note_listed,
        )
        informers = [Informer(each, environ, self._take_event) for each in options.namespaces]
        self._watches = [
            Watching(informer, api, watch_age=age, metrics=metrics, started=take_signals)
            for informer in informers
        ]
        self._leader = Leader(
            api,
            name=options.lease_name,
            namespace=options.lease_namespace or _find_own_namespace(options, environ),
            identity=_make_identity(),
        )
        self._leads = False
        self._show()

    @property
    def oldest_seconds(self) -> float:
        """See `health.Work`."""
        return self._queue.oldest_seconds

    @property
    def finished_seconds(self) -> float:
        """See `health.Work`."""
        return time.monotonic() - self._workers.last_finished

    @property
    def missed_seconds(self) -> float:
        """See `health.Work`."""
        return self._watch_age.missed_seconds

    @property
    def ready(self) -> str | None:
        """See `health.Work`. Standby is ready, or a rolling update would wait for ever."""
        if self._leads and not self._relist.done.is_set():
            return "the pipelines have not been listed yet"
        return None

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Answer probes and scrapes in the block."""
        apps = (
            ("health", health.build_health_app(self), self._options.health_port),
            ("metrics", health.build_metrics_app(self._metrics), self._options.metrics_port),
        )
        async with AsyncExitStack() as stack:
            for what, app, port in apps:
                bound = functools.partial(_log.info, "%s on port %d", what)
                await stack.enter_async_context(health.serve(app, port=port, bound=bound))
            yield

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; see `run` of this module."""
        if not self._options.leader_elect:
            await self._lead(stop)
            return
        try:
            _log.info("standing by for the lease")
            await together.run_until_first(self._leader.acquire(), stop.wait())
            if not stop.is_set():
                await self._lead(stop, self._leader.hold())
        finally:
            # Only now: as long as it holds the lease, no other operator writes beside this one's
            # last reconciles.
            await self._leader.release()

    async def _lead(self, stop: asyncio.Event, *more: Coroutine[Any, Any, Any]) -> None:
        """Reconcile pipelines until `stop`; `more` runs until the last reconcile has ended."""
        self._leads = True
        # Without leader election too: the alert about a missing operator is about this gauge.
        self._metrics.leader.set(1)
        try:
            await together.run_until_first(self._work(stop), *more)
        finally:
            self._leads = False
            self._metrics.leader.set(0)
            # The watch first: its tasks ask the reader.
            await self._head_watch.close()
            self._head_reader.close()
        _log.info("ended")

    async def _work(self, stop: asyncio.Event) -> None:
        await together.run_until_first(
            self._workers.run(self._options.workers),
            *(watching.run() for watching in self._watches),
            self._relist.run(),
            self._drain(stop),
        )

    async def _drain(self, stop: asyncio.Event) -> None:
        """Return once `stop` is set and running reconciles have ended, or DRAIN_SECONDS later."""
        # A reconcile that is cut off is harmless, but leaves a run that was planned to the next
        # operator, which may come minutes later.
        await stop.wait()
        self._queue.close()
        _log.info("ending; %d reconciles are finished first", self._queue.active)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._queue.wait_idle()

    def _take_event(self, event: WatchEvent) -> None:
        """Turn an event of a watch into a key of the queue."""
        self._metrics.watch_events.labels(event.kind).inc()
        if event.kind == kinds.PIPELINE.plural:
            # Before a version of our own is passed over: lists show it, and would take it for
            # missed.
            self._watch_age.note_event(event.key, event.version, deleted=event.deleted)
            self._reconciler.note_event(event.key, deleted=event.deleted)
            if not event.deleted and self._reconciler.knows(event.key, event.version):
                # Most often our own write: without this each reconcile would cause another one.
                return
        if event.kind == kinds.POD.plural:
            # Kept before the reconcile lists pods: a drained node may have removed it by then.
            self._adapter.note_driver_pod(event.object)
        self._queue.add(event.key)

    def _show(self) -> None:
        self._metrics.show_process(adapter.find_version())
        self._metrics.follow_queue(self._queue)
        self._metrics.follow(
            "icdc_runs_active",
            "Pipelines with a run that is planned or running.",
            lambda: self._admission.active,
        )
        self._metrics.follow(
            "icdc_runs_waiting",
            "Pipelines whose run is due and queued because of a limit of active runs.",
            lambda: self._admission.waiting,
        )
        self._metrics.follow(
            "icdc_runs_waiting_oldest_seconds",
            "Seconds that the due run that waits longest has been queued because of such a limit.",
            lambda: self._admission.find_longest_wait(datetime.now(UTC)),
        )
        self._metrics.follow(
            "icdc_watch_last_event_seconds",
            "Seconds since the last event of a watch; large in a quiet cluster.",
            lambda: self._watch_age.last_event_seconds,
        )
        self._metrics.follow(
            "icdc_catalogs_overdue",
            "Catalogs that did not answer the last poll in time.",
            lambda: self._head_reader.overdue,
        )
        self._metrics.follow(
            "icdc_watch_missed_seconds",
            "Seconds for which the watch has missed a change; above 180 the operator restarts.",
            lambda: self._watch_age.missed_seconds,
        )


def _make_identity() -> str:
    """Return the name of this process as a candidate for the lease.

    The host name is for people. The uuid makes a restarted container of the same pod another
    candidate, which waits until the lease of the one before has ended.
    """
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _find_own_namespace(options: Options, environ: Mapping[str, str]) -> str:
    """Return the namespace of this pod, else the first one that is watched."""
    named = environ.get("POD_NAMESPACE")
    if not named and NAMESPACE_FILE.is_file():
        named = NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    return named or options.namespaces[0] or naming.DEFAULT_NAMESPACE


def _handle_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)


def _give_signals_back() -> None:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.remove_signal_handler(number)
