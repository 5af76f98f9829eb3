"""A proxy before the real API server that kills the client process at a chosen call.

Watches pass and are not counted: they change nothing, and a process that dies loses them anyway.
Every third watch is answered 410 (expired), so that it starts again without the events between.
Serves plain HTTP on loopback; credentials pass through it to the server.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from icdc_testing.operator.kills.cuts import Applied

_EXPIRED = json.dumps(
    {
        "type": "ERROR",
        "object": {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "message": "too old resource version: 1 (2)",
            "reason": "Expired",
            "code": 410,
        },
    }
)
_PASSED = frozenset({"accept", "authorization", "content-type"})


@dataclass
class Aim:
    """The call, counted from now, at which `kill` is called: before it is sent, or once applied."""

    calls: int
    after: bool
    kill: Callable[[], None]


class KillProxy:
    """Forwards to `server`. Use `serve`."""

    def __init__(self, server: str, session: aiohttp.ClientSession, applied: Applied) -> None:
        self._server = server
        self._session = session
        self._applied = applied
        self.aim: Aim | None = None
        self.watches = 0
        """Those that were asked for; every third was told that it has expired."""
        self.killed_at: list[str] = []
        """The calls at which it has killed."""

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Answer in the block: the address."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        watch = "watch" in request.query
        if watch:
            self.watches += 1
            if self.watches % 3 == 0:
                return web.Response(text=_EXPIRED, content_type="application/json")
        aim = None if watch else self._count_call()
        what = f"{request.method} {request.path}"
        if aim is not None and not aim.after:
            self._kill(aim, f"before {what}")
            raise web.HTTPServiceUnavailable
        headers = {n: v for n, v in request.headers.items() if n.lower() in _PASSED}
        async with self._session.request(
            request.method, f"{self._server}{request.raw_path}", headers=headers, data=body or None
        ) as answer:
            if watch:
                return await _stream(request, answer)
            data = await answer.read()
        if answer.status < 300:
            self._applied(request.method, request.path, json.loads(body or b"null"), data)
        if aim is not None:
            self._kill(aim, f"after {what}")
        return web.Response(body=data, status=answer.status, content_type="application/json")

    def _count_call(self) -> Aim | None:
        """Count a call: the aim, if it is reached by this one."""
        aim = self.aim
        if aim is None:
            return None
        aim.calls -= 1
        return aim if aim.calls == 0 else None

    def _kill(self, aim: Aim, what: str) -> None:
        self.aim = None
        self.killed_at.append(what)
        aim.kill()


async def _stream(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    passed = web.StreamResponse(status=answer.status)
    await passed.prepare(request)
    # Whoever was watching may be dead.
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):
        async for chunk in answer.content.iter_any():
            await passed.write(chunk)
    return passed
