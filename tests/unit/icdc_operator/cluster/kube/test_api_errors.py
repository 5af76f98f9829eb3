"""The border at which the client libraries' errors end."""

import json
from collections.abc import Callable

import aiohttp
import pytest
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import ConfigException

from icdc_api.errors import BadSpec, IcdcError
from icdc_operator.cluster.kube import api_errors

pytestmark = pytest.mark.unit


def _build_answer(details: dict[str, object] | None = None) -> bytes:
    return json.dumps({"kind": "Status", "message": "told", "details": details or {}}).encode()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, api_errors.Invalid),
        (401, api_errors.Denied),
        (403, api_errors.Denied),
        (404, api_errors.NotFound),
        (409, api_errors.Conflict),
        (410, api_errors.Expired),
        (413, api_errors.Invalid),
        (418, api_errors.Invalid),
        (422, api_errors.Invalid),
        (429, api_errors.Unavailable),
        (500, api_errors.Unavailable),
        (503, api_errors.Unavailable),
        (504, api_errors.Unavailable),
    ],
)
def test_every_answer_has_an_error(status: int, kind: type[api_errors.ClusterError]) -> None:
    error = api_errors.build_error(status, _build_answer(), {}, what="get pods")
    assert type(error) is kind
    assert error.message == f"get pods: told (status {status})"


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry-After": "Sun, 01 Mar 2026 12:00:00 GMT"}, {}, None),
        ({}, {}, None),
    ],
)
def test_how_long_to_wait_is_what_the_server_says(
    headers: dict[str, str], details: dict[str, object], seconds: float | None
) -> None:
    error = api_errors.build_error(429, _build_answer(details), headers, what="get pods")
    assert isinstance(error, api_errors.Unavailable)
    assert error.retry_after == seconds


@pytest.mark.parametrize("body", [b"<html>oops</html>", b"[1]", b"\xff\xfe", b"x" * 9000, b"null"])
def test_an_answer_of_somebody_in_between_is_shown_in_part(body: bytes) -> None:
    error = api_errors.build_error(502, body, {}, what="get pods")
    assert len(error.message) < 700


RAISED: list[tuple[Callable[[], BaseException], type[IcdcError]]] = [
    (TimeoutError, api_errors.Unavailable),
    (lambda: aiohttp.ServerTimeoutError("slow"), api_errors.Unavailable),
    (lambda: aiohttp.ServerDisconnectedError("gone"), api_errors.Unavailable),
    (lambda: ConnectionRefusedError("refused"), api_errors.Unavailable),
    (lambda: json.JSONDecodeError("bad", "", 0), api_errors.Unavailable),
    (lambda: ApiException(status=409, reason="Conflict"), api_errors.Conflict),
    (lambda: ApiException(status=0, reason="broken"), api_errors.Invalid),
    (lambda: ConfigException("no context"), BadSpec),
]


@pytest.mark.parametrize(("foreign", "kind"), RAISED)
def test_every_foreign_error_is_mapped_and_kept(
    foreign: Callable[[], BaseException], kind: type[IcdcError]
) -> None:
    error = foreign()
    with pytest.raises(kind, match="get pods") as caught, api_errors.map_errors("get pods"):
        raise error
    assert caught.value.__cause__ is error


def test_our_own_errors_pass_as_they_are() -> None:
    own = api_errors.Expired("old")
    with pytest.raises(api_errors.Expired) as caught, api_errors.map_errors("get pods"):
        raise own
    assert caught.value is own


def _list_all_below(kind: type[api_errors.ClusterError]) -> list[type[api_errors.ClusterError]]:
    return [error for child in kind.__subclasses__() for error in (child, *_list_all_below(child))]


def test_every_error_that_may_pass_says_so() -> None:
    passing = {error for error in _list_all_below(api_errors.ClusterError) if error.retryable}
    assert passing == {api_errors.Conflict, api_errors.Expired, api_errors.Unavailable}


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (
            'pods is forbidden: User "u" cannot list resource "pods" in API group "" in the'
            ' namespace "n"',
            '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}',
        ),
        (
            'x "shop" is forbidden: User "u" cannot patch resource "icebergcdcpipelines/status" in '
            'API group "icebergcdc.dev" in the namespace "n"',
            '{apiGroups: ["icebergcdc.dev"], resources: ["icebergcdcpipelines/status"], '
            'verbs: ["patch"]}',
        ),
    ],
)
def test_a_right_that_lacks_is_named_as_the_rule_that_gives_it(message: str, rule: str) -> None:
    error = api_errors.build_error(403, json.dumps({"message": message}), {}, what="list pods")
    assert error.message == f"list pods: {message} (status 403); missing RBAC rule: {rule}"
