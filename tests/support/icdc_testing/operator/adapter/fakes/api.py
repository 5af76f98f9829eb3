"""An API server that holds objects in a dictionary, behind the client library: for unit tests.

It knows just enough of versions, uids, selectors and statuses for the adapter, and does what a
real one does only when something is wrong: it refuses, is slow, or loses its answer. What a real
one does otherwise is shown by the suites on a real one.
"""

import json
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from kubernetes.aio.client import ApiClient

from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.kube.transport import Observer, ignore_request


class FakeAnswer:
    """An answer as the client library has it."""

    def __init__(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.headers = headers or {}
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def read(self) -> bytes:
        return self._body


Fault = Callable[[str, str], FakeAnswer | BaseException | None]
"""Given method and path: what happens in place of the request; None for nothing of that kind."""


class FakeServer:
    """The objects by path. `fault` is asked before each request, `lost` after it."""

    def __init__(self) -> None:
        self.objects: dict[str, Resource] = {}
        self.requests: list[tuple[str, str]] = []
        self.deletions: list[tuple[str, Resource]] = []
        """Paths and options, in the order in which they were asked for."""
        self.fault: Fault = lambda method, path: None
        self.lost: Fault = lambda method, path: None
        self._versions = 0

    def add(self, path: str, resource: Resource) -> None:
        """Put an object where its requests will look for it."""
        self._versions += 1
        metadata = {"uid": f"uid-{self._versions}", **resource["metadata"]}
        metadata["resourceVersion"] = str(self._versions)
        self.objects[path] = {**resource, "metadata": metadata}

    def make_api(self, observer: Observer = ignore_request) -> ClusterApi:
        """Return a client of this server."""
        return ClusterApi(cast(ApiClient, self), observer=observer)

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    async def param_serialize(
        self, method: str, path: str, *, header_params: Any, body: Any, auth_settings: Any
    ) -> tuple[str, str, Any, Any, Any]:
        """Return the arguments of `call_api`, as the client library does."""
        assert auth_settings == ["BearerToken"]
        return method, path, header_params, body, None

    async def call_api(
        self, method: str, url: str, headers: Any, body: Any, _post: Any, _request_timeout: Any
    ) -> FakeAnswer:
        """Answer one request, as the client library does."""
        assert _request_timeout.total is not None
        address = urlsplit(url)
        path = unquote(address.path)
        self.requests.append((method, path))
        fault = self.fault(method, path)
        answer = fault if fault is not None else self._answer(method, path, address.query, body)
        lost = self.lost(method, path)
        for answers in (answer, lost):
            if isinstance(answers, BaseException):
                raise answers
        return lost if isinstance(lost, FakeAnswer) else cast(FakeAnswer, answer)

    def _answer(self, method: str, path: str, query: str, body: Any) -> FakeAnswer:
        if method == "POST" and "dryRun" in query:
            return FakeAnswer(201, body)
        if method == "POST":
            return self._create(f"{path}/{body['metadata']['name']}", body)
        if method == "GET" and parse_qs(query).get("limit"):
            return self._list(path, parse_qs(query).get("labelSelector", [""])[0])
        target = path.removesuffix("/status")
        present = self.objects.get(target)
        if present is None:
            return refuse(404, "not found")
        if method == "DELETE":
            self.deletions.append((target, body))
            if present["metadata"]["uid"] != body["preconditions"]["uid"]:
                return refuse(409, "another uid")
            del self.objects[target]
        if method == "PATCH":
            return self._patch(target, present, body)
        return FakeAnswer(200, present)

    def _create(self, path: str, body: Resource) -> FakeAnswer:
        if path in self.objects:
            return refuse(409, "already exists")
        self.add(path, body)
        return FakeAnswer(201, self.objects[path])

    def _list(self, path: str, selector: str) -> FakeAnswer:
        wanted = dict(pair.split("=") for pair in selector.split(",") if pair)
        items = [
            item
            for at, item in self.objects.items()
            if at.rpartition("/")[0] == path
            and wanted.items() <= (item["metadata"].get("labels") or {}).items()
        ]
        return FakeAnswer(200, {"items": items, "metadata": {}})

    def _patch(self, path: str, present: Resource, body: list[Resource]) -> FakeAnswer:
        version, value = (operation["value"] for operation in body)
        if version != present["metadata"]["resourceVersion"]:
            return refuse(409, "the object has been modified")
        if body[1]["path"] == "/metadata/finalizers":
            self.add(path, {**present, "metadata": {**present["metadata"], "finalizers": value}})
        else:
            self.add(path, {**present, "status": value})
        return FakeAnswer(200, self.objects[path])


def refuse(status: int, message: str, **headers: str) -> FakeAnswer:
    """Return an answer that says no."""
    return FakeAnswer(status, {"kind": "Status", "message": message}, headers)


def make_fault(method: str, part: str, answer: FakeAnswer | BaseException) -> Fault:
    """Return a fault of the requests with that method whose path holds that part."""
    return lambda asked, path: answer if asked == method and part in path else None
