"""Turns OpenSearch's errors into ours; no other module interprets them.

Messages carry types, never reasons: a server's reason may quote a row. Of a refusal they carry the
permission that it names.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from opensearchpy.exceptions import (
    ConnectionError as LostConnection,
)
from opensearchpy.exceptions import (
    ConnectionTimeout,
    OpenSearchException,
    SerializationError,
    SSLError,
    TransportError,
)
from urllib3.exceptions import NameResolutionError, ProtocolError, ProxyError

from icdc_api.errors import (
    Bug,
    Gap,
    IcdcError,
    TargetInvalid,
    TargetReadOnly,
    TargetUnavailable,
    Throttled,
    Unauthorized,
)
from icdc_spark.opensearch.client.connection import Client, Connection
from icdc_spark.opensearch.client.error_answers import (
    describe_block,
    describe_passing,
    find_fault,
    find_shard_limit,
    parse_error_type,
    passes,
    refuses_writes,
)
from icdc_spark.opensearch.client.foreign_answers import ForeignAnswerError, explain_proxy
from icdc_spark.opensearch.client.retry import retry_passing

P = ParamSpec("P")
R = TypeVar("R")

_PERMISSIONS = re.compile(
    r"no permissions for \[((?:(?:, )?(?:cluster|indices):[\w/*]+(?:\[\w+])?)+)]"
)
"""In a reason of OpenSearch's security plugin. Such names only: what follows may quote a user."""

_PARTIAL_VIEW = "not supported when FLS or DLS or Fieldmasking is activated"
"""In the refusal of a bulk request of ours, whose guard is an update: the security plugin updates
nothing for a user who is shown a part of an index. It gives no permission, and so no 403."""

_UNVERIFIED = re.compile(r"certificate verify failed: (.+?)(?: \(_ssl|$)")
"""The reason of Python's TLS for a certificate that it does not accept."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""The reasons of OpenSSL, the second one of newer versions, for an answer that is not TLS."""
_CLIENT_CERTIFICATE = ("ALERT_CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE")
"""What a server says to a client that shows no certificate; the second one in Java, for example."""

_CLOSED_INDEX = re.compile(r"""["']index["']: ?["']([^"'/\s]+)["']""")
"""The name of the index in an error answer, as JSON or as the client's parsed object."""


@contextmanager
def translate_errors(connection: Connection) -> Iterator[None]:
    """Raise an error of ours for one that the client raises inside."""
    try:
        yield
    except OpenSearchException as error:
        raise translate(error, connection) from error


