"""Waiting until abandoned requests can no longer be applied."""

import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_spark.opensearch.client import tasks as bulk_tasks
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.client.http import GUARD
from icdc_spark.opensearch.client.nodes import read_processes
from icdc_spark.opensearch.client.tasks import EMPTY_SECONDS, build_opaque_id, wait_until_quiet
from icdc_spark.opensearch.stores import indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Reset, RewrittenAnswer, Status
from icdc_testing.target import sink_cases as sink

pytestmark = pytest.mark.spark


def make_tasks(*tags: str) -> Status:
    """Return an answer of the Tasks API with bulk tasks of the given opaque ids."""
    running = {f"n:{number}": {"headers": {"X-Opaque-Id": tag}} for number, tag in enumerate(tags)}
    return Status(200, body=json.dumps({"nodes": {"n": {"tasks": running}}}).encode())


COUNT = 20_000


def abandon_request(url: str, index: str, tag: str) -> None:
    """Send a bulk request of COUNT documents with that opaque id, and wait for no answer."""
    lines = [sink.upsert(f"k{n}", {"v": n, "s": "x y z " * 50})[0] for n in range(COUNT)]
    body = GUARD + b"".join(lines)
    head = (
        f"POST /{index}/_bulk HTTP/1.1\r\nhost: node\r\n"
        f"content-type: application/x-ndjson\r\nx-opaque-id: {tag}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port or 0)) as abandoned:
        abandoned.sendall(head.encode() + body)


def test_an_abandoned_request_is_applied_whole_before_it_is_quiet(
    clean_indices: str, admin: Client, index: PhysicalIndex
) -> None:
    abandon_request(clean_indices, index.name, build_opaque_id("orders", 1, 1))
    wait_until_quiet(admin, "orders", below_epoch=2)
    assert indices.refresh_and_count(admin, index.name) == COUNT


def test_behind_a_gateway_with_ids_of_its_own_requests_are_known_by_their_index(
    proxy: FaultProxy, admin: Client, index: PhysicalIndex, caplog: pytest.LogCaptureFixture
) -> None:
    """The same as with tags: its own on the bulk request, and another one on the question."""
    written: dict[str, str] = {}

    def put_tag(answer: dict[str, Any]) -> dict[str, Any]:
        for node in answer["nodes"].values():
            for task in node["tasks"].values():
                task["headers"] = {"X-Opaque-Id": "of the gateway"}
                if "write" in task["action"]:
                    written[task["action"]] = task["description"]
        return answer

    proxy.add(RewrittenAnswer(put_tag), path="_tasks", times=None)
    abandon_request(proxy.upstream, index.name, "of the gateway")
    watcher = open_client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "orders", below_epoch=2)
    watcher.close()
    assert indices.refresh_and_count(admin, index.name) == COUNT
    assert written
    assert all(index.name in description for description in written.values()), written
    assert "the header X-Opaque-Id of requests does not reach OpenSearch" in caplog.text


def test_where_tags_arrive_a_request_of_somebody_else_is_not_waited_for(
    proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    def add_task(answer: dict[str, Any]) -> dict[str, Any]:
        (node,) = answer["nodes"].values()
        node["tasks"]["n:0"] = {"description": "requests[3], indices[orders-000001]"}
        return answer

    proxy.add(RewrittenAnswer(add_task), path="_tasks", times=None)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "orders")
    watcher.close()
    assert "X-Opaque-Id" not in caplog.text


@pytest.mark.parametrize(
    ("description", "waits"),
    [
        ("requests[3], indices[orders-000001]", True),
        ("requests[3], indices[parts-000001, orders-1772366672]", True),
        ("requests[2], index[orders-000001][0]", True),
        ("[requests[2], index[orders-000012][1]] for aID [x], term [1]", True),
        ("requests[3], indices[orders-dead-letters]", True),
        ("requests[3], indices[orders-eu-000001]", False),
        ("requests[3], indices[old-orders-000001]", False),
        ("requests[3], indices[orders]", False),
        ("", False),
    ],
)
def test_without_tags_requests_to_the_indices_of_the_alias_are_waited_for(
    proxy: FaultProxy, description: str, waits: bool
) -> None:
    running = {"n:1": {"description": description, "headers": {}}}
    body = json.dumps({"nodes": {"n": {"tasks": running}}}).encode()
    proxy.add(Status(200, body=body), path="_tasks", times=None)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    if waits:
        with pytest.raises(TargetUnavailable, match="the header X-Opaque-Id of requests does not"):
            wait_until_quiet(watcher, "orders", below_epoch=1, patience=0.1)
    else:
        wait_until_quiet(watcher, "orders", below_epoch=1)
    watcher.close()


