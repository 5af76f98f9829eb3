"""Read and write objects at the API server, as far as the operator and the command line need it.

Plain JSON objects in and out. It knows paths, verbs and selectors, and must not know what an
object means. Raises the errors of `kube.api_errors` only. For one event loop.

    replace_status(pipeline as read at version 7, status)    version is 7: written, now 8
                                                             version is 8: Conflict, nothing written
    delete(uid=u1)                                           uid is u1: deletion requested
                                                             another uid, or none: done
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from icdc_api import naming
from icdc_operator.cluster.kube import api_errors, event_object, kinds
from icdc_operator.cluster.kube.kinds import Kind, Resource
from icdc_operator.cluster.kube.transport import (
    JSON,
    REQUEST_SECONDS,
    Observer,
    Transport,
    ignore_request,
)

if TYPE_CHECKING:
    # Only for its type, see `transport`.
    from kubernetes.aio.client import ApiClient

PAGE_SIZE = 500
"""Objects in one page of a list: bounds the memory of both sides."""

MAX_LISTS = 3
"""Times that a list is started because its pages expired, which the API server's compaction of etcd
makes them do after five minutes by default."""

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

PROBE = f"{naming.SHORT_NAME}-probe"
"""Name of a ConfigMap that is never created: for dry runs."""

TERMINATING = "because it is being terminated"
"""The end of the message with which a terminating namespace refuses a new object (status 403). A
missing permission has the same status, so only the text tells the two apart."""

DRIVER_SELECTOR = "spark-role=driver"
"""Label that Spark gives to driver pods."""


class ClusterApi:
    """Requests to one API server. `client` has its address and the credentials."""

    def __init__(
        self,
        client: "ApiClient",
        *,
        observer: Observer = ignore_request,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._transport = Transport(client, observer, request_seconds)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def get_pipeline(self, namespace: str, name: str) -> Resource | None:
        """Return the pipeline as it is now; None if there is none of that name."""
        return await self.get(kinds.PIPELINE, namespace, name)

    async def list_applications(self, namespace: str, pipeline: str) -> list[Resource]:
        """Return the SparkApplications of a pipeline; none if spark-operator is not installed."""
        selector = _select_pipeline(pipeline)
        try:
            return await self.list_objects(kinds.APPLICATION, namespace, selector=selector)
        except api_errors.NotFound:
            # No CRD, no objects. Creating a run reports the missing spark-operator.
            return []

    async def list_driver_pods(self, namespace: str, pipeline: str) -> list[Resource]:
        """Return the driver pods of a pipeline, with or without their SparkApplications."""
        selector = f"{_select_pipeline(pipeline)},{DRIVER_SELECTOR}"
        return await self.list_objects(kinds.POD, namespace, selector=selector)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Resource | None:
        """Return the object as it is now; None if it does not exist.

        Without resourceVersion, so that the server reads etcd and not its cache.
        """
        try:
            return await self._transport.ask(
                "get", kind.plural, method="GET", path=kind.build_path(namespace, name)
            )
        except api_errors.NotFound:
            return None

    async def list_objects(
        self, kind: Kind, namespace: str | None, *, selector: str = "", accept: str = JSON
    ) -> list[Resource]:
        """Return all objects that the label selector selects; NotFound for an unknown kind.

        `namespace` None: of all. `accept` METADATA_ONLY: far less to send and to hold.
        """
        for _ in range(MAX_LISTS - 1):
            try:
                return await self._list_pages(kind, namespace, selector, accept)
            except api_errors.Expired:
                continue  # etcd compacted the version of the first pages: start again
        return await self._list_pages(kind, namespace, selector, accept)

    async def create(self, resource: Resource) -> Resource:
        """Create the object and return it; Conflict if one of its name exists."""
        kind = kinds.find_kind(resource)
        path = kind.build_path(resource["metadata"]["namespace"])
        return await self._transport.ask(
            "create", kind.plural, method="POST", path=path, body=resource
        )

    async def takes_objects(self, namespace: str) -> bool:
        """Return whether objects can be created in the namespace: not while it is being deleted."""
        # Other errors are no evidence, and no reason for a reconcile to fail.
        error = await self.try_to_create(namespace)
        return not isinstance(error, api_errors.Denied) or TERMINATING not in error.message

    async def try_to_create(self, namespace: str) -> api_errors.ClusterError | None:
        """Return why no object can be created in the namespace, by a dry run; None if one can.

        Reading namespaces would take a permission in the whole cluster.
        """
        # A ConfigMap, because the operator may create those anyway.
        metadata = {"name": PROBE, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": kinds.CONFIG_MAP.name, "metadata": metadata}
        path = f"{kinds.CONFIG_MAP.build_path(namespace)}?dryRun=All"
        try:
            plural = kinds.CONFIG_MAP.plural
            await self._transport.ask("create", plural, method="POST", path=path, body=body)
        except api_errors.ClusterError as error:
            return error
        return None

    async def list_server_hosts(self) -> list[str]:
        """Return the hosts at which the API server says that it answers, without ports.

        Discovery, which the built-in role `system:discovery` gives to everybody who is logged in.
        """
        answer = await self._transport.ask("get", "apiversions", method="GET", path="/api")
        entries = answer.get("serverAddressByClientCIDRs") or ()
        hosts = (urlsplit(f"//{entry.get('serverAddress') or ''}").hostname for entry in entries)
        return [host for host in hosts if host]

    async def ask(self, method: str, path: str, body: Resource | None = None) -> Resource:
        """Send a request that is about no stored object, such as GET /version."""
        name = path.rpartition("/")[2]
        return await self._transport.ask("ask", name, method=method, path=path, body=body)

    async def replace(self, resource: Resource) -> Resource:
        """Write the whole object; Conflict if its resourceVersion is not the newest."""
        kind, metadata = kinds.find_kind(resource), resource["metadata"]
        path = kind.build_path(metadata["namespace"], metadata["name"])
        return await self._transport.ask(
            "update", kind.plural, method="PUT", path=path, body=resource
        )

    async def merge_patch(
        self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> Resource:
        """Merge `patch` into the object, whatever its version; NotFound if it does not exist."""
        path = kind.build_path(namespace, name)
        return await self._transport.ask(
            "patch", kind.plural, method="PATCH", path=path, body=patch, content=MERGE_PATCH
        )

    async def replace_status(self, pipeline: Resource, status: Resource) -> Resource:
        """Write the status of a pipeline and return the pipeline as it is then.

        Raises Conflict if it was written since it was read, NotFound if it was deleted.
        """
        # "add" also replaces: a "replace" would fail where there is no status yet. The whole
        # status, because a merge would retain fields that this status no longer has.
        change = {"op": "add", "path": "/status", "value": status}
        return await self._patch_as_read(pipeline, change, "status")

    async def replace_finalizers(self, pipeline: Resource, finalizers: Sequence[str]) -> None:
        """Write the finalizers of a pipeline; nothing to do if it was deleted.

        Raises Conflict if it was written since it was read.
        """
        change = {"op": "add", "path": "/metadata/finalizers", "value": list(finalizers)}
        with contextlib.suppress(api_errors.NotFound):
            await self._patch_as_read(pipeline, change)

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None
    ) -> None:
        """Delete the object of that uid; what it owns follows in the background.

        Nothing to do if it does not exist. `grace_seconds` None: as the object says. 0: at once,
        without waiting for its processes. Conflict if the server refuses.
        """
        options: Resource = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            # By uid: since it was read, another object may have been created by that name.
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            path = kind.build_path(namespace, name)
            await self._transport.ask(
                "delete", kind.plural, method="DELETE", path=path, body=options
            )
        except api_errors.NotFound:
            return
        except api_errors.Conflict:
            present = await self.get(kind, namespace, name)
            if present is not None and present["metadata"]["uid"] == uid:
                raise
            # The precondition failed because another object has the name now: ours is deleted.

    async def create_event(
        self, pipeline: Resource, *, name: str, reason: str, message: str, warning: bool
    ) -> None:
        """Post one Event about the pipeline; Conflict if one of that name exists."""
        event = event_object.build_event(
            pipeline, name=name, reason=reason, message=message, warning=warning
        )
        await self.create(event)

    async def read_log(self, namespace: str, pod: str, tail: int, *, container: str = "") -> str:
        """Return the last `tail` lines of a pod's log; NotFound if there is no such pod."""
        path = _build_log_path(namespace, pod, tail, container=container)
        return "".join(
            [line async for line in self._transport.read_lines("get", "pods", path=path)]
        )

    async def follow_log(
        self, namespace: str, pod: str, tail: int, *, container: str = ""
    ) -> AsyncIterator[str]:
        """Yield the last `tail` lines of a pod's log and all that follow, to its end."""
        path = _build_log_path(namespace, pod, tail, container=container, follow=True)
        async for line in self._transport.read_lines("get", "pods", path=path):
            yield line

    async def _patch_as_read(
        self, pipeline: Resource, change: Mapping[str, Any], below: str = ""
    ) -> Resource:
        metadata = pipeline["metadata"]
        path = kinds.PIPELINE.build_path(metadata["namespace"], metadata["name"], below=below)
        version = metadata["resourceVersion"]
        # A JSON patch that "replaces" resourceVersion by the one that was read is how Kubernetes
        # spells compare-and-set: for an object in another version it refuses the whole patch.
        same = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        return await self._transport.ask(
            "patch",
            kinds.PIPELINE.plural,
            method="PATCH",
            path=path,
            body=[same, change],
            content=JSON_PATCH,
        )

    async def _list_pages(
        self, kind: Kind, namespace: str | None, selector: str, accept: str
    ) -> list[Resource]:
        items: list[Resource] = []
        query = {"limit": str(PAGE_SIZE)}
        if selector:
            query["labelSelector"] = selector
        while True:
            path = f"{kind.build_path(namespace)}?{urlencode(query)}"
            page = await self._transport.ask(
                "list", kind.plural, method="GET", path=path, accept=accept
            )
            # Items in lists of built-in kinds come without apiVersion and kind.
            kind_fields = {"apiVersion": kind.api_version, "kind": kind.name}
            items += [{**item, **kind_fields} for item in page.get("items") or ()]
            token = page.get("metadata", {}).get("continue")
            if not token:
                return items
            query["continue"] = token


def _select_pipeline(name: str) -> str:
    return f"{naming.LABEL_MANAGED_BY}={naming.MANAGED_BY},{naming.LABEL_PIPELINE}={name}"


def _build_log_path(
    namespace: str, pod: str, tail: int, *, container: str, follow: bool = False
) -> str:
    query = {"tailLines": str(tail)}
    if container:
        query["container"] = container
    if follow:
        query["follow"] = "true"
    return f"{kinds.POD.build_path(namespace, pod, below='log')}?{urlencode(query)}"
