"""Each fault of the proxy, seen from a client and in a real node."""

import gzip
import http.client
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_testing.network import faults
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.tls import make_certificates
from icdc_testing.target.node_calls import NodeAnswer, call, read_documents
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

BULK = "/people/_bulk"


def _build_index_action(doc_id: str, version: int = 1, name: str = "Ada") -> bytes:
    action = {"index": {"_id": doc_id, "version": version, "version_type": "external"}}
    return b"%s\n%s\n" % (json.dumps(action).encode(), json.dumps({"name": name}).encode())


def _delete(doc_id: str, version: int) -> bytes:
    action = {"delete": {"_id": doc_id, "version": version, "version_type": "external"}}
    return json.dumps(action).encode() + b"\n"


def _read_ids(url: str) -> set[str]:
    if call(url, "HEAD", "/people").status == 404:
        return set()
    return set(read_documents(url, "people"))


class _Background:
    """A call in a thread, for a request that is held."""

    def __init__(self, ask: Callable[[], NodeAnswer]) -> None:
        self.answer: NodeAnswer | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(ask,))
        self._thread.start()

    def _run(self, ask: Callable[[], NodeAnswer]) -> None:
        try:
            self.answer = ask()
        except (OSError, http.client.HTTPException) as exc:
            self.error = exc

    def join(self) -> None:
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("code", [401, 403, 413, 429, 503])
def test_a_status_is_answered_once_and_nothing_is_applied(
    proxy: FaultProxy, clean_indices: str, code: int
) -> None:
    rule = proxy.add(faults.Status(code), method="POST", path="_bulk")

    assert call(proxy.url, "POST", BULK, _build_index_action("1")).status == code
    assert _read_ids(clean_indices) == set()
    assert proxy.list_writes() == []
    assert rule.hits == 1

    assert call(proxy.url, "POST", BULK, _build_index_action("1")).json["errors"] is False
    assert _read_ids(clean_indices) == {"1"}


def test_retry_after_is_sent_only_when_asked_for(proxy: FaultProxy) -> None:
    proxy.add(faults.Status(429, retry_after=7), path="_search")
    proxy.add(faults.Status(429), path="_search")
    seen = []
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
        connection.request("GET", "/_search")
        with connection.getresponse() as answer:
            seen.append(answer.headers.get("Retry-After"))
        connection.close()
    assert seen == ["7", None]


@pytest.mark.parametrize(
    ("action", "error", "applied"),
    [
        (faults.Reset(), ConnectionResetError, False),
        (faults.Reset(after=True), ConnectionResetError, True),
        (faults.EndAfterApply(), http.client.RemoteDisconnected, True),
        (faults.HalfAnswer(), http.client.IncompleteRead, True),
        (faults.Hang(), TimeoutError, True),
        (faults.Hang(after=False), TimeoutError, False),
    ],
)
def test_a_broken_answer_leaves_the_write_applied_or_not_as_said(
    proxy: FaultProxy,
    clean_indices: str,
    action: faults.Action,
    error: type[Exception],
    applied: bool,
) -> None:
    call(clean_indices, "PUT", "/people")
    proxy.add(action, path="_bulk")
    # Only where no answer is to come may it be the client that ends the call.
    seconds = 1.0 if error is TimeoutError else WAIT_SECONDS
    with pytest.raises(error):
        call(proxy.url, "POST", BULK, _build_index_action("1"), timeout=seconds)
    # The client may have given up before the node was done.
    wait_until(
        lambda: _read_ids(clean_indices) == ({"1"} if applied else set()), "it is applied as said"
    )
    assert len(proxy.list_writes("people")) == int(applied)


@pytest.mark.parametrize("after", [False, True])
def test_a_delay_only_makes_the_answer_later(proxy: FaultProxy, after: bool) -> None:
    call(proxy.url, "PUT", "/people")
    proxy.add(faults.Delay(WAIT_SECONDS, after=after), path="_bulk")
    with pytest.raises(TimeoutError):
        call(proxy.url, "POST", BULK, _build_index_action("1"), timeout=0.2)
    proxy.add(faults.Delay(0.05, after=after), path="_bulk")
    assert call(proxy.url, "POST", BULK, _build_index_action("2")).status == 200


def test_item_errors_replace_the_chosen_operations_and_keep_the_order(
    proxy: FaultProxy, clean_indices: str
) -> None:
    proxy.add(faults.ItemErrors(lambda write: write.id in {"1", "3"}, status=429), path="_bulk")
    body = (
        _build_index_action("0")
        + _build_index_action("1")
        + _delete("2", 5)
        + _build_index_action("3")
    )

    answer = call(proxy.url, "POST", BULK + "?filter_path=errors,items.*.status", body)

    items = json.loads(answer.body)["items"]
    assert [next(iter(item.values()))["status"] for item in items] == [201, 429, 404, 429]
    assert _read_ids(clean_indices) == {"0"}
    assert [write.id for write in proxy.list_writes()] == ["0", "2"]


def test_item_errors_on_every_operation_forward_nothing(proxy: FaultProxy) -> None:
    proxy.add(faults.ItemErrors(lambda _: True, status=400, kind="mapper_parsing_exception"))
    answer = call(proxy.url, "POST", BULK, _build_index_action("1"))
    assert json.loads(answer.body)["items"][0]["index"]["status"] == 400
    assert proxy.list_writes() == []


def test_a_request_held_before_forwarding_is_not_applied_until_released(
    proxy: FaultProxy, clean_indices: str
) -> None:
    hold = proxy.hold("_bulk")
    client = _Background(lambda: call(proxy.url, "POST", BULK, _build_index_action("1")))
    hold.wait()
    assert _read_ids(clean_indices) == set()
    hold.release()
    client.join()
    assert client.answer is not None
    assert client.answer.status == 200
    assert _read_ids(clean_indices) == {"1"}


