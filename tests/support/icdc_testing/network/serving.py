"""Runs a server of the standard library beside a test, until a block ends."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer

_POLL_SECONDS = 0.02
"""How soon the server notices that it is to stop."""


@contextmanager
def serve_beside(server: BaseServer) -> Iterator[None]:
    """Answer in a thread while the block runs; then stop, and close the socket."""
    args = (_POLL_SECONDS,)
    thread = threading.Thread(target=server.serve_forever, args=args, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
