"""A server that accepts every connection and answers none, as a catalog that hangs."""

import socket
import threading
from types import TracebackType
from typing import Self


class SilentServer:
    """A context manager; at its end all connections are broken, so that who waits goes on."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        """The URL at which it accepts connections."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    @property
    def connections(self) -> int:
        """Number of clients that wait for an answer."""
        return len(self._open)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._thread.join()
        self._listening.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        self._listening.settimeout(0.1)
        while not self._closed.is_set():
            try:
                taken, _ = self._listening.accept()
            except TimeoutError:
                pass
            else:
                self._open.append(taken)
