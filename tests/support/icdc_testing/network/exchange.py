"""One request on its way through the fault proxy: the chosen fault, played in order."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from icdc_testing.network.faults import (
    Action,
    Delay,
    EndAfterApply,
    HalfAnswer,
    Hang,
    Hold,
    ItemErrors,
    Reset,
    RewrittenAnswer,
    Status,
)
from icdc_testing.network.http_messages import HttpRequest, Response
from icdc_testing.network.recorded_writes import Write, is_bulk, parse_bulk_items

Send = Callable[[HttpRequest], Awaitable[Response]]
"""Forwards a request to the node."""


class ConnectionEndError(Exception):
    """The client's connection is to be closed now, in order or by RST."""

    def __init__(self, *, reset: bool) -> None:
        super().__init__()
        self.reset = reset


@dataclass(frozen=True)
class Reply:
    """Bytes for the client; after the `last` one the connection is closed in order."""

    data: bytes
    last: bool


class Exchange:
    """One request on its way: what was done with it so far."""

    def __init__(self, request: HttpRequest, send: Send) -> None:
        self._send = send
        self.request = request
        self.arrived = time.monotonic()
        self.forwarded = False
        self.fault = ""
        self.status = 0

    async def play(self, action: Action | None) -> Reply:
        """Do everything that happens to the request, in order; ConnectionEndError: no answer."""
        self.fault = type(action).__name__ if action else ""
        await self._act_before(action)
        if isinstance(action, Status):
            return self._reply(_make_status_answer(action))
        if isinstance(action, ItemErrors):
            return self._reply(await self._play_item_errors(action))
        answer = await self._forward(self.request)
        await self._act_after(action)
        if isinstance(action, RewrittenAnswer):
            changed = action.change(json.loads(answer.body))
            return self._reply(Response.build_json(action.status or answer.status, changed))
        if isinstance(action, HalfAnswer):
            whole = answer.encode()
            return Reply(whole[: len(whole) - max(1, len(answer.body) // 2)], last=True)
        return self._reply(answer)

    async def _act_before(self, action: Action | None) -> None:
        match action:
            case Reset(after=False):
                raise ConnectionEndError(reset=True)
            case Delay(after=False):
                await asyncio.sleep(action.seconds)
            case Hang(after=False):
                await asyncio.Event().wait()
            case Hold(after=False):
                await self._wait_for(action)

    async def _act_after(self, action: Action | None) -> None:
        match action:
            case Reset(after=True):
                raise ConnectionEndError(reset=True)
            case EndAfterApply():
                raise ConnectionEndError(reset=False)
            case Delay(after=True):
                await asyncio.sleep(action.seconds)
            case Hang(after=True):
                await asyncio.Event().wait()
            case Hold(after=True):
                await self._wait_for(action)

    async def _wait_for(self, hold: Hold) -> None:
        if not await hold.await_decision():
            raise ConnectionEndError(reset=True)

    async def _forward(self, request: HttpRequest) -> Response:
        self.forwarded = True
        return await self._send(request)

    def _reply(self, answer: Response) -> Reply:
        self.status = answer.status
        return Reply(answer.encode(head_only=self.request.method == "HEAD"), last=False)

    async def _play_item_errors(self, action: ItemErrors) -> Response:
        """Return real answers for the operations let through, the error for the chosen ones."""
        assert is_bulk(self.request), "ItemErrors is for bulk requests"
        items = parse_bulk_items(self.request)
        passed = [item for item in items if not action.pick(item.write)]
        answers: Iterator[object] = iter(())
        if passed:
            body = b"".join(item.lines for item in passed)
            # filter_path would drop the answers that have to be merged.
            plain = HttpRequest("POST", self.request.path, self.request.headers, b"")
            answer = await self._forward(plain.replace_text(body))
            if answer.status != 200:
                return answer
            answers = iter(json.loads(answer.body)["items"])
        merged = [
            {item.write.op: _make_item_error(item.write, action)}
            if action.pick(item.write)
            else next(answers)
            for item in items
        ]
        return Response.build_json(200, {"took": 1, "errors": True, "items": merged})


def _make_item_error(write: Write, action: ItemErrors) -> dict[str, object]:
    error = {"type": action.kind, "reason": "injected"}
    return {"_index": write.index, "_id": write.id, "status": action.status, "error": error}


def _make_status_answer(action: Status) -> Response:
    headers: tuple[tuple[str, str], ...] = ()
    if action.retry_after is not None:
        headers = (("Retry-After", str(action.retry_after)),)
    if action.code == 401:
        headers = (*headers, ("WWW-Authenticate", 'Basic realm="OpenSearch"'))
    if action.body is not None:
        return Response(action.code, headers, action.body)
    error = {"root_cause": [], "type": action.kind, "reason": "injected"}
    return Response.build_json(action.code, {"error": error, "status": action.code}, headers)
