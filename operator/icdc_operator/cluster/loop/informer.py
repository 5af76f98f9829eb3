"""Watch pipelines, their SparkApplications and driver pods, and report each event's pipeline.

kopf is the informer and nothing else: `on.event` handlers only, so that it writes no annotation,
no finalizer and no event, and needs no permission but list and watch. An event is a hint: the
reconcile reads everything again. A lost event costs time, never correctness.

    pipeline shop changed                    WatchEvent(key team/shop)
    pod of a run, label pipeline=shop        WatchEvent(key team/shop)
    pod without our labels                   not watched (label selector)
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import kopf

from icdc_api import naming
from icdc_api.errors import IcdcError
from icdc_operator.cluster.kube import kinds, login
from icdc_operator.cluster.kube.api import DRIVER_SELECTOR, PAGE_SIZE
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.queue import PipelineKey

_APPLICATIONS = (*kinds.APPLICATION.api_version.split("/"), kinds.APPLICATION.plural)
_PODS = (kinds.POD.api_version, kinds.POD.plural)

MANAGED_SELECTOR = f"{naming.LABEL_MANAGED_BY}={naming.MANAGED_BY}"


class WatchError(IcdcError):
    """A watch ended by an error of the API server or of the informer; it is started anew."""

    retryable = True


@dataclass(frozen=True)
class WatchEvent:
    """One event of a watch."""

    kind: str
    """Plural of the kind of the changed object."""
    key: PipelineKey
    """The pipeline that it belongs to."""
    object: Resource
    """The changed object as the watch has it; a deleted one as it was last."""
    deleted: bool
    """Whether the object was deleted."""

    @property
    def version(self) -> str:
        """Return the resourceVersion of the changed object."""
        return str(self.object["metadata"].get("resourceVersion", ""))


class Informer:
    """A watch of one namespace, or of all by None.

    kopf could watch several at once, but ends all of its watches if one of them is denied.
    `report` is called in the event loop and must not block.
    """

    def __init__(
        self,
        namespace: str | None,
        environ: Mapping[str, str],
        report: Callable[[WatchEvent], None],
    ) -> None:
        self.namespace = namespace
        self._environ = environ
        self._report = report

    async def watch(
        self, *, applications: bool, started: Callable[[], None] = lambda: None
    ) -> None:
        """Watch until cancelled; raises WatchError.

        `applications`: whether the cluster has the CRD of SparkApplications. kopf never watches a
        kind that is unknown when it starts. `started` is called once kopf has taken over SIGTERM
        and SIGINT, which it does in the main thread, so that the caller can take them back.
        """
        tasks = await kopf.spawn_tasks(
            registry=self._build_registry(applications),
            settings=_build_settings(),
            # kopf would make one of the user's name, which an id that the platform chose lacks.
            identity=cast("Any", naming.MANAGED_BY),
            standalone=True,
            clusterwide=self.namespace is None,
            namespaces=() if self.namespace is None else (self.namespace,),
        )
        # Not kopf.run_tasks: at its end it cancels every task of the loop that is younger than
        # the watch, ours included.
        try:
            started()
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _stop(set(tasks))
        _raise_end(done)

    def _build_registry(self, applications: bool) -> kopf.OperatorRegistry:
        # Of our own: kopf's default registry is global, so two operators in one process (tests)
        # would get each other's handlers.
        registry = kopf.OperatorRegistry()
        # Without retries of kopf, which come a minute apart: the caller starts the watch anew.
        kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)(self._connect)
        kopf.on.event(naming.GROUP, naming.VERSION, naming.PLURAL, registry=registry)(
            self._report_pipeline
        )
        kopf.on.event(*_PODS, registry=registry)(self._report_pod)
        if applications:
            kopf.on.event(*_APPLICATIONS, registry=registry)(self._report_application)
        return registry

    async def _connect(self, **_: Any) -> kopf.ConnectionInfo:
        # Called again when the API server refuses the credentials.
        return await login.load_connection_info(self._environ)

    async def _report_pipeline(self, event: Mapping[str, Any], **_: Any) -> None:
        metadata = event["object"]["metadata"]
        self._report(_read_event(naming.PLURAL, metadata["name"], event))

    async def _report_application(self, event: Mapping[str, Any], **_: Any) -> None:
        self._report_run(kinds.APPLICATION.plural, event)

    async def _report_pod(self, event: Mapping[str, Any], **_: Any) -> None:
        self._report_run(kinds.POD.plural, event)

    def _report_run(self, kind: str, event: Mapping[str, Any]) -> None:
        # By label, not by owner: a deletion run has no owner, and a pod is owned by the
        # SparkApplication, which may be deleted before it.
        labels = event["object"]["metadata"].get("labels") or {}
        pipeline = labels.get(naming.LABEL_PIPELINE)
        if pipeline:
            self._report(_read_event(kind, pipeline, event))


def _read_event(kind: str, pipeline: str, event: Mapping[str, Any]) -> WatchEvent:
    metadata = event["object"]["metadata"]
    return WatchEvent(
        kind=kind,
        key=PipelineKey(metadata["namespace"], pipeline),
        object=event["object"],
        deleted=event["type"] == "DELETED",
    )


def _build_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # Events are ours, see `posting`: those of kopf are not deduplicated.
    settings.posting.enabled = False
    # kopf would list and watch namespaces and CRDs, which takes rights in the whole cluster.
    settings.scanning.disabled = True
    # By default kopf kills the process some minutes after it was asked to stop.
    settings.process.ultimate_exiting_timeout = None
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 10.0
    # HTTPS_PROXY and NO_PROXY, as for the operator's own requests.
    settings.networking.trust_env = True
    # The server ends a watch before the client loses patience with it. A watch that is silent for
    # longer than bookmarks are apart (a minute) is dead, whatever the connection says.
    settings.watching.server_timeout = 600
    settings.watching.client_timeout = 660
    settings.watching.connect_timeout = 10.0
    settings.watching.inactivity_timeout = 90.0
    settings.watching.reconnect_backoff = 1.0
    settings.watching.chunk_size = PAGE_SIZE
    # On the server's side. Without selectors kopf holds every pod of the cluster in memory.
    selectors = settings.watching.label_selectors
    selectors[_APPLICATIONS[0], _APPLICATIONS[1], _APPLICATIONS[2]] = MANAGED_SELECTOR
    selectors[_PODS] = f"{MANAGED_SELECTOR},{DRIVER_SELECTOR}"
    return settings


async def _stop(tasks: set["asyncio.Task[Any]"]) -> None:
    """Cancel kopf's tasks and wait for all of them, even if this task is cancelled meanwhile.

    Else the tasks of this watch would still run beside those of the next.
    """
    for task in tasks:
        task.cancel()
    waiting = asyncio.gather(*tasks, return_exceptions=True)
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def _raise_end(done: set["asyncio.Task[Any]"]) -> None:
    """Raise WatchError with the cause why one of kopf's tasks ended; none should."""
    for task in done:
        with contextlib.suppress(asyncio.CancelledError):
            error = task.exception()
            if error is not None:
                text = f"{type(error).__name__}: {error}"
                raise WatchError(f"the watch has ended: {text[:500]}") from error
    raise WatchError("the watch has ended")