@pytest.mark.parametrize(
    ("tag", "bounds", "waits"),
    [
        (build_opaque_id("orders", 3, 9), {"below_epoch": 4}, True),
        (build_opaque_id("orders", 4, 9), {"below_epoch": 4}, False),
        (build_opaque_id("orders", 4, 9), {"below_ordinal": 10}, True),
        (build_opaque_id("orders", 4, 10), {"below_ordinal": 10}, False),
        (build_opaque_id("orders", 3, 10), {"below_epoch": 4, "below_ordinal": 10}, True),
        (build_opaque_id("orders", 9, 9), {}, True),
        (build_opaque_id("customers", 1, 1), {"below_epoch": 4}, False),
        (build_opaque_id("orders/1", 1, 1), {}, False),
        ("icdc/orders/1", {}, False),
        ("somebody else's", {}, False),
        ("", {}, False),
    ],
)
def test_only_older_requests_of_the_alias_are_waited_for(
    proxy: FaultProxy, tag: str, bounds: dict[str, Any], waits: bool
) -> None:
    proxy.add(make_tasks("", tag), path="_tasks", times=None)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    try:
        if waits:
            with pytest.raises(TargetUnavailable, match="abandoned bulk request for 'orders'"):
                wait_until_quiet(watcher, "orders", patience=0.1, **bounds)
        else:
            wait_until_quiet(watcher, "orders", **bounds)
    finally:
        watcher.close()


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param({"node_failures": [{"type": "failed_node_exception"}]}, id="a node"),
        pytest.param({"task_failures": [{"type": "exception"}]}, id="a task"),
        pytest.param({"nodes": None}, id="all of them"),
    ],
)
def test_an_answer_in_which_something_is_missing_is_not_quiet(
    proxy: FaultProxy, missing: dict[str, object]
) -> None:
    part = proxy.add(RewrittenAnswer(lambda answer: answer | missing), path="_tasks", times=8)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    # Eight answers are more than a second; once everything answers, it is quiet.
    wait_until_quiet(watcher, "orders")
    assert (part.hits, len(proxy.list_requests("_tasks")) > 9) == (8, True)
    assert all("timeout=10s" in seen.target for seen in proxy.list_requests("_tasks"))
    part.times = None
    with pytest.raises(TargetUnavailable, match="does not say what it is doing"):
        wait_until_quiet(watcher, "orders", patience=0.1)
    watcher.close()


@pytest.mark.parametrize("fault", [Status(503), Status(429), Reset()])
def test_a_passing_fault_of_the_question_does_not_end_the_wait(
    proxy: FaultProxy, fault: Status | Reset
) -> None:
    proxy.add(fault, path="_tasks")
    proxy.add(make_tasks(build_opaque_id("orders", 1, 1)), path="_tasks")
    watcher = open_client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "orders")
    assert len(proxy.list_requests("_tasks")) > 3
    watcher.close()


def test_one_empty_answer_is_not_enough(proxy: FaultProxy) -> None:
    proxy.add(make_tasks(), path="_tasks")
    proxy.add(make_tasks(build_opaque_id("orders", 1, 1)), path="_tasks", times=3)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "orders")
    assert len(proxy.list_requests("_tasks")) > 5
    watcher.close()


@pytest.fixture
def short_absence(monkeypatch: pytest.MonkeyPatch) -> float:
    """The seconds for which absent nodes are waited for, here."""
    seconds = 1.5
    monkeypatch.setattr(bulk_tasks, "ABSENT_SECONDS", seconds)
    return seconds


