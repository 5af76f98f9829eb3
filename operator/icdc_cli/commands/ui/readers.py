"""Readers of the pipelines of the page: a cluster, by the rights of this person, or a local run.

    -n a -n b      one list for each namespace
    -A             one list of all; if that is denied, one for each namespace that can be listed
    --state-dir    the resource that `icdc run` saves, without its lock, which only a runner takes

What may not be read is a `ReadRefusal`, and the rest is shown: a page with pipelines missing and no
word of it would be taken for all of them. A login is read anew with each reading, as a page is
open for longer than a token is good.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from icdc_api import naming
from icdc_api.errors import BadSpec, IcdcError
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_cli.cluster import status as cluster_status
from icdc_cli.cluster import thin_client
from icdc_cli.local.state_dir import StateDir
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.kinds import Kind, Resource

MAX_NAMESPACES = 200
"""Namespaces that are listed one by one: some seconds at most."""
MAX_NAMED = 10
"""Namespaces that a refusal names; the others are counted."""
READER = "you, who started icdc ui"
"""Who acts on a wrong kubeconfig or directory: the author of no pipeline."""

_NAMESPACE = Kind("v1", "Namespace", "namespaces")


@dataclass(frozen=True)
class SeenPipeline:
    """One pipeline as it was read."""

    namespace: str
    """Its namespace; that of the file for a local run."""
    name: str
    """Its name."""
    resource: Resource
    """The resource as it was read, its status too."""
    status: PipelineStatus
    """An empty one where `problem` says why it could not be read."""
    problem: str = ""
    """Why its status could not be read; empty if it could be."""


@dataclass(frozen=True)
class ReadRefusal:
    """Something that could not be read."""

    scope: str
    """What is not shown, such as `namespace lake`."""
    message: str
    """Why not."""
    who_acts: str
    """Who can change that, as `WhoActs` names them."""


@dataclass(frozen=True)
class PageReading:
    """All that was read at one time."""

    scope: str
    """What was asked for, such as `context prod, all namespaces`."""
    at: datetime
    """When it was read, or when a local run has saved it."""
    pipelines: tuple[SeenPipeline, ...]
    """Those that could be read."""
    refusals: tuple[ReadRefusal, ...] = ()
    """What could not be read."""
    local: bool = False
    """Whether it is a run on this host, which no command about a cluster reaches."""


class PipelineReader(Protocol):
    """Reads all pipelines of the page."""

    def read(self) -> PageReading:
        """Return them as they are now. What cannot be read is in `refusals`."""


@dataclass(frozen=True)
class ClusterReader:
    """Pipelines of a cluster, read as kubectl reads them."""

    env: Mapping[str, str]
    """The variables by which a kubeconfig is found."""
    context: str | None
    """Context of the kubeconfig; None in a pod."""
    namespaces: tuple[str, ...] | None
    """None: all that may be listed."""
    own_namespace: str
    """The one of the context: all that is left where namespaces may not even be listed."""

    def read(self) -> PageReading:
        """See `PipelineReader`."""
        where = "all namespaces"
        if self.namespaces is not None:
            label = "namespace" if len(self.namespaces) == 1 else "namespaces"
            where = f"{label} {', '.join(self.namespaces)}"
        scope = f"context {self.context}, {where}" if self.context else f"this pod, {where}"
        try:
            resources, refusals = thin_client.run(self._list, self.env, context=self.context)
        except BadSpec as error:
            # Shown and not raised: a kubeconfig is corrected while the page stays open.
            resources, refusals = [], [ReadRefusal(where, error.message, READER)]
        pipelines = tuple(parse_resource(resource) for resource in resources)
        return PageReading(scope, datetime.now(UTC), pipelines, tuple(refusals))

    async def _list(self, api: ClusterApi) -> tuple[list[Resource], list[ReadRefusal]]:
        if self.namespaces is not None:
            return await _list_each(api, self.namespaces)
        try:
            return await api.list_objects(kinds.PIPELINE, None), []
        except api_errors.Denied as error:
            names, refusals = await self._list_namespaces(api, error)
        except api_errors.ClusterError as error:
            return [], [build_refusal("all namespaces", error)]
        resources, more = await _list_each(api, names)
        return resources, refusals + more

    async def _list_namespaces(
        self, api: ClusterApi, denied: api_errors.Denied
    ) -> tuple[list[str], list[ReadRefusal]]:
        """Return the namespaces to list one by one, and what is not among them."""
        try:
            objects = await api.list_objects(_NAMESPACE, None)
        except api_errors.ClusterError:
            # The first error has the permission to ask for; this one would ask for another.
            return [self.own_namespace], [build_refusal("all other namespaces", denied)]
        names = [str(item["metadata"]["name"]) for item in objects]
        rest = names[MAX_NAMESPACES:]
        return names[:MAX_NAMESPACES], [_refuse(rest, denied)] if rest else []


async def _list_each(
    api: ClusterApi, namespaces: Sequence[str]
) -> tuple[list[Resource], list[ReadRefusal]]:
    resources: list[Resource] = []
    denied: list[str] = []
    refusals: list[ReadRefusal] = []
    first: api_errors.Denied | None = None
    for namespace in namespaces:
        try:
            resources += await api.list_objects(kinds.PIPELINE, namespace)
        except api_errors.Denied as error:
            # As one sentence: of 200 namespaces a person may most likely see few.
            first = first or error
            denied.append(namespace)
        except api_errors.ClusterError as error:
            refusals.append(build_refusal(f"namespace {namespace}", error))
            break  # a server that does not answer is not asked 200 times
    return resources, refusals + ([_refuse(denied, first)] if first else [])


def _refuse(namespaces: Sequence[str], error: api_errors.ClusterError) -> ReadRefusal:
    named = ", ".join(namespaces[:MAX_NAMED])
    rest = len(namespaces) - MAX_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    label = "namespace" if len(namespaces) == 1 else "namespaces"
    return build_refusal(f"{label} {named}{more}", error)


def build_refusal(scope: str, error: IcdcError) -> ReadRefusal:
    """Return the refusal for an error of the API server."""
    message = error.message
    if isinstance(error, api_errors.NotFound):
        message += f"; the cluster has no kind {naming.KIND}: install the operator's chart"
    return ReadRefusal(scope, message, error.who_acts.value)


@dataclass(frozen=True)
class LocalReader:
    """The pipeline of one state directory."""

    root: Path
    """The state directory."""

    def read(self) -> PageReading:
        """See `PipelineReader`."""
        state, scope, now = StateDir(self.root), f"state directory {self.root}", datetime.now(UTC)
        try:
            resource = state.load()
            # By the file, as a status does not say when it was written.
            saved = state.resource_path.stat().st_mtime if resource else 0.0
        except (IcdcError, OSError) as error:
            return PageReading(
                scope, now, (), (ReadRefusal(scope, str(error), READER),), local=True
            )
        if resource is None:
            message = f"{self.root} holds no pipeline.yaml: no icdc run has used it yet"
            return PageReading(scope, now, (), (ReadRefusal(scope, message, READER),), local=True)
        at = datetime.fromtimestamp(saved, UTC)
        return PageReading(scope, at, (parse_resource(resource),), local=True)


def parse_resource(resource: dict[str, Any]) -> SeenPipeline:
    """Return the pipeline; one whose status another version wrote says so, and is shown."""
    metadata = resource["metadata"]
    namespace = str(metadata.get("namespace") or naming.DEFAULT_NAMESPACE)
    name = str(metadata.get("name") or "")
    try:
        parsed = cluster_status.parse_status_of(resource)
    except BadSpec as error:
        return SeenPipeline(namespace, name, resource, PipelineStatus(), error.message)
    return SeenPipeline(namespace, name, resource, parsed)
