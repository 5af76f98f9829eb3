"""Errors of the API server in the project's tree: the border at which foreign ones end.

Knows statuses of HTTP and the exceptions of the client libraries; knows no kind of object. What an
error means for a run is decided where the run is made.

    RunError
      ClusterError      the API server did not do what was asked
        Conflict        somebody else was faster: look again
        NameTaken       the name belongs to an object that is not ours
        Gone            a list or watch goes on from too long ago: start it anew
        NotFound        no such object, or no such kind
        Denied          who asks may not do that
        Invalid         the server does not take the object as it is
        Unavailable     no answer, or none that helps: may heal by itself
"""

# ruff: noqa: N818 - they are the words in which people and HTTP speak of these answers.
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import ConfigException

from icdc_api.errors import BadSpec, FailureClass, RunError, WhoActs

MAX_SHOWN = 600
"""Characters of an answer that go into a message."""


class ClusterError(RunError):
    """The API server did not do what was asked."""

    failure_class = FailureClass.SUBMISSION


class Conflict(ClusterError):
    """The object has changed since it was read, or exists already; looking again helps."""

    retryable = True
    who_acts = WhoActs.NOBODY


class NameTaken(ClusterError):
    """An object of that name exists and is not ours; it is left as it is."""

    who_acts = WhoActs.PLATFORM


class Gone(ClusterError):
    """The version to go on from is too old; a new list helps."""

    retryable = True
    who_acts = WhoActs.NOBODY


class NotFound(ClusterError):
    """There is no such object, or the cluster does not know its kind."""


class Denied(ClusterError):
    """The operator, or an admission rule for it, is not allowed to do that."""


class Invalid(ClusterError):
    """The API server does not take the object as it is."""


class Unavailable(ClusterError):
    """The API server did not answer, is overloaded or broken; trying again later may help."""

    retryable = True
    who_acts = WhoActs.NOBODY

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait, where the server asked for that."""


_RIGHT = re.compile(r'cannot (\w+) resource "([^"]+)"(?: in API group "([^"]*)")?')
"""As the authorizer of Kubernetes (RBAC) words a right that somebody does not have."""

_BY_STATUS: Mapping[int, type[ClusterError]] = {
    400: Invalid,
    401: Denied,
    403: Denied,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
}


def of_answer(
    status: int, body: bytes | str, headers: Mapping[str, str], *, what: str
) -> ClusterError:
    """The error that an answer outside of 200 to 299 stands for; `what` was asked."""
    told, wait = _told(body)
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else Invalid)
    text = f"{what}: {told or 'no reason given'} (status {status}){_missing_rule(told)}"
    if kind is Unavailable:
        return Unavailable(text, _seconds(headers.get("Retry-After")) or wait)
    return kind(text)


@contextmanager
def map_errors(what: str) -> Iterator[None]:
    """Raises what the client libraries raise in the body as an error of this tree."""
    try:
        yield
    except TimeoutError as error:
        raise Unavailable(f"{what}: the API server did not answer in time") from error
    except ApiException as error:
        raise of_answer(error.status or 0, error.body or "", error.headers or {}, what=what) from (
            error
        )
    except ConfigException as error:
        raise BadSpec(f"{what}: {_clipped(str(error))}") from error
    except (aiohttp.ClientError, OSError) as error:
        text = _clipped(str(error)) or type(error).__name__
        raise Unavailable(f"{what}: the API server cannot be reached: {text}") from error
    except ValueError as error:
        # What stands between may answer with a page of its own.
        raise Unavailable(f"{what}: the answer is not that of an API server") from error


def _told(body: bytes | str) -> tuple[str, float | None]:
    """The message of a Status object, and for how many seconds it asks to wait."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    try:
        document = json.loads(text)
    except ValueError:
        return _clipped(text), None
    if not isinstance(document, dict):
        return _clipped(text), None
    details = document.get("details")
    wait = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    message = document.get("message")
    return (
        _clipped(message if isinstance(message, str) else ""),
        float(wait) if isinstance(wait, int) and wait > 0 else None,
    )


def _missing_rule(told: str) -> str:
    """The rule that a Role lacks, as it would stand there, where the server says which right."""
    right = _RIGHT.search(told)
    if right is None:
        return ""
    verb, resource, group = right.groups(default="")
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
    return f"; the rule that is missing: {rule}"


def _seconds(header: str | None) -> float | None:
    """A Retry-After in seconds; its form as a date is not used by API servers."""
    return float(header) if header is not None and header.isdecimal() else None


def _clipped(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= MAX_SHOWN else f"{plain[: MAX_SHOWN - 1]}…"
