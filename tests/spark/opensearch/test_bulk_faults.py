"""Faults between us and a real node: never a lost or a doubled effect."""

import re

import pytest

from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.protocol.state_document import compute_base_version
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import (
    Action,
    Delay,
    EndAfterApply,
    HalfAnswer,
    Hang,
    ItemErrors,
    Reset,
    Status,
)
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import read_documents

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

LINES = [sink.upsert(f"k{n}", {"v": n}) for n in range(400)]
EXPECTED = {f"k{n}": (compute_base_version(1), {"v": n}) for n in range(400)}


def write(
    proxy: FaultProxy, lines: list[sink.Line], ordinal: int = 1, **changes: object
) -> PartitionResult:
    return sink.run_task(sink.make_batches(lines), sink.make_target(proxy.url, ordinal, **changes))


def list_sent_entries(proxy: FaultProxy) -> list[list[str]]:
    """Return the ids of each bulk request, the guard left out."""
    sent = [re.findall(rb'"_id":\s?"(k\d+)"', seen.body) for seen in proxy.list_requests("_bulk")]
    return [[id_.decode() for id_ in ids] for ids in sent]


@pytest.mark.parametrize(
    ("fault", "ambiguous"),
    [
        pytest.param(Status(429), False, id="overload"),
        pytest.param(Status(429, retry_after=1), False, id="overload with Retry-After"),
        pytest.param(Status(503), True, id="unavailable"),
        pytest.param(Status(502, body=b"<html>"), True, id="a gateway's page"),
        pytest.param(Status(400, body=b"<html>"), True, id="a page that says 400"),
        pytest.param(Status(404, body=b"<html>"), True, id="a page that says 404"),
        pytest.param(Status(404, body=b'{"message":"?"}'), True, id="a gateway's object"),
        pytest.param(Status(302, body=b""), True, id="a redirect"),
        pytest.param(Status(200, body=b"<html>"), True, id="a page that says 200"),
        pytest.param(Status(200, body=b'{"took":1}'), True, id="an answer without items"),
        pytest.param(Reset(), True, id="reset before"),
        pytest.param(Reset(after=True), True, id="reset after applying"),
        pytest.param(EndAfterApply(), True, id="closed after applying"),
        pytest.param(HalfAnswer(), True, id="half an answer"),
    ],
)
def test_a_fault_is_survived_with_every_document_written_once(
    proxy: FaultProxy, fault: Action, ambiguous: bool
) -> None:
    rule = proxy.add(fault, path="_bulk", times=2)
    result = write(proxy, LINES, max_bytes=20_000)
    assert result.error is None
    assert rule.hits == 2
    assert result.upserted + result.already_applied == 400
    assert (result.retries, result.ambiguous) == (2, ambiguous)
    assert result.throttled == (2 if getattr(fault, "code", None) == 429 else 0)
    assert (result.suspects.count, result.foreign_edits.count) == (0, 0)
    assert read_documents(proxy.upstream, sink.INDEX) == EXPECTED


@pytest.mark.parametrize("fault", [Hang(), Hang(after=False), Delay(30.0, after=True)])
def test_a_request_without_answer_is_repeated_and_ambiguous(
    proxy: FaultProxy, fault: Action
) -> None:
    proxy.add(fault, path="_bulk")
    impatient = Connection(hosts=(proxy.url,), timeout=1.0)
    # On a busy host an answer may be late by itself, again and again.
    result = write(proxy, LINES, connection=impatient, retry_seconds=120.0)
    assert (result.error, result.ambiguous) == (None, True)
    assert result.upserted + result.already_applied == 400
    # Also for the answer that never came.
    assert result.waiting_seconds >= impatient.timeout
    assert read_documents(proxy.upstream, sink.INDEX) == EXPECTED


@pytest.mark.parametrize("status", [429, 503])
def test_only_the_failed_items_are_sent_again(proxy: FaultProxy, status: int) -> None:
    proxy.add(ItemErrors(lambda w: w.id in {"k3", "k7"}, status=status), path="_bulk")
    result = write(proxy, LINES)
    assert (result.error, result.upserted, result.ambiguous) == (None, 400, False)
    assert result.throttled == (1 if status == 429 else 0)
    assert [len(ids) for ids in list_sent_entries(proxy)] == [400, 2]
    assert read_documents(proxy.upstream, sink.INDEX) == EXPECTED


