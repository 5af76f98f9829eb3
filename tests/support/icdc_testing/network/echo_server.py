"""A server on loopback that answers every request with its path and the host that it names."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from icdc_testing.network.serving import serve_beside


class EchoHandler(BaseHTTPRequestHandler):
    """Answers as JSON, as OpenSearch would."""

    def do_GET(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.dumps({"path": self.path, "host": self.headers["host"]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that the library calls

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def echo(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[int]:
    """Serve on a free port of `host`, by https with `tls`."""

    class EchoServer(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = EchoServer((host, 0), EchoHandler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with serve_beside(server):
        yield server.server_port
