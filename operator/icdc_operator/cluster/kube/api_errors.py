"""Turn answers and exceptions of the API client into errors of the project.

It knows HTTP statuses and the client libraries, and must not know a kind of object. It imports no
client library, as `icdc` does without them: one that nobody has imported cannot have raised an
error. The code that sends a request decides what an error means for a run.

    RunError
      ClusterError      the API server did not do what was asked
        Conflict        somebody else was faster: read again
        NameTaken       the name belongs to an object that is not ours
        Expired         a list or watch goes on from too long ago: start it anew
        NotFound        no such object, or no such kind
        Denied          a permission is missing, or an admission rule refuses
        Invalid         the server refuses the object as it is
        Unavailable     no answer, or none of use: may pass by itself
"""

# ruff: noqa: N818 - they are the words in which people and HTTP speak of these answers.
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from icdc_api.base import shorten
from icdc_api.errors import BadSpec, FailureClass, IcdcError, RunError, WhoActs

MAX_SHOWN = 600
"""Most characters of an answer in a message."""


class ClusterError(RunError):
    """The API server did not do what was asked."""

    failure_class = FailureClass.SUBMISSION


class Conflict(ClusterError):
    """The object has changed since it was read, or exists already; reading again helps."""

    retryable = True
    who_acts = WhoActs.NOBODY


class NameTaken(ClusterError):
    """An object of that name exists and is not ours; it is left as it is."""

    who_acts = WhoActs.PLATFORM


class Expired(ClusterError):
    """The version to go on from is too old; a new list helps."""

    retryable = True
    who_acts = WhoActs.NOBODY


class NotFound(ClusterError):
    """There is no such object, or the cluster does not know its kind."""


class Denied(ClusterError):
    """A permission is missing, or an admission rule refuses the request."""


class Invalid(ClusterError):
    """The API server refuses the object as it is."""


class Unavailable(ClusterError):
    """The API server did not answer, is overloaded or broken; trying again later may help."""

    retryable = True
    who_acts = WhoActs.NOBODY

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait, where the server asked for that."""


_RIGHT = re.compile(r'cannot (\w+) resource "([^"]+)"(?: in API group "([^"]*)")?')
"""The message of Kubernetes' RBAC authorizer for a missing permission."""

_BY_STATUS: Mapping[int, type[ClusterError]] = {
    400: Invalid,
    401: Denied,
    403: Denied,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    408: Unavailable,
    409: Conflict,
    410: Expired,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
}


def build_error(
    status: int, body: bytes | str, headers: Mapping[str, str], *, what: str
) -> ClusterError:
    """Return the error for an answer outside of 200 to 299; `what` names the request."""
    message, wait = _parse_status(body)
    # 5xx may pass: the API server, or what stands before it, is broken. Other 4xx do not pass by
    # themselves, since the same request would get the same answer.
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else Invalid)
    text = f"{what}: {message or 'no reason given'} (status {status}){_suggest_rule(message)}"
    if kind is Unavailable:
        # Some answers have the header, others only the field in their Status.
        return Unavailable(text, _parse_seconds(headers.get("Retry-After")) or wait)
    return kind(text)


@contextmanager
def map_errors(what: str) -> Iterator[None]:
    """Raise errors of the client libraries in the body as ours; `what` names the request."""
    try:
        yield
    # Before OSError, of which TimeoutError is a subclass: its own text is empty.
    except TimeoutError as error:
        raise Unavailable(f"{what}: the API server did not answer in time") from error
    except list_connection_errors() as error:
        text = _clip(str(error)) or type(error).__name__
        raise Unavailable(f"{what}: the API server cannot be reached: {text}") from error
    except ValueError as error:
        # A proxy in between may answer with an HTML page.
        raise Unavailable(f"{what}: the answer is not that of an API server") from error
    except _list_library_errors() as error:
        raise _map_library_error(error, what) from error


def list_connection_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a request that got no answer: those of sockets and of aiohttp."""
    aiohttp = sys.modules.get("aiohttp")
    return (OSError,) if aiohttp is None else (OSError, aiohttp.ClientError)


def _list_library_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the `kubernetes` library."""
    exceptions = sys.modules.get("kubernetes.aio.client.exceptions")
    config = sys.modules.get("kubernetes.aio.config")
    errors = () if exceptions is None else (exceptions.ApiException,)
    return errors if config is None else (*errors, config.ConfigException)


def _map_library_error(error: Exception, what: str) -> IcdcError:
    if not hasattr(error, "status"):  # of its configuration: no server was asked
        return BadSpec(f"{what}: {_clip(str(error))}")
    body, headers = getattr(error, "body", None), getattr(error, "headers", None)
    return build_error(error.status or 0, body or "", headers or {}, what=what)


def _parse_status(body: bytes | str) -> tuple[str, float | None]:
    """Return the message of a Status object, and the seconds that it asks to wait."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    try:
        document = json.loads(text)
    except ValueError:
        return _clip(text), None
    if not isinstance(document, dict):
        return _clip(text), None
    details = document.get("details")
    wait = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    message = document.get("message")
    return (
        _clip(message if isinstance(message, str) else ""),
        float(wait) if isinstance(wait, int) and wait > 0 else None,
    )


def _suggest_rule(message: str) -> str:
    """Return the rule to add to a Role, if the message names the missing permission.

    pods is forbidden: … cannot list resource "pods" in API group ""
    ; missing RBAC rule: {apiGroups: [""], resources: ["pods"], verbs: ["list"]}
    """
    right = _RIGHT.search(message)
    if right is None:
        return ""
    verb, resource, group = right.groups(default="")
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
    return f"; missing RBAC rule: {rule}"


def _parse_seconds(header: str | None) -> float | None:
    """Return a Retry-After in seconds; API servers do not send it as a date."""
    return float(header) if header is not None and header.isdecimal() else None


def _clip(text: str) -> str:
    return shorten(" ".join(text.split()), MAX_SHOWN)
