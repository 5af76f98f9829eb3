"""The faults that the proxy can play, as plain values, and the rules that choose requests."""

import asyncio
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from icdc_testing.network.http_messages import HttpRequest
from icdc_testing.network.recorded_writes import Write
from icdc_testing.waiting.wait import WAIT_SECONDS


@dataclass(frozen=True)
class Status:
    """Answers with a status, without forwarding; `retry_after` in seconds, or no such header."""

    code: int
    retry_after: int | None = None
    kind: str = "rejected_execution_exception"
    body: bytes | None = None


@dataclass(frozen=True)
class Reset:
    """Breaks the connection by RST, before forwarding or after the request was applied."""

    after: bool = False


@dataclass(frozen=True)
class EndAfterApply:
    """Forwards, then closes the connection in order, without an answer."""


@dataclass(frozen=True)
class HalfAnswer:
    """Forwards, then sends only half of the answer's body and closes."""


@dataclass(frozen=True)
class RewrittenAnswer:
    """Forwards, then changes the answer's object; `status` stands in place of the node's."""

    change: Callable[[dict[str, Any]], object]
    status: int | None = None


@dataclass(frozen=True)
class Delay:
    """Waits before forwarding, or between the answer of the node and ours."""

    seconds: float
    after: bool = False


@dataclass(frozen=True)
class Hang:
    """Never answers; with `after` the request is applied."""

    after: bool = True


@dataclass(frozen=True)
class ItemErrors:
    """Lets a bulk through without the chosen operations, and answers for those with an error."""

    pick: Callable[[Write], bool]
    status: int = 429
    kind: str = "rejected_execution_exception"


class Hold:
    """Stops at a request until the test says go on; how a test kills a process at one exact step.

    Held before forwarding, nothing of the request has reached the node; held after, the node
    has applied it and its answer waits here.
    """

    def __init__(self, *, after: bool) -> None:
        self.after = after
        self.held = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._decision: asyncio.Future[bool] | None = None

    def wait(self, seconds: float = WAIT_SECONDS) -> None:
        """Return once a request is held; AssertionError after `seconds`."""
        assert self.held.wait(seconds), f"no request came to be held within {seconds} s"

    def release(self) -> None:
        """Let the request go on, also when its client is dead: a late write then arrives."""
        self._decide(True)

    def drop(self) -> None:
        """Break the connection; a request held before forwarding never reaches the node."""
        self._decide(False)

    async def await_decision(self) -> bool:
        """Announce the request to the proxy and wait; return True to go on."""
        self._loop = asyncio.get_running_loop()
        self._decision = self._loop.create_future()
        self.held.set()
        return await self._decision

    def _decide(self, go_on: bool) -> None:
        self.wait()
        loop, decision = self._loop, self._decision
        assert loop is not None
        assert decision is not None
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, decision, go_on)


def _settle(decision: asyncio.Future[bool], go_on: bool) -> None:
    if not decision.done():
        decision.set_result(go_on)


Action = (
    Status | Reset | EndAfterApply | HalfAnswer | RewrittenAnswer | Delay | Hang | ItemErrors | Hold
)


@dataclass
class Rule:
    """Applies `action` to matching requests: after `skip` of them, `times` times (None: always).

    `path` and `body` are regular expressions, searched in the target with its query and in the
    body without compression. `hits` counts how often the action was played.
    """

    action: Action
    method: str | None = None
    path: str = ""
    body: str = ""
    skip: int = 0
    times: int | None = 1
    hits: int = field(default=0, init=False)

    def takes(self, request: HttpRequest) -> bool:
        """Return whether the action is to be played for this request, which is counted."""
        if not self._matches(request) or (self.times is not None and self.hits >= self.times):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.hits += 1
        return True

    def _matches(self, request: HttpRequest) -> bool:
        if self.method is not None and request.method != self.method:
            return False
        if not re.search(self.path, request.target):
            return False
        return not self.body or re.search(self.body.encode(), request.decompress()) is not None
