"""Speaks the DevTools protocol with Chromium over two pipes: JSON, each message ended by a NUL.

Why not Selenium or Playwright: the protocol is the one thing that says which requests a page made
and what its policy refused, pipes need no port that another process could reach, and the whole of
it is this file. Knows no page.
"""

import json
import os
import select
import time
from collections.abc import Callable
from typing import Any

ANSWER_SECONDS = 60.0
"""How long a browser may take for an answer, on a host with much other work."""
_CHUNK = 1 << 16

Message = dict[str, Any]


class RefusedError(Exception):
    """The browser could not do what was asked, such as a script on a page that is being left."""


class DevTools:
    """One connection to a browser. `on_event` gets each event as it is read."""

    def __init__(self, reading: int, writing: int, on_event: Callable[[Message], None]) -> None:
        self._reading = reading
        self._writing = writing
        self._on_event = on_event
        self._count = 0
        self._buffer = b""

    def call(self, method: str, session: str = "", **parameters: Any) -> Message:
        """Return the result of a method; RefusedError, with what the browser says, for none."""
        number = self.send(method, session, **parameters)
        deadline = time.monotonic() + ANSWER_SECONDS
        while (message := self._read(deadline, method)).get("id") != number:
            self._on_event(message)
        if "error" in message:
            raise RefusedError(f"{method}: {message['error']['message']}")
        result: Message = message["result"]
        return result

    def send(self, method: str, session: str = "", **parameters: Any) -> int:
        """Ask for a method without waiting for its end; return the number of the request."""
        self._count += 1
        request = {"id": self._count, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self._writing, json.dumps(request).encode() + b"\0")
        return self._count

    def _read(self, deadline: float, method: str) -> Message:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._reading], [], [], max(0.0, left))
            assert ready, f"the browser has not answered {method} in {ANSWER_SECONDS} s"
            chunk = os.read(self._reading, _CHUNK)
            assert chunk, f"the browser has ended, and not answered {method}"
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: Message = json.loads(text)
        return message