def test_the_answer_names_every_node_whether_it_writes_or_not(admin: Client) -> None:
    nodes = read_processes(admin)
    assert len(nodes) == 1
    assert wait_until_quiet(admin, "orders", expected=nodes) == frozenset()


@pytest.mark.parametrize("expected", [[], ["n"], ["n", "m"], ["m"]], ids=str)
def test_a_node_that_left_the_cluster_is_waited_for_and_named(
    proxy: FaultProxy, short_absence: float, expected: list[str]
) -> None:
    proxy.add(make_tasks(), path="_tasks", times=None)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    begun = time.monotonic()
    absent = wait_until_quiet(watcher, "orders", expected=expected)
    watcher.close()
    assert absent == frozenset(expected) - {"n"}
    if "m" in expected:
        assert time.monotonic() - begun >= short_absence + EMPTY_SECONDS


def test_a_node_that_comes_back_is_asked_like_the_others(proxy: FaultProxy) -> None:
    """It is back after three answers, with a request that takes six more."""
    older = {"m:1": {"headers": {"X-Opaque-Id": build_opaque_id("orders", 1, 1)}}}
    both: dict[str, Any] = {"n": {"tasks": {}}, "m": {"tasks": {}}}
    proxy.add(make_tasks(), path="_tasks", times=3)
    busy = json.dumps({"nodes": both | {"m": {"tasks": older}}}).encode()
    late = proxy.add(Status(200, body=busy), path="_tasks", times=6)
    proxy.add(Status(200, body=json.dumps({"nodes": both}).encode()), path="_tasks", times=None)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    absent = wait_until_quiet(watcher, "orders", below_epoch=2, expected=["n", "m"])
    watcher.close()
    assert (late.hits, absent) == (6, frozenset())


def test_a_node_that_is_back_at_the_second_of_two_answers_is_asked_twice(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is inside it is a task only a moment later, as for any other node."""
    monkeypatch.setattr(bulk_tasks, "ABSENT_SECONDS", 0.0)
    # So seldom that the fourth answer is late enough to be the second one that counts.
    monkeypatch.setattr(bulk_tasks, "POLL_SECONDS", 0.4 * EMPTY_SECONDS)
    older = {"m:1": {"headers": {"X-Opaque-Id": build_opaque_id("orders", 1, 1)}}}
    both: dict[str, Any] = {"n": {"tasks": {}}, "m": {"tasks": {}}}
    # It is back at the third answer, and its task is seen in the fifth: however late each comes.
    proxy.add(make_tasks(), path="_tasks", times=2)
    proxy.add(Status(200, body=json.dumps({"nodes": both}).encode()), path="_tasks", times=2)
    busy = json.dumps({"nodes": both | {"m": {"tasks": older}}}).encode()
    late = proxy.add(Status(200, body=busy), path="_tasks", times=2)
    proxy.add(Status(200, body=json.dumps({"nodes": both}).encode()), path="_tasks", times=None)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "orders", below_epoch=2, expected=["n", "m"])
    watcher.close()
    assert late.hits == 2


def test_the_processes_of_the_nodes_in_the_cluster_are_read(admin: Client) -> None:
    processes = read_processes(admin)
    (here,) = processes
    assert processes[here] > 0
    assert read_processes(admin, [here, "no such node"]) == processes
    assert read_processes(admin, ["no such node"]) == {}


def test_where_a_node_does_not_say_which_process_it_is_none_is_read(proxy: FaultProxy) -> None:
    def fail_one(answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {"_nodes": {"failed": 1}}

    proxy.add(RewrittenAnswer(fail_one), path="/_nodes/")
    watcher = open_client(Connection(hosts=(proxy.url,)))
    assert read_processes(watcher) == {}
    assert len(read_processes(watcher)) == 1
    watcher.close()


def test_an_alias_beyond_ascii_fits_into_a_header(proxy: FaultProxy) -> None:
    tag = build_opaque_id("größe", 1, 2)
    assert tag.isascii()
    proxy.add(make_tasks(tag), path="_tasks", times=2)
    watcher = open_client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "größe")
    watcher.close()