def test_a_request_held_after_it_was_applied_waits_with_its_answer(
    proxy: FaultProxy, clean_indices: str
) -> None:
    hold = proxy.hold("_bulk", after=True)
    client = _Background(lambda: call(proxy.url, "POST", BULK, _build_index_action("1")))
    hold.wait()
    assert _read_ids(clean_indices) == {"1"}
    assert client.answer is None
    hold.drop()
    client.join()
    assert isinstance(client.error, ConnectionResetError)


def test_a_dropped_request_never_reaches_the_node(proxy: FaultProxy, clean_indices: str) -> None:
    hold = proxy.hold("_bulk")
    client = _Background(lambda: call(proxy.url, "POST", BULK, _build_index_action("1")))
    hold.wait()
    hold.drop()
    client.join()
    assert isinstance(client.error, ConnectionResetError)
    assert _read_ids(clean_indices) == set()


def test_a_write_of_a_client_that_died_arrives_when_it_is_released(
    proxy: FaultProxy, clean_indices: str
) -> None:
    call(clean_indices, "PUT", "/people")
    hold = proxy.hold("_bulk")
    with pytest.raises(TimeoutError):
        call(proxy.url, "POST", BULK, _build_index_action("late"), timeout=0.3)
    hold.wait()
    assert _read_ids(clean_indices) == set()
    hold.release()
    wait_until(lambda: _read_ids(clean_indices) == {"late"}, "the late write is applied")


def test_a_rule_counts_matches_by_method_path_and_body(proxy: FaultProxy) -> None:
    proxy.add(faults.Status(503), method="POST", path="_bulk", body='"_id": "b"', skip=1, times=2)
    statuses = [
        call(proxy.url, "POST", BULK, _build_index_action(doc_id)).status
        for doc_id in ("a", "b", "b", "b", "b", "a")
    ]
    assert statuses == [200, 200, 503, 503, 200, 200]


def test_writes_are_recorded_with_version_and_digest(proxy: FaultProxy) -> None:
    body = _build_index_action("1", 3, "Ada") + _delete("2", 4)
    call(proxy.url, "POST", BULK, body)
    call(proxy.url, "PUT", "/icdc-state/_doc/people?version=9&version_type=external", {"a": 1})
    call(proxy.url, "DELETE", "/icdc-state/_doc/people")

    first, second, state, missing = proxy.list_writes()
    assert (first.op, first.index, first.id, first.version) == ("index", "people", "1", 3)
    assert first.source == b'{"name": "Ada"}'
    assert len(first.digest) == 64
    assert (second.op, second.id, second.version, second.digest) == ("delete", "2", 4, "")
    assert (state.op, state.index, state.version) == ("index", "icdc-state", 9)
    assert missing.op == "delete"
    assert proxy.list_writes("icdc-state") == [state, missing]
    assert [seen.method for seen in proxy.list_requests()] == ["POST", "PUT", "DELETE"]
    assert proxy.list_requests("icdc-state")[0].parse_body() == {"a": 1}


def test_gzip_and_chunked_bodies_pass_over_one_kept_connection(
    proxy: FaultProxy, clean_indices: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
    kind = {"content-type": "application/x-ndjson"}
    packed = {**kind, "content-encoding": "gzip"}
    statuses = []
    for body, headers, chunked in (
        (gzip.compress(_build_index_action("1")), packed, False),
        (iter([_build_index_action("2"), _build_index_action("3")]), kind, True),
    ):
        connection.request("POST", BULK, body=body, headers=headers, encode_chunked=chunked)
        answer = connection.getresponse()
        statuses.append(answer.status)
        answer.read()
    connection.request("HEAD", "/people")
    answer = connection.getresponse()
    statuses.append(answer.status)
    answer.read()
    connection.close()
    assert statuses == [200, 200, 200]
    assert _read_ids(clean_indices) == {"1", "2", "3"}
    assert [write.id for write in proxy.list_writes()] == ["1", "2", "3"]


def test_credentials_are_asked_for_and_may_change(clean_indices: str) -> None:
    with FaultProxy(clean_indices, credentials=("ada", "one")) as proxy:
        assert call(proxy.url, "GET", "/").status == 401
        assert call(proxy.url, "GET", "/", credentials=("ada", "two")).status == 401
        assert call(proxy.url, "GET", "/", credentials=("ada", "one")).status == 200
        proxy.credentials = ("ada", "two")
        assert call(proxy.url, "GET", "/", credentials=("ada", "two")).status == 200


def test_tls_is_trusted_only_with_its_authority(clean_indices: str, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    trusting = ssl.create_default_context(cafile=made.ca)
    with FaultProxy(clean_indices, tls=made.make_server_context()) as proxy:
        assert call(proxy.url, "GET", "/", tls=trusting).status == 200
        proxy.add(faults.Reset(), path="_count")
        with pytest.raises(ConnectionError):
            call(proxy.url, "GET", "/_count", tls=trusting)
        with pytest.raises(ssl.SSLCertVerificationError):
            call(proxy.url, "GET", "/", tls=ssl.create_default_context())


def test_a_stopped_proxy_refuses_connections_until_it_starts_again(proxy: FaultProxy) -> None:
    url = proxy.url
    proxy.stop()
    with pytest.raises(ConnectionRefusedError):
        call(url, "GET", "/")
    proxy.start()
    assert call(url, "GET", "/").status == 200
