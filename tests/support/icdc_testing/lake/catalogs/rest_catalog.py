"""A REST catalog that answers as it is told to: the border at which pyiceberg is tested."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from icdc_testing.network.serving import serve_beside

Answer = tuple[int, dict[str, Any]]


class RestCatalog:
    """The answers by path; what is not there is a 404. `requests` has what was asked for."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {"/v1/config": (200, {"defaults": {}, "overrides": {}})}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.port = 0
        self.etags = False
        """Whether answers have an ETag, and a request that names it gets a 304."""
        self.fixed_etag: str | None = None
        """The ETag of every answer, whatever it holds; None for that of its content."""
        self.redirects: dict[str, str] = {}
        """Where requests for a path are sent instead."""

    @property
    def properties(self) -> dict[str, str]:
        """As a pipeline names them."""
        return {"type": "rest", "uri": f"http://127.0.0.1:{self.port}"}

    def put(
        self,
        table: str,
        metadata: dict[str, Any],
        location: str = "s3://nowhere/m.json",
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Serve a table `namespace.name` with that metadata, read from a file at `location`.

        `config` are the properties that the catalog gives with it, as credentials for its files.
        """
        namespace, _, name = table.partition(".")
        answer = {"metadata-location": location, "metadata": metadata, "config": dict(config or {})}
        self.answers[f"/v1/namespaces/{namespace}/tables/{name}"] = (200, answer)

    def refuse(self, status: int, kind: str, text: str = "no") -> None:
        """Answer every request so from now on."""
        error = {"error": {"message": text, "type": kind, "code": status}}
        self.answers = dict.fromkeys(self.answers, (status, error))


@contextmanager
def serve() -> Iterator[RestCatalog]:
    """Serve one on loopback."""
    catalog = RestCatalog()

    class RestCatalogHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            catalog.requests.append((self.path, dict(self.headers)))
            missing = {"error": {"message": "not there", "type": "NoSuchTable", "code": 404}}
            path = self.path.partition("?")[0]
            status, document = catalog.answers.get(path, (404, missing))
            body = json.dumps(document).encode()
            etag = catalog.fixed_etag or f'W/"{hashlib.sha256(body).hexdigest()}"'
            if catalog.etags and self.headers.get("If-None-Match") == etag:
                status, body = 304, b""
            if path in catalog.redirects:
                status = 307
            self.send_response(status)
            if path in catalog.redirects:
                self.send_header("Location", catalog.redirects[path])
            if catalog.etags:
                self.send_header("ETag", etag)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), RestCatalogHandler)
    catalog.port = server.server_port
    with serve_beside(server):
        yield catalog
