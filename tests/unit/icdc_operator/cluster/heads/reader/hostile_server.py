"""A REST catalog whose answer for a table has no end, no hurry, or no measure."""

import gzip
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from icdc_testing.network.serving import serve_beside

_CONFIG = b'{"defaults": {}, "overrides": {}}'
_MEGABYTE = 2**20


def _repeat_forever() -> Iterator[bytes]:
    return itertools.repeat(b" " * _MEGABYTE)


def _drip() -> Iterator[bytes]:
    while True:
        yield b" "
        time.sleep(0.05)


def _stay_silent() -> Iterator[bytes]:
    threading.Event().wait()
    yield b""


def _repeat_brackets() -> Iterator[bytes]:
    """Below the limit of bytes, far beyond that of memory once it is understood."""
    yield b'{"metadata": {"format-version": 2, "x": [[]'
    yield from itertools.repeat(b",[]" * (_MEGABYTE // 3), 60)
    yield b"]}}"


def _nest_deeply() -> Iterator[bytes]:
    yield b'{"metadata": {"format-version": 2, "x": ' + b"[" * _MEGABYTE


def _list_branches() -> Iterator[bytes]:
    yield b'{"metadata": {"format-version": 2, "refs": {"b": {"snapshot-id": 1, "type": "branch"}'
    for number in range(20_000):
        yield b',"b%d": {"snapshot-id": 1, "type": "branch"}' % number
    yield b"}}}"


def _compress_much() -> Iterator[bytes]:
    """Yield a megabyte that becomes a gigabyte."""
    yield gzip.compress(b" " * (1024 * _MEGABYTE), 1)


BODIES = {
    "endless": _repeat_forever,
    "dripping": _drip,
    "silent": _stay_silent,
    "brackets": _repeat_brackets,
    "deep": _nest_deeply,
    "branches": _list_branches,
    "bomb": _compress_much,
}


@contextmanager
def run_server(kind: str) -> Iterator[str]:
    """Serve one on loopback; its address."""

    class HostileHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if self.path.startswith("/v1/config"):
                self.send_header("Content-Length", str(len(_CONFIG)))
                self.end_headers()
                self.wfile.write(_CONFIG)
                return
            if kind == "bomb":
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            with suppress(OSError):
                for chunk in BODIES[kind]():
                    self.wfile.write(chunk)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), HostileHandler)
    server.daemon_threads = True
    server.block_on_close = False
    with serve_beside(server):
        yield f"http://127.0.0.1:{server.server_port}"
