"""A forward proxy on loopback, as a company has at its edge: tunnels, and plain HTTP passed on.

Whatever name it is asked for, it connects to loopback, so a test can use names that nobody else can
look up: what arrives came through it.
"""

import base64
import contextlib
import socket
import threading
from collections.abc import Iterator
from socketserver import StreamRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

from icdc_testing.network.serving import serve_beside

_SECONDS = 30.0
_LOOPBACK = "127.0.0.1"


class ForwardProxy:
    """`asked` has what it was asked for: `CONNECT host:port` or `GET http://host:port/path`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.port = 0
        self.login: tuple[str, str] | None = None
        """User and password that it demands; None for none."""
        self.refuses = False
        """Whether it answers every request with 403."""
        self.drops = False
        """Whether it closes each connection once it has a request."""

    @property
    def url(self) -> str:
        """Return its URL for clients, with the login."""
        login = "".join(f"{user}:{password}@" for user, password in filter(None, [self.login]))
        return f"http://{login}{_LOOPBACK}:{self.port}"

    def judge(self, headers: dict[str, str]) -> str | None:
        """Return the status of a refusal; None where it does what it is asked for."""
        if self.refuses:
            return "403 Forbidden"
        if self.login is not None:
            wanted = base64.b64encode(":".join(self.login).encode()).decode()
            if headers.get("proxy-authorization") != f"Basic {wanted}":
                return "407 Proxy Authentication Required"
        return None


@contextlib.contextmanager
def forward() -> Iterator[ForwardProxy]:
    """Run one."""
    proxy = ForwardProxy()

    class ForwardHandler(StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                _serve(proxy, self)

    class ForwardServer(ThreadingTCPServer):
        daemon_threads = True

    server = ForwardServer((_LOOPBACK, 0), ForwardHandler)
    proxy.port = server.server_address[1]
    with serve_beside(server):
        yield proxy


def _serve(proxy: ForwardProxy, client: StreamRequestHandler) -> None:
    """Do what one connection asks for: a tunnel, or one request, after which it ends."""
    method, target, version = client.rfile.readline().decode("latin-1").split()
    headers = dict(_read_headers(client))
    proxy.asked.append(f"{method} {target}")
    if proxy.drops:
        return
    refusal = proxy.judge(headers)
    if refusal is not None:
        lines = ("proxy-authenticate: Basic realm=test", "content-length: 0", "connection: close")
        client.wfile.write("\r\n".join((f"HTTP/1.1 {refusal}", *lines, "", "")).encode())
        return
    tunnels = method == "CONNECT"
    address = urlsplit(f"//{target}" if tunnels else target)
    with socket.create_connection((_LOOPBACK, address.port or 80), _SECONDS) as server:
        if tunnels:
            client.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            path = address._replace(scheme="", netloc="").geturl() or "/"
            passed_on = {name: text for name, text in headers.items() if name[:6] != "proxy-"}
            passed_on["connection"] = "close"
            head = "".join(f"{name}: {text}\r\n" for name, text in passed_on.items())
            server.sendall(f"{method} {path} {version}\r\n{head}\r\n".encode("latin-1"))
        back = threading.Thread(target=_pass_on, args=(server, client.connection), daemon=True)
        back.start()
        while data := client.rfile.read1():
            server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)
        back.join(_SECONDS)


def _read_headers(client: StreamRequestHandler) -> Iterator[tuple[str, str]]:
    while line := client.rfile.readline().decode("latin-1").strip():
        name, _, text = line.partition(":")
        yield name.lower(), text.strip()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Send what comes until the source ends, and then end the other side."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