def map_errors(
    function: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate[Client, P], R]:
    """Decorate a function whose first argument is the client that it speaks through."""

    @wraps(function)
    def call_mapped(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with translate_errors(client.connection):
            return function(client, *args, **kwargs)

    return call_mapped


def repeat_passing(
    function: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate[Client, P], R]:
    """Decorate like `map_errors`, and repeat the call after a passing error.

    Only for calls that do no harm when they are made twice.
    """
    call = map_errors(function)

    @wraps(function)
    def repeat(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return retry_passing(lambda: call(client, *args, **kwargs), seconds=client.patience)

    return repeat


def translate(error: OpenSearchException, connection: Connection) -> IcdcError:
    """Return our error for one of the client's."""
    # First: the client's class for it is one of lost connections, and no retry mends a certificate.
    if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error.error):
        return Unauthorized(
            f"The TLS certificate of OpenSearch at {connection.where} "
            f"{_explain_certificate(str(error.error))}."
        )
    # Before LostConnection, of which it is a subclass.
    if isinstance(error, ConnectionTimeout):
        return TargetUnavailable(f"OpenSearch at {connection.where} did not answer in time.")
    if isinstance(error, ForeignAnswerError):
        return build_foreign(error.status, connection)
    if isinstance(error, LostConnection):
        why = _explain_lost(error, connection)
        return TargetUnavailable(f"OpenSearch at {connection.where} cannot be reached{why}.")
    if isinstance(error, SerializationError):
        return TargetUnavailable(f"OpenSearch at {connection.where} gave an incomplete answer.")
    if isinstance(error, TransportError) and isinstance(error.status_code, int):
        # `info` is the parsed answer, if it is JSON; its text is searched for the permission, say.
        kind, reason = parse_error_type(error.info), error.info or error.error
        return from_status(error.status_code, kind, connection, reason=str(reason))
    return Bug(f"Unexpected error of the OpenSearch client: {type(error).__name__}.")


def from_status(status: int, kind: str, connection: Connection, *, reason: str = "") -> IcdcError:
    """Return our error for an HTTP (or item) status and the server's error type.

    `reason` is the text in which the server may name the missing permission.
    """
    if limit := find_shard_limit(reason):
        return TargetReadOnly(
            f"OpenSearch at {connection.where} takes no more shards ({limit}): delete indices, add "
            "nodes, or raise cluster.max_shards_per_node; then the table goes on by itself."
        )
    if refuses_writes(status, kind):
        return _build_blocked(kind, connection, reason)
    if has_partial_view(reason):
        who = f"the user of Secret {connection.secret!r}" if connection.secret else "our user"
        return Unauthorized(
            f"OpenSearch at {connection.where} shows {who} only a part of the documents or fields "
            "(document-level or field-level security, or masked fields), so they can be neither "
            "written nor compared: remove these restrictions from the user's roles."
        )
    # After the blocks, which answer 403 too and are no matter of credentials.
    if status in (401, 403):
        return _build_unauthorized(status, connection, reason)
    if status == 413:
        return TargetInvalid(
            f"OpenSearch at {connection.where}, or a proxy before it, refuses a small request as "
            "too large (413): raise http.max_content_length, or the limit of the proxy."
        )
    # By its type: a shard that moves may answer 404 as well, and that passes.
    if status == 404 and kind == "index_not_found_exception":
        return Gap("The index that the state document names does not exist any more.")
    # After the blocks: that of a full disk has this status too, and waiting does not lift it.
    if status == 429:
        return Throttled(f"OpenSearch at {connection.where} is overloaded ({kind}).")
    # Before 500: a template with two write indices is answered so.
    if fault := find_fault(reason):
        return TargetInvalid(f"OpenSearch at {connection.where} refuses a request, as {fault}.")
    if passes(status, kind):
        return TargetUnavailable(
            f"OpenSearch at {connection.where} answered {status} ({kind}){describe_passing(kind)}."
        )
    return Bug(f"OpenSearch at {connection.where} answered {status} ({kind}).")


def _build_unauthorized(status: int, connection: Connection, reason: str) -> Unauthorized:
    who = f"the credentials in Secret {connection.secret!r}" if connection.secret else "we"
    problem = "are not accepted" if status == 401 else "are not allowed to do this"
    hint = "" if connection.secret else " (no credentialsFrom is set)"
    return Unauthorized(
        f"OpenSearch at {connection.where} answered {status}: {who} {problem}{hint}"
        f"{_describe_remedy(reason) if status == 403 else ''}."
    )


def build_foreign(status: int, connection: Connection) -> TargetUnavailable:
    """Return the error for an answer that is not from OpenSearch."""
    if 300 <= status < 400:
        return TargetUnavailable(
            f"OpenSearch at {connection.where} answered {status}, a redirect, which is not "
            "followed: put the address to which it leads into sink.opensearch.hosts."
        )
    return TargetUnavailable(
        f"The answer of {connection.where} (status {status}) is not from OpenSearch: check address "
        "and path in sink.opensearch.hosts, and the gateway or proxy before it, if there is one."
    )


def _explain_lost(error: LostConnection, connection: Connection) -> str:
    """Return why no answer came, as the end of a sentence; empty where it says nothing.

    For whoever has to mend it: a name is another person's matter than a closed port.
    """
    if isinstance(error.info, NameResolutionError):
        return ": the name of its host cannot be resolved"
    if isinstance(error.info, ProxyError):
        return explain_proxy(error.info)
    if isinstance(error, SSLError):
        return _explain_tls(str(error.error))
    match error.info:
        # Such as RemoteDisconnected. One that ends amid an answer is "Connection broken: …".
        case ProtocolError(args=("Connection aborted.", ConnectionResetError())) if (
            "https:" not in connection.where
        ):
            return (
                ": it closed the connection without an answer, as a server does that restarts or "
                "expects https://"
            )
    return ""


def _explain_tls(text: str) -> str:
    """Return why TLS failed, as the end of a sentence; empty where it says nothing."""
    if any(reason in text for reason in _NO_TLS):
        return ": it does not answer with TLS; unless a proxy fails, its address is http://"
    if any(alert in text for alert in _CLIENT_CERTIFICATE):
        return ": it asks for a client certificate (mutual TLS), for which there is no setting"
    return ""


def has_partial_view(reason: str) -> bool:
    """Return whether a refusal says that the user is shown a part of the index."""
    return _PARTIAL_VIEW in reason


def _explain_certificate(text: str) -> str:
    """Return what is wrong with a certificate and what to do, as the end of a sentence."""
    named = _UNVERIFIED.search(text)
    why = named[1].rstrip(".") if named else "the reason is not known"
    if "has expired" in why:
        return "has expired: an administrator of OpenSearch has to renew it"
    if "mismatch" in why:
        return f"is not for the address in sink.opensearch.hosts ({why})"
    return f"is not trusted ({why}): check sink.opensearch.tls.caFrom"


def _build_blocked(kind: str, connection: Connection, reason: str) -> TargetReadOnly:
    if kind != "index_closed_exception":
        return TargetReadOnly(
            f"OpenSearch at {connection.where} refuses writes{describe_block(kind, reason)}: "
            "remove the block, or free disk space."
        )
    named = _CLOSED_INDEX.search(reason)
    index, path = (f"Index {named[1]!r}", named[1]) if named else ("An index", "<index>")
    return TargetReadOnly(
        f"{index} of OpenSearch at {connection.where} is closed (index_closed_exception), so it "
        "can be neither read nor written. An administrator of OpenSearch has to open it "
        f"(POST /{path}/_open); then the table goes on by itself."
    )


def _describe_remedy(reason: str) -> str:
    """Return the advice for the administrator of a refused user, as the end of a sentence."""
    named = _PERMISSIONS.search(reason)
    if named:
        return f"; give their role the permission {named[1]}"
    if reason.lstrip().startswith("<"):
        # A page: OpenSearch answers in JSON.
        return (
            "; a gateway or filter before OpenSearch says so, not OpenSearch: ask whoever runs it"
        )
    # Such as an answer to HEAD, which has no body.
    return "; compare their role with docs/opensearch-role.json"
