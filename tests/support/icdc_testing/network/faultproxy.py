"""A proxy in front of a real OpenSearch node that plays faults and records what was written.

Runs in a thread of the test process, so that rules are plain Python calls and a test can hold a
request at an exact point. What reaches the node and what the node answers is real.
"""

import asyncio
import base64
import json
import socket
import ssl
import struct
import threading
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from icdc_testing.network.exchange import ConnectionEndError, Exchange
from icdc_testing.network.faults import Action, Hold, Rule, Status
from icdc_testing.network.http_messages import HttpRequest, Response, exchange, read_request
from icdc_testing.network.recorded_writes import Write, list_writes

_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Seen:
    """One request that reached the proxy: `status` is the answer's, 0 where none was sent."""

    method: str
    target: str
    size: int
    body: bytes
    opaque_id: str
    forwarded: bool
    fault: str
    status: int
    arrived: float
    """When the whole request was here, by the monotonic clock, in seconds."""

    def parse_body(self) -> object:
        """Return the body as JSON; None where there is none."""
        return json.loads(self.body) if self.body else None


class FaultProxy:
    """A context manager; `start` and `stop` by hand make the target unreachable for a while.

    `credentials` (user, password) are asked for when set, and may be changed while it runs;
    `tls` serves https; `host` is the address of this host that clients reach.
    """

    def __init__(
        self,
        upstream: str,
        *,
        credentials: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.upstream = upstream
        self.credentials = credentials
        self.host = host
        self.port = 0
        self._tls = tls
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._writes: list[Write] = []
        self._seen: list[Seen] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """The URL for clients; it stays the same after another `start`."""
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; on the port of the last time if there was one."""
        listening = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listening)), name="fault-proxy", daemon=True
        )
        self._thread.start()
        assert listening.wait(_STOP_SECONDS), "the proxy did not start"

    def stop(self) -> None:
        """Stop listening and break every open connection."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(_STOP_SECONDS)
        assert not thread.is_alive(), "the proxy did not stop"

    def add(
        self,
        action: Action,
        *,
        method: str | None = None,
        path: str = "",
        body: str = "",
        skip: int = 0,
        times: int | None = 1,
    ) -> Rule:
        """Add a rule (see Rule); the first rule that takes a request decides."""
        rule = Rule(action, method, path, body, skip, times)
        with self._lock:
            self._rules.append(rule)
        return rule

    def hold(
        self,
        path: str,
        *,
        after: bool = False,
        method: str | None = None,
        body: str = "",
        skip: int = 0,
    ) -> Hold:
        """Hold the next matching request (after `skip`), before forwarding or before answering."""
        hold = Hold(after=after)
        self.add(hold, method=method, path=path, body=body, skip=skip)
        return hold

    def clear(self) -> None:
        """Forget rules and records; a request that is held stays held."""
        with self._lock:
            self._rules.clear()
            self._writes.clear()
            self._seen.clear()

    def list_writes(self, index: str | None = None) -> list[Write]:
        """Return document operations forwarded so far, in order; those of one index when named."""
        with self._lock:
            return [w for w in self._writes if index is None or w.index == index]

    def list_requests(self, path: str = "") -> list[Seen]:
        """Return requests answered or dropped so far, in order; those whose target holds `path`."""
        with self._lock:
            return [seen for seen in self._seen if path in seen.target]

    async def _serve(self, listening: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve_connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(
            accept, self.host, self.port, limit=1 << 20, ssl=self._tls
        )
        self.port = server.sockets[0].getsockname()[1]
        listening.set()
        await self._stopping.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reset = True
        try:
            while True:
                request = await read_request(reader, writer)
                await self._serve_one(request, writer)
                if request.get_header("connection").lower() == "close":
                    reset = False
                    return
        except ConnectionEndError as end:
            reset = end.reset
        except (asyncio.IncompleteReadError, ConnectionError):
            reset = False
        finally:
            if reset:
                # SO_LINGER of zero makes the close an RST, as a crashed peer would.
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
                writer.transport.abort()
            else:
                writer.close()

    async def _serve_one(self, request: HttpRequest, writer: asyncio.StreamWriter) -> None:
        """Play the rule for one request and write the answer, if any."""
        underway = Exchange(request, self._forward)
        try:
            reply = await underway.play(self._choose_action(request))
        finally:
            # Before the client can know: a test that has its answer finds the record.
            self._note(underway)
        writer.write(reply.data)
        await writer.drain()
        if reply.last:
            raise ConnectionEndError(reset=False)

    def _choose_action(self, request: HttpRequest) -> Action | None:
        if not self._is_authorized(request):
            return Status(401, kind="security_exception")
        with self._lock:
            return next((rule.action for rule in self._rules if rule.takes(request)), None)

    def _is_authorized(self, request: HttpRequest) -> bool:
        if self.credentials is None:
            return True
        token = base64.b64encode(":".join(self.credentials).encode()).decode()
        return request.get_header("authorization") == f"Basic {token}"

    def _note(self, done: Exchange) -> None:
        request = done.request
        seen = Seen(
            request.method,
            request.target,
            len(request.body),
            request.decompress(),
            request.get_header("x-opaque-id"),
            done.forwarded,
            done.fault,
            done.status,
            done.arrived,
        )
        with self._lock:
            self._seen.append(seen)

    async def _forward(self, request: HttpRequest) -> Response:
        """Send a request to the node and record what it writes."""
        with self._lock:
            self._writes.extend(list_writes(request))
        upstream = urlsplit(self.upstream)
        return await exchange(upstream.hostname or "", upstream.port or 0, request)
