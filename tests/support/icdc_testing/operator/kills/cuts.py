"""Count the calls of an operator to the API server, and disturb one of them.

Takes the place of the client library. Requests and answers are real, except refusals, which are
played. A kill ends the operator: nothing that it sends afterwards reaches the server.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from icdc_operator.cluster.kube import connect
from icdc_testing.operator.adapter.fakes.api import FakeAnswer, refuse
from icdc_testing.operator.kills.stale_views import StaleView
from icdc_testing.waiting.leaping_clock import LeapingClock

CALL_SECONDS = 0.0041
OTHERS_SECONDS = 0.0037
"""What a call of an operator, or of somebody else, takes by the clock that leaps: such that two
things hardly ever happen at the same moment, whose order would be by chance."""
SLOW_SECONDS = 20.0
"""A slow call arrives so much later: long after the world has moved on, within its time-out."""
RETRY_AFTER_SECONDS = 2


class CallFault(StrEnum):
    """What becomes of one call."""

    KILLED_BEFORE = "killed before the call was sent"
    KILLED_AFTER = "killed after the call was applied"
    LOST = "answer lost"
    CONFLICT = "409"
    THROTTLED = "429"
    BROKEN = "500"
    SLOW = "slow"
    STALE = "reads answered for a while as before the call"
    KILLED_STALE = "killed after the call was applied, then reads as before it"


KILLS = (CallFault.KILLED_BEFORE, CallFault.KILLED_AFTER, CallFault.KILLED_STALE)
DISTURBANCES = (
    CallFault.LOST,
    CallFault.CONFLICT,
    CallFault.THROTTLED,
    CallFault.BROKEN,
    CallFault.SLOW,
)
VIEWS = (CallFault.STALE, CallFault.KILLED_STALE)
"""Those of a server that lags behind what was written to another one."""


@dataclass(frozen=True)
class Cut:
    """At which call, counted from 1, what happens; at none by 0."""

    at: int = 0
    fault: CallFault = CallFault.LOST

    def __str__(self) -> str:
        return f"call {self.at}: {self.fault}" if self.at else "undisturbed"


class CutError(BaseException):
    """The operator is dead. No code of the operator catches it, as none catches SIGKILL."""


@dataclass
class Journal:
    """The calls of one pipeline's operators, over all their restarts."""

    cut: Cut
    calls: list[str] = field(default_factory=list)
    view: StaleView | None = None
    """What reads are answered from while it lasts."""

    def enter(self, call: str) -> CallFault | None:
        """Note a call; return what becomes of it."""
        self.calls.append(call)
        return self.cut.fault if len(self.calls) == self.cut.at else None


TakeView = Callable[[], Awaitable[StaleView]]
"""All that reads of the pipeline would find now."""

Applied = Callable[[str, str, Any, bytes], None]
"""Told of each call that the server has done: method, path, body and answer."""


class CutLine:
    """A client as `ClusterApi` uses it. Without a journal nothing happens to it."""

    def __init__(
        self,
        client: ApiClient,
        clock: LeapingClock,
        *,
        journal: Journal | None = None,
        take_view: TakeView | None = None,
        seconds: Callable[[], float] | None = None,
        applied: Applied = lambda method, path, body, answer: None,
    ) -> None:
        self._client: Any = client
        self._clock = clock
        self._journal = journal
        self._take_view = take_view
        usual = CALL_SECONDS if journal else OTHERS_SECONDS
        self._seconds = seconds or (lambda: usual)
        self._applied = applied
        self._dead = False

    async def param_serialize(self, *arguments: Any, **options: Any) -> Any:
        """Return the arguments of `call_api`, as the client library does."""
        return await self._client.param_serialize(*arguments, **options)

    async def call_api(
        self, method: str, url: str, headers: Any, body: Any, _post: Any, _request_timeout: Any
    ) -> Any:
        """Answer one request, as the client library does."""
        if self._dead:
            raise CutError
        path = urlsplit(url).path
        fault = self._journal.enter(f"{method} {path}") if self._journal else None
        await asyncio.sleep(self._seconds())
        if fault is CallFault.KILLED_BEFORE:
            self.end()
            raise CutError
        played = _make_refusal(fault) or await self._answer_from_the_past(fault, method, url)
        if played is not None:
            return played
        if fault is CallFault.SLOW:
            await asyncio.sleep(SLOW_SECONDS)
        with self._clock.hold():
            answer = await self._client.call_api(
                method, url, headers, body, _post, _request_timeout=_request_timeout
            )
            data = await answer.read()
        # What was to be deleted and is gone was deleted by somebody else, whom a watch tells of.
        if 200 <= answer.status <= 299 or (method, answer.status) == ("DELETE", 404):
            self._applied(method, path, body, data)
        if fault in (CallFault.KILLED_AFTER, CallFault.KILLED_STALE):
            self.end()
            raise CutError
        if fault is CallFault.LOST:
            raise aiohttp.ServerDisconnectedError
        return answer

    async def _answer_from_the_past(
        self, fault: CallFault | None, method: str, url: str
    ) -> FakeAnswer | None:
        """Return the answer of a server that lags behind, while one does."""
        if self._journal is None:
            return None
        if fault in VIEWS and self._take_view is not None:
            self._journal.view = await self._take_view()
        view = self._journal.view
        return view.answer(method, url, self._clock.seconds) if view is not None else None

    def end(self) -> None:
        """Let nothing through any more."""
        self._dead = True


def _make_refusal(fault: CallFault | None) -> FakeAnswer | None:
    match fault:
        case CallFault.CONFLICT:
            return refuse(409, "played by the test")
        case CallFault.THROTTLED:
            headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            return FakeAnswer(429, {"kind": "Status", "message": "played by the test"}, headers)
        case CallFault.BROKEN:
            return refuse(500, "played by the test")
    return None


@asynccontextmanager
async def open_client(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    """Yield connections that outlive a leap of the clock, for operators that come one after
    another."""
    settings = await connect.load_configuration({connect.KUBECONFIG: str(kubeconfig)})
    async with make_connector(settings) as connector:
        # Without a look at .netrc for each request, which takes a thread.
        settings.client_session_kwargs = {"connector": connector, "trust_env": False}
        async with connect.LibraryClient(settings) as made:
            yield made


def make_connector(settings: Configuration) -> aiohttp.TCPConnector:
    """Return connections to that API server, as many as are asked for."""
    tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    return aiohttp.TCPConnector(limit=0, keepalive_timeout=1e9, ssl=tls)