def test_a_deleted_document_is_not_brought_back_by_the_retry_of_a_neighbour(
    proxy: FaultProxy,
) -> None:
    write(proxy, LINES)
    proxy.clear()
    proxy.add(Reset(after=True), path="_bulk")
    later = [sink.delete("k1", 2), sink.upsert("k2", {"v": -2}, 2, expect="u")]
    result = write(proxy, later, ordinal=2)
    assert (result.error, result.already_applied) == (None, 2)
    retained = read_documents(proxy.upstream, sink.INDEX)
    assert "k1" not in retained
    assert retained["k2"] == (compute_base_version(2), {"v": -2})


def test_a_request_that_is_always_refused_for_load_is_halved(proxy: FaultProxy) -> None:
    proxy.add(Status(429), path="_bulk", body='"k0".*', times=6)
    result = write(proxy, LINES)
    assert result.error is None
    assert min(len(ids) for ids in list_sent_entries(proxy) if "k0" in ids) < 400
    assert read_documents(proxy.upstream, sink.INDEX) == EXPECTED


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Status(429), "Throttled"),
        (Status(503), "TargetUnavailable"),
        (Reset(), "TargetUnavailable"),
    ],
)
def test_retries_end_when_their_time_is_used_up(
    proxy: FaultProxy, fault: Action, error: str
) -> None:
    proxy.add(fault, path="_bulk", times=None)
    result = write(proxy, LINES, retry_seconds=3.0)
    assert result.error is not None
    assert result.error[0] == error
    assert result.retries >= 2


def test_a_proxy_that_takes_nothing_at_all_makes_no_dead_letters(proxy: FaultProxy) -> None:
    write(proxy, LINES)
    proxy.add(Status(413, body=b"<html>"), path="_bulk", times=None)
    later = [sink.delete("k1", 2), sink.upsert("k2", {"v": -2}, 2, expect="u")]
    result = write(proxy, later, ordinal=2)
    assert result.error is not None
    assert (result.error[0], result.dead_letters) == ("TargetInvalid", 0)
    assert "raise http.max_content_length, or the limit of the proxy" in result.error[1]


@pytest.mark.parametrize(("status", "error"), [(401, "Unauthorized"), (403, "Unauthorized")])
def test_a_refusal_of_the_credentials_is_not_retried(
    proxy: FaultProxy, status: int, error: str
) -> None:
    proxy.add(Status(status, kind="security_exception"), path="_bulk", times=None)
    secret = Connection(hosts=(proxy.url,), username="u", password="p", secret="search")
    result = write(proxy, LINES, connection=secret)
    assert result.error is not None
    assert result.error[0] == error
    assert "the credentials in Secret 'search'" in result.error[1]
    assert result.retries == 0


def test_an_unreachable_node_is_not_ambiguous(proxy: FaultProxy) -> None:
    proxy.stop()
    result = write(proxy, LINES, retry_seconds=0.5)
    assert result.error is not None
    assert (result.error[0], result.ambiguous) == ("TargetUnavailable", False)


def test_another_host_takes_over_from_a_dead_one(proxy: FaultProxy, clean_indices: str) -> None:
    proxy.stop()
    both = Connection(hosts=(proxy.url, clean_indices))
    result = write(proxy, LINES, connection=both, max_bytes=5_000)
    assert (result.error, result.upserted) == (None, 400)


def test_requests_carry_the_opaque_id_of_their_batch(proxy: FaultProxy) -> None:
    write(proxy, LINES, epoch=7)
    assert {seen.opaque_id for seen in proxy.list_requests("_bulk")} == {"icdc/orders/7/1"}


def test_a_request_writes_its_operations_and_nothing_else(proxy: FaultProxy) -> None:
    write(proxy, [sink.upsert("k1", {"v": 1}), sink.delete("k2")])
    assert [(write.op, write.id, write.version) for write in proxy.list_writes()] == [
        ("index", "k1", compute_base_version(1)),
        ("delete", "k2", compute_base_version(1)),
    ]
    assert set(read_documents(proxy.upstream, sink.INDEX)) == {"k1"}
