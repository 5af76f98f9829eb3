"""An API server of a few objects on loopback, for commands that ask it a question or two.

Has merge patches with their check of resourceVersion, label selectors and logs; no schema, no
watches. What only a real API server can show is tested against one, at the level `api`.
"""

import copy
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from icdc_api import naming

Object = dict[str, Any]


class ApiStub:
    """What the server holds, and what it was asked."""

    def __init__(self) -> None:
        self.pipelines: dict[tuple[str, str], Object] = {}
        self.crd: Object | None = None
        self.pods: list[Object] = []
        self.logs: dict[str, list[str]] = {}
        self.documents: dict[str, Object] = {}
        """Answers to GET by their paths, for kinds that have no place above."""
        self.failure: tuple[int, str] | None = None
        """Status and message of every answer, when set."""
        self.denied: set[str] = set()
        """Namespaces whose pipelines may not be listed. `*`: no list of all of them at once;
        `namespaces`: no list of namespaces."""
        self.log_failure: tuple[int, str] | None = None
        self.before_patch: Callable[[Object], None] = lambda _: None
        """Somebody else, who is faster."""
        self.after_patch: Callable[[Object], None] = lambda _: None
        """Somebody else, who has seen it."""
        self.asked: list[str] = []
        """Method and target of every request."""
        self.url = ""

    def add_pipeline(self, document: Object, namespace: str = "default") -> Object:
        """Put a pipeline there, as if applied."""
        defaults = {
            "namespace": namespace,
            "uid": "u-1",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
        }
        pipeline = {
            "apiVersion": naming.API_VERSION,
            "kind": naming.KIND,
            **document,
            "metadata": {**defaults, **document["metadata"]},
        }
        self.pipelines[namespace, pipeline["metadata"]["name"]] = pipeline
        return pipeline

    def answer(self, method: str, target: str, body: Object | None) -> tuple[int, Any]:
        """Return status and document, or status and lines of text."""
        self.asked.append(f"{method} {target}")
        if self.failure is not None:
            return _make_failure(*self.failure)
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        match url.path.strip("/").split("/"):
            case ["apis", naming.GROUP, naming.VERSION, "namespaces", ns, naming.PLURAL, name]:
                return self._answer_pipeline(self.pipelines.get((ns, name)), method, body)
            case ["apis", naming.GROUP, naming.VERSION, "namespaces", ns, naming.PLURAL]:
                return self._list_pipelines(ns, query)
            case ["apis", naming.GROUP, naming.VERSION, naming.PLURAL]:
                return self._list_pipelines("*", query)
            case ["api", "v1", "namespaces"] if "namespaces" not in self.denied:
                names = sorted({ns for ns, _ in self.pipelines} | self.denied - {"*"})
                return 200, {"items": [{"metadata": {"name": ns}} for ns in names], "metadata": {}}
            case ["apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions", _]:
                return (200, self.crd) if self.crd else _make_failure(404, "not found")
            case ["api", "v1", "namespaces", ns, "pods"]:
                wanted = dict(pair.split("=") for pair in query["labelSelector"].split(","))
                pods = [p for p in self.pods if p["metadata"]["namespace"] == ns]
                return 200, {"items": [p for p in pods if _has(p, wanted)], "metadata": {}}
            case ["api", "v1", "namespaces", _, "pods", name, "log"]:
                if self.log_failure is not None:
                    return _make_failure(*self.log_failure)
                lines, tail = self.logs[name], int(query["tailLines"])
                return 200, lines[len(lines) - tail :] if tail else []
        return _make_failure(404, f"no such path: {target}")

    def _list_pipelines(self, namespace: str, query: Mapping[str, str]) -> tuple[int, Any]:
        if namespace in self.denied:
            message = f'jane cannot list resource "{naming.PLURAL}" in API group "{naming.GROUP}"'
            return _make_failure(403, message)
        pairs = [pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair]
        listed = [
            pipeline
            for (ns, _), pipeline in sorted(self.pipelines.items())
            if namespace in (ns, "*") and _has(pipeline, dict(pairs))
        ]
        return 200, {"items": listed, "metadata": {}}

    def find_document(self, method: str, target: str) -> tuple[int, Any] | None:
        """Return an answer for a kind without a place above; None if there is none."""
        path = urlsplit(target).path
        if method == "POST" and self.failure is None:
            return 201, {"status": {"allowed": True}}  # a review of access: nothing else is posted
        document = None if self.failure else self.documents.get(path)
        return None if document is None else (200, document)

    def _answer_pipeline(
        self, pipeline: Object | None, method: str, patch: Object | None
    ) -> tuple[int, Any]:
        if pipeline is None:
            return _make_failure(404, "not found")
        if method == "PATCH":
            self.before_patch(pipeline)
            version = (patch or {}).get("metadata", {}).get("resourceVersion")
            if version not in (None, pipeline["metadata"]["resourceVersion"]):
                return _make_failure(409, "the object has been modified")
            _merge(pipeline, patch or {})
            touch(pipeline)
            answer = copy.deepcopy(pipeline)
            self.after_patch(pipeline)
            return 200, answer
        return 200, pipeline


def touch(pipeline: Object) -> None:
    """Give the pipeline another version, as if it was written."""
    metadata = pipeline["metadata"]
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)


def make_driver_pod(name: str, run: str, *, created: str, pipeline: str = "shop") -> Object:
    """Return the driver's pod of a run."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "creationTimestamp": created,
            "labels": {
                "app.kubernetes.io/managed-by": naming.MANAGED_BY,
                naming.LABEL_PIPELINE: pipeline,
                naming.LABEL_RUN: run,
                "spark-role": "driver",
            },
        }
    }


@contextmanager
def serve_stub(stub: ApiStub) -> Iterator[None]:
    """Answer on a free port of loopback, which is then in `stub.url`."""

    class ApiStubHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def do_PATCH(self) -> None:
            assert self.headers["content-type"] == "application/merge-patch+json"
            self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _answer(self, body: Object | None) -> None:
            document = stub.find_document(self.command, self.path)
            status, answer = document or stub.answer(self.command, self.path, body)
            lines = isinstance(answer, list)
            text = "".join(answer) if lines else json.dumps(answer)
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", "text/plain" if lines else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), ApiStubHandler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _has(labelled: Object, labels: Mapping[str, str]) -> bool:
    own = labelled["metadata"].get("labels") or {}
    return all(own.get(key) == value for key, value in labels.items())


def _make_failure(status: int, message: str) -> tuple[int, Object]:
    return status, {"kind": "Status", "code": status, "message": message}


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
