"""Recognises answers that are not from OpenSearch, but from what stands before it, or in its place.

A gateway that has lost its route answers 404 for a while, a login page 200, and a filter 400. Taken
for the word of OpenSearch, an alias would be missing, and rows would be refused. It must not know
what was asked.

Every answer of OpenSearch has JSON as its body, but for the answers to HEAD, and every refusal an
object. These are left to whoever asked, because it does not matter who answers:

    status                what it says
    401, 403              the credentials are not accepted
    413                   the request is too large
    429, 500 and above    the request is to be repeated
"""

import json
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any

from opensearchpy.connection import Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionError as LostConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError

EVERY_STATUS = range(100, 600)
"""To ignore in a request whose error answers come back as answers, unless they are foreign."""
_WHOEVER_ANSWERS = frozenset({401, 403, 413, 429})
_JSON = "application/json"
_OF_GATEWAYS = frozenset(
    {
        *("code", "detail", "error_msg", "errors", "fault", "httpCode", "httpMessage"),
        *("message", "Message", "msg", "title"),
    }
)
"""Fields of what gateways and web frameworks answer; OpenSearch has `error` instead."""
_PHRASES = frozenset(status.phrase for status in HTTPStatus)
"""What web frameworks write as error, such as "Not Found"; OpenSearch says what is not found."""
_NO_SUCH_PATH = "no handler found for uri"


class ForeignAnswerError(LostConnection):
    """An answer that is not from OpenSearch; a lost connection, so that other hosts are tried."""

    def __init__(self, status: int) -> None:
        super().__init__("N/A", f"status {status}", None)
        self.status = status


class OpenSearchConnection(Urllib3HttpConnection):
    """The connection to one host, which takes no answer of anybody else for OpenSearch's."""

    def perform_request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return status, headers and text; ForeignAnswerError, or the library's for a failure."""
        answer = super().perform_request(method, url, params, body, timeout, EVERY_STATUS, headers)
        status, answered, text = answer
        kind = answered.get("content-type")
        if is_foreign(method, status, kind, text):
            raise ForeignAnswerError(status)
        if not 200 <= status < 300 and status not in ignore:
            self._raise_error(status, text, kind)
        return answer


def is_unsent(failure: object) -> bool:
    """Return whether a request cannot have been sent: there was no connection, also to a proxy."""
    # A proxy error alone does not say so: urllib3 makes one of a connection that ended amid a
    # request as well.
    cause = failure.original_error if isinstance(failure, ProxyError) else failure
    return isinstance(cause, NewConnectionError | ConnectTimeoutError)


def explain_proxy(failure: ProxyError) -> str:
    """Return what a forward proxy did, as the end of a sentence; empty where nobody knows."""
    if is_unsent(failure):
        return ": the proxy does not answer"
    refusal = str(failure.original_error).partition("Tunnel connection failed: ")[2]
    return f": the proxy refuses it ({refusal[:100]})" if refusal else ""


def is_foreign(method: str, status: int, content_type: str | None, text: str) -> bool:
    """Return whether an answer cannot be from OpenSearch."""
    if status in _WHOEVER_ANSWERS or status >= 500:
        return False
    if method == "HEAD":
        # It has no body, and 404 means that something does not exist.
        return content_type is not None and not content_type.startswith(_JSON)
    if 200 <= status < 300:
        # Not parsed: it may hold thousands of documents.
        return not text.lstrip().startswith(("{", "["))
    return not _is_refusal(status, text)


def _is_refusal(status: int, text: str) -> bool:
    """Return whether OpenSearch may have refused a request with this status and body."""
    try:
        body = json.loads(text)
    except ValueError:
        return False
    if not isinstance(body, dict):
        return False
    if "error" not in body:
        return not _OF_GATEWAYS & body.keys()
    error = body.pop("error")
    if isinstance(error, dict):
        return "type" in error
    if not isinstance(error, str) or error in _PHRASES:
        return False
    # A text stands alone where the path is unknown, and else beside the status; the answer about an
    # alias that is missing may also hold the indices of others. Spring has a time and a path.
    named = body.pop("status", None) == status or error.startswith(_NO_SUCH_PATH)
    return named and all(isinstance(value, dict) for value in body.values())
