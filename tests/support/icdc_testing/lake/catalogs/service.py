"""The service of a catalog as far as the question for one table, which it does not have.

With `vends` it has the table, and credentials for its files, none of which is there. It plays REST
with OAuth2, Glue, DynamoDB, Nessie and S3 at once, and notes what it is asked for: the border at
which the examples of docs/catalogs.md are tested.
"""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from icdc_testing.network.serving import serve_beside

TOKEN = "token-of-the-test"
VENDED = "AKIDVENDED"
MANIFESTS = "/lake/orders/manifests.avro"
"""The first file of the table that a reader asks for, as a path of S3."""
_TARGET = "x-amz-target"

_NO_TABLE = (404, {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}})
_NO_BRANCH = (
    404,
    {"status": 404, "reason": "Not Found", "message": "no", "errorCode": "REFERENCE_NOT_FOUND"},
)
_NESSIE = {
    "defaultBranch": "main",
    "minSupportedApiVersion": 1,
    "maxSupportedApiVersion": 2,
    "actualApiVersion": 2,
    "specVersion": "2.2.0",
}
_METADATA: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": "5f3b1c0e-0000-4000-8000-000000000001",
    "location": "s3://lake/orders",
    "last-sequence-number": 1,
    "last-updated-ms": 1,
    "last-column-id": 1,
    "current-schema-id": 0,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
        }
    ],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "last-partition-id": 999,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "current-snapshot-id": 7,
    "snapshots": [
        {
            "snapshot-id": 7,
            "sequence-number": 1,
            "timestamp-ms": 1,
            "manifest-list": f"s3:/{MANIFESTS}",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
    ],
    "refs": {"main": {"snapshot-id": 7, "type": "branch"}},
}
_OF_AWS: dict[str, tuple[int, dict[str, Any]]] = {
    "AWSGlue.GetTable": (400, {"__type": "EntityNotFoundException", "message": "no"}),
    "DynamoDB_20120810.DescribeTable": (200, {"Table": {"TableStatus": "ACTIVE"}}),
    "DynamoDB_20120810.GetItem": (200, {}),
}


@dataclass(frozen=True)
class CatalogRequest:
    """What somebody asked for."""

    what: str
    """`GET /path?query`; with the operation, where AWS has it in a header."""
    headers: dict[str, str]
    """By names in lower case."""
    body: str


class CatalogService:
    """`requests` has them all, in their order.

    `denied` refuses them, `vends` answers with the table, `item` is in DynamoDB, `glue` a table
    of Glue.
    """

    def __init__(self) -> None:
        self.requests: list[CatalogRequest] = []
        self.url = ""
        self.denied = False
        self.vends = False
        self.item: dict[str, Any] | None = None
        self.glue: dict[str, Any] | None = None

    @property
    def asked(self) -> list[str]:
        """Return the requested paths, without the parameters about a table's history."""
        return [
            request.what.partition("?snapshots=")[0].partition("?fetch=")[0] for request in self.all
        ]

    @property
    def all(self) -> list[CatalogRequest]:
        """A copy: requests may still come."""
        return list(self.requests)

    def answer(self, request: CatalogRequest) -> tuple[int, dict[str, Any]]:
        """Note the request."""
        self.requests.append(request)
        operation = request.headers.get(_TARGET)
        path = request.what.split()[1].partition("?")[0]
        if self.denied:
            text = "The security token included in the request is invalid"
            return 400, {"__type": "UnrecognizedClientException", "message": text}
        if self.item is not None and (operation or "").endswith(".GetItem"):
            return 200, {"Item": self.item}
        if self.glue is not None and operation == "AWSGlue.GetTable":
            return 200, {"Table": self.glue}
        if operation is not None:
            return _OF_AWS[operation]
        if "/token" in path:
            return 200, {"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600}
        if path.startswith("/api/v2/"):
            return (200, _NESSIE) if path.endswith("/config") else _NO_BRANCH
        if path.endswith("/v1/config"):
            return 200, {"defaults": {}, "overrides": {}}
        if self.vends and "/tables/" in path:
            return 200, self._make_table()
        return _NO_TABLE

    def _make_table(self) -> dict[str, Any]:
        """Return a table of one snapshot, in a bucket of this very service."""
        files = {"s3.endpoint": self.url, "s3.path-style-access": "true", "client.region": "r"}
        keys = {"s3.access-key-id": VENDED, "s3.secret-access-key": "none"}
        location = {"metadata-location": "s3://lake/orders/metadata.json"}
        return {**location, "metadata": _METADATA, "config": {**files, **keys}}


@contextmanager
def serve(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[CatalogService]:
    """Serve one on loopback, which is `host`; by https with `tls`."""
    service = CatalogService()

    class CatalogServiceHandler(BaseHTTPRequestHandler):
        def _answer_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            what = " ".join(filter(None, (self.command, self.path, headers.get(_TARGET))))
            status, document = service.answer(
                CatalogRequest(what, headers, self.rfile.read(length).decode())
            )
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = _answer_any  # noqa: N815 - the names that the library calls

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class CatalogServer(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = CatalogServer((host, 0), CatalogServiceHandler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    shown = f"[{host}]" if ":" in host else host
    service.url = f"{'https' if tls else 'http'}://{shown}:{server.server_port}"
    with serve_beside(server):
        yield service
