"""The API server, as narrow as the operator and the command line need it: plain objects in and out.

Knows paths, verbs and selectors; what the objects mean is not known here. Raises the errors of
`cluster.errors` only. For one event loop.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from kubernetes.aio.client import ApiClient

from icdc_api import naming
from icdc_operator.cluster.kube import errors, kinds
from icdc_operator.cluster.kube.kinds import Kind, Resource
from icdc_operator.cluster.kube.transport import (
    JSON,
    REQUEST_SECONDS,
    Observer,
    Transport,
    ignore_request,
)

PAGE_SIZE = 500
"""Objects of one answer to a list: bounds what both sides hold at once."""

MAX_LISTS = 3
"""Times that a list is begun anew because its pages expired."""

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

PROBE = f"{naming.SHORT_NAME}-probe"
"""Name of a ConfigMap that is never made."""

TERMINATING = "because it is being terminated"
"""What a namespace that is being deleted answers to whoever makes something in it."""

DRIVER_SELECTOR = "spark-role=driver"
"""Label that Spark gives to driver pods."""

MAX_NOTE = 1000
"""Bytes of an event's text; the API server takes 1024."""


class ClusterApi:
    """Requests to one API server. `client` has the address and the credentials."""

    def __init__(
        self,
        client: ApiClient,
        *,
        observer: Observer = ignore_request,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._transport = Transport(client, observer, request_seconds)

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def get_pipeline(self, namespace: str, name: str) -> Resource | None:
        """The pipeline as it is now; None when there is none of that name."""
        return await self.get(kinds.PIPELINE, namespace, name)

    async def list_pipelines(self, namespace: str | None, *, whole: bool = True) -> list[Resource]:
        """The pipelines of a namespace, or of all by None.

        `whole` False: with nothing but their metadata, which is far less to send and to hold.
        """
        accept = JSON if whole else METADATA_ONLY
        return await self.list_objects(kinds.PIPELINE, namespace, accept=accept)

    async def list_applications(self, namespace: str, pipeline: str) -> list[Resource]:
        """The SparkApplications of a pipeline; none where the cluster does not know the kind."""
        selector = _of_pipeline(pipeline)
        try:
            return await self.list_objects(kinds.APPLICATION, namespace, selector=selector)
        except errors.NotFound:
            # Without spark-operator there is nothing to find; creating a run will say so.
            return []

    async def list_driver_pods(self, namespace: str, pipeline: str) -> list[Resource]:
        """The driver pods of a pipeline, whether their SparkApplications are there or not."""
        selector = f"{_of_pipeline(pipeline)},{DRIVER_SELECTOR}"
        return await self.list_objects(kinds.POD, namespace, selector=selector)

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """The object as it is now, read from the store itself; None when it is not there."""
        try:
            return await self._transport.ask("get", kind.plural, "GET", kind.path(namespace, name))
        except errors.NotFound:
            return None

    async def list_objects(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        selector: str = "",
        accept: str = JSON,
    ) -> list[Resource]:
        """All objects whose labels the selector selects, in pages; NotFound for an unknown kind."""
        for _ in range(MAX_LISTS - 1):
            try:
                return await self._listed(kind, namespace, selector, accept)
            except errors.Gone:
                continue  # the first pages are too old for the next one: take them all anew
        return await self._listed(kind, namespace, selector, accept)

    async def create(self, resource: Resource) -> Resource:
        """Creates the object; Conflict when one of its name exists."""
        kind = kinds.of(resource)
        path = kind.path(resource["metadata"]["namespace"])
        return await self._transport.ask("create", kind.plural, "POST", path, body=resource)

    async def takes_objects(self, namespace: str) -> bool:
        """Whether objects can be made in the namespace, which is not so once it is being deleted.

        Asked by a dry run, which needs no right beyond those for runs.
        """
        metadata = {"name": PROBE, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": kinds.CONFIG_MAP.name, "metadata": metadata}
        path = f"{kinds.CONFIG_MAP.path(namespace)}?dryRun=All"
        try:
            plural = kinds.CONFIG_MAP.plural
            await self._transport.ask("create", plural, "POST", path, body=body)
        except errors.Denied as error:
            return TERMINATING not in error.message
        except errors.ClusterError:
            return True  # nothing that says so, and nothing that a look must fail by
        return True

    async def server_hosts(self) -> list[str]:
        """Return the hosts at which the API server says that it answers, without ports.

        Discovery, which the built-in role `system:discovery` gives to everybody who is logged in.
        """
        answer = await self._transport.ask("get", "apiversions", "GET", "/api")
        entries = answer.get("serverAddressByClientCIDRs") or ()
        hosts = (urlsplit(f"//{entry.get('serverAddress') or ''}").hostname for entry in entries)
        return [host for host in hosts if host]

    async def replace(self, resource: Resource) -> Resource:
        """Writes the whole object; Conflict when its resourceVersion is not the newest."""
        kind, metadata = kinds.of(resource), resource["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self._transport.ask("update", kind.plural, "PUT", path, body=resource)

    async def merge_patch(
        self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> Resource:
        """Merges `patch` into the object, whatever its version; NotFound when it is not there."""
        path = kind.path(namespace, name)
        return await self._transport.ask(
            "patch", kind.plural, "PATCH", path, body=patch, content=MERGE_PATCH
        )

    async def replace_status(self, pipeline: Resource, status: Resource) -> Resource:
        """Makes `status` that of the pipeline, as it was read; the pipeline as it is then.

        Conflict when the pipeline was written since, and NotFound when it is gone.
        """
        change = {"op": "add", "path": "/status", "value": status}
        return await self._patch_as_read(pipeline, change, "status")

    async def replace_finalizers(self, pipeline: Resource, finalizers: Sequence[str]) -> None:
        """Makes these the finalizers of the pipeline, as it was read; fine when it is gone.

        Conflict when the pipeline was written since.
        """
        change = {"op": "add", "path": "/metadata/finalizers", "value": list(finalizers)}
        with contextlib.suppress(errors.NotFound):
            await self._patch_as_read(pipeline, change)

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None
    ) -> None:
        """Deletes the object of that uid, what it owns in the background; fine when it is gone.

        `grace_seconds` None: what the object says. 0: at once, without waiting for its processes.
        Conflict when the server refuses although the object is there.
        """
        options: Resource = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            path = kind.path(namespace, name)
            await self._transport.ask("delete", kind.plural, "DELETE", path, body=options)
        except errors.NotFound:
            return
        except errors.Conflict:
            present = await self.get(kind, namespace, name)
            if present is not None and present["metadata"]["uid"] == uid:
                raise
            # Gone, or an object of another uid has the name now.

    async def create_event(
        self, pipeline: Resource, *, name: str, reason: str, message: str, warning: bool
    ) -> None:
        """Posts one event about the pipeline; Conflict when one of that name exists."""
        about = pipeline["metadata"]
        await self.create(
            {
                "apiVersion": kinds.EVENT.api_version,
                "kind": kinds.EVENT.name,
                "metadata": {"name": name, "namespace": about["namespace"]},
                "eventTime": datetime.now(UTC).isoformat(timespec="microseconds"),
                "reportingController": f"{naming.GROUP}/{naming.MANAGED_BY}",
                "reportingInstance": naming.MANAGED_BY,
                "action": "Reconcile",
                "reason": reason,
                "note": _noted(message),
                "type": "Warning" if warning else "Normal",
                "regarding": {
                    "apiVersion": naming.API_VERSION,
                    "kind": naming.KIND,
                    "namespace": about["namespace"],
                    "name": about["name"],
                    "uid": about["uid"],
                },
            }
        )

    async def read_log(self, namespace: str, pod: str, tail: int, *, container: str = "") -> str:
        """The last `tail` lines of a pod's log; NotFound when the pod is gone."""
        path = _log_path(namespace, pod, tail, container=container)
        return "".join([line async for line in self._transport.lines("get", "pods", path)])

    async def follow_log(
        self, namespace: str, pod: str, tail: int, *, container: str = ""
    ) -> AsyncIterator[str]:
        """The last `tail` lines of a pod's log and all that follow, until its container ends."""
        path = _log_path(namespace, pod, tail, container=container, follow=True)
        async for line in self._transport.lines("get", "pods", path):
            yield line

    async def _patch_as_read(
        self, pipeline: Resource, change: Mapping[str, Any], below: str = ""
    ) -> Resource:
        metadata = pipeline["metadata"]
        path = kinds.PIPELINE.path(metadata["namespace"], metadata["name"], below)
        version = metadata["resourceVersion"]
        # Of an object with another version the server refuses the whole patch.
        same = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        return await self._transport.ask(
            "patch", kinds.PIPELINE.plural, "PATCH", path, body=[same, change], content=JSON_PATCH
        )

    async def _listed(
        self, kind: Kind, namespace: str | None, selector: str, accept: str
    ) -> list[Resource]:
        items: list[Resource] = []
        query = {"limit": str(PAGE_SIZE)}
        if selector:
            query["labelSelector"] = selector
        while True:
            path = f"{kind.path(namespace)}?{urlencode(query)}"
            page = await self._transport.ask("list", kind.plural, "GET", path, accept=accept)
            # The objects of a list of built-in kinds do not say of which kind they are.
            known = {"apiVersion": kind.api_version, "kind": kind.name}
            items += [{**each, **known} for each in page.get("items") or ()]
            token = page.get("metadata", {}).get("continue")
            if not token:
                return items
            query["continue"] = token


def _of_pipeline(name: str) -> str:
    return f"{naming.LABEL_MANAGED_BY}={naming.MANAGED_BY},{naming.LABEL_PIPELINE}={name}"


def _log_path(namespace: str, pod: str, tail: int, *, container: str, follow: bool = False) -> str:
    query = {"tailLines": str(tail)}
    if container:
        query["container"] = container
    if follow:
        query["follow"] = "true"
    return f"{kinds.POD.path(namespace, pod, 'log')}?{urlencode(query)}"


def _noted(message: str) -> str:
    """`message` within the limit of the API server, which counts bytes."""
    return message.encode()[:MAX_NOTE].decode(errors="ignore")
