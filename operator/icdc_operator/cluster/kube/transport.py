"""Send requests to the API server: limit their time, count them, and parse the answers.

No request is repeated here: the caller knows whether that is right. Every foreign error becomes one
of `kube.api_errors`. It knows HTTP and how the `kubernetes` library is called, and must not know a
kind of object. Must import neither that library nor aiohttp: `icdc` calls it with a lighter client.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from icdc_operator.cluster.kube import api_errors
from icdc_operator.cluster.kube.kinds import Resource

if TYPE_CHECKING:
    # Only for its type, see the module.
    from kubernetes.aio.client import ApiClient

REQUEST_SECONDS = 30.0
"""Time-out of one request; the API server itself gives up after 60 s."""

JSON = "application/json"

Observer = Callable[[str, str, int | str], None]
"""Called for every request with its verb, the plural of the kind, and the status of the answer, or
the class of the error if there was none."""


def ignore_request(verb: str, plural: str, code: int | str) -> None:
    """Count nothing."""


class TimeLimit(NamedTuple):
    """How long one request may take, in seconds."""

    total: float | None
    """From its first byte to the last one of its answer; None: as long as the server sends."""
    connect: float
    """Until there is a connection."""


class Transport:
    """A connection to one API server. `verb` and `plural` are for counting and for messages."""

    def __init__(self, client: "ApiClient", observer: Observer, seconds: float) -> None:
        self._client: Any = client  # the library is typed for a part only
        self._observer = observer
        self._seconds = seconds

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ask(
        self,
        verb: str,
        plural: str,
        *,
        method: str,
        path: str,
        body: object = None,
        content: str = JSON,
        accept: str = JSON,
    ) -> Resource:
        """Send one request and return the object of its answer."""
        what = _describe_request(verb, plural, path=path)
        headers = {"Accept": accept, "Content-Type": content}
        with api_errors.map_errors(what):
            limit = TimeLimit(total=self._seconds, connect=self._seconds)
            answer = await self._send(
                verb, plural, method=method, path=path, body=body, headers=headers, limit=limit
            )
            await _check(answer, what)
            value = json.loads(await answer.read())
            if not isinstance(value, dict):
                raise ValueError("not an object")
            return value

    async def read_lines(self, verb: str, plural: str, *, path: str) -> AsyncIterator[str]:
        """Yield the lines that answer a GET as they come. Only the connection has a time-out."""
        what = _describe_request(verb, plural, path=path)
        limit = TimeLimit(total=None, connect=self._seconds)
        with api_errors.map_errors(what):
            answer = await self._send(verb, plural, method="GET", path=path, limit=limit)
            try:
                await _check(answer, what)
                async for line in answer.response.content:
                    yield line.decode(errors="replace")
            finally:
                # Also where the reader stops early: a log that is followed may not end for weeks.
                answer.response.close()

    async def _send(
        self,
        verb: str,
        plural: str,
        *,
        method: str,
        path: str,
        limit: TimeLimit,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the client's answer; its body is not read yet."""
        request = await self._client.param_serialize(
            method,
            path,
            header_params=dict(headers or {}),
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = await self._client.call_api(*request, _request_timeout=limit)
        except api_errors.list_connection_errors() as error:
            # Counted too: an API server that does not answer would otherwise look like no traffic.
            self._observer(verb, plural, type(error).__name__)
            raise
        self._observer(verb, plural, answer.status)
        return answer


async def _check(answer: Any, what: str) -> None:
    """Raise the error that the answer stands for, if it is not a success."""
    if not 200 <= answer.status <= 299:
        raise api_errors.build_error(answer.status, await answer.read(), answer.headers, what=what)


def _describe_request(verb: str, plural: str, *, path: str) -> str:
    """Return the request for messages, without its query: that may hold page tokens."""
    return f"{verb} {plural} ({path.partition('?')[0]})"
