"""Waiting until abandoned requests can no longer be applied."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_spark.opensearch.client.connection import Client, Connection, client
from icdc_spark.opensearch.client.http import GUARD
from icdc_spark.opensearch.client.tasks import opaque_id, wait_until_quiet
from icdc_spark.opensearch.stores import indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Reset, Rewrite, Status
from icdc_testing.target import sink_cases as sink

pytestmark = pytest.mark.spark


def tasks(*tags: str) -> Status:
    """An answer of the Tasks API with bulk tasks of the given opaque ids."""
    running = {f"n:{number}": {"headers": {"X-Opaque-Id": tag}} for number, tag in enumerate(tags)}
    return Status(200, body=json.dumps({"nodes": {"n": {"tasks": running}}}).encode())


def test_an_abandoned_request_is_applied_whole_before_it_is_quiet(
    clean_indices: str, admin: Client, index: PhysicalIndex
) -> None:
    count = 20_000
    lines = [sink.upsert(f"k{n}", {"v": n, "s": "x y z " * 50})[0] for n in range(count)]
    body = GUARD + b"".join(lines)
    head = (
        f"POST /{index.name}/_bulk HTTP/1.1\r\nhost: node\r\n"
        f"content-type: application/x-ndjson\r\nx-opaque-id: {opaque_id('orders', 1, 1)}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    parts = urlsplit(clean_indices)
    with socket.create_connection((parts.hostname, parts.port or 0)) as abandoned:
        abandoned.sendall(head.encode() + body)
    wait_until_quiet(admin, "orders", below_epoch=2)
    assert indices.refresh_and_count(admin, index.name) == count


@pytest.mark.parametrize(
    ("tag", "bounds", "waits"),
    [
        (opaque_id("orders", 3, 9), {"below_epoch": 4}, True),
        (opaque_id("orders", 4, 9), {"below_epoch": 4}, False),
        (opaque_id("orders", 4, 9), {"below_ordinal": 10}, True),
        (opaque_id("orders", 4, 10), {"below_ordinal": 10}, False),
        (opaque_id("orders", 3, 10), {"below_epoch": 4, "below_ordinal": 10}, True),
        (opaque_id("orders", 9, 9), {}, True),
        (opaque_id("customers", 1, 1), {"below_epoch": 4}, False),
        (opaque_id("orders/1", 1, 1), {}, False),
        ("icdc/orders/1", {}, False),
        ("somebody else's", {}, False),
        ("", {}, False),
    ],
)
def test_only_older_requests_of_the_alias_are_waited_for(
    proxy: FaultProxy, tag: str, bounds: dict[str, int], waits: bool
) -> None:
    proxy.add(tasks("", tag), path="_tasks", times=None)
    watcher = client(Connection(hosts=(proxy.url,)))
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
    part = proxy.add(Rewrite(lambda answer: answer | missing), path="_tasks", times=8)
    watcher = client(Connection(hosts=(proxy.url,)))
    # Eight answers are more than a second; once everything answers, it is quiet.
    wait_until_quiet(watcher, "orders")
    assert (part.hits, len(proxy.requests("_tasks")) > 9) == (8, True)
    assert all("timeout=10s" in seen.target for seen in proxy.requests("_tasks"))
    part.times = None
    with pytest.raises(TargetUnavailable, match="does not say what it is doing"):
        wait_until_quiet(watcher, "orders", patience=0.1)
    watcher.close()


@pytest.mark.parametrize("fault", [Status(503), Status(429), Reset()])
def test_a_passing_fault_of_the_question_does_not_end_the_wait(
    proxy: FaultProxy, fault: Status | Reset
) -> None:
    proxy.add(fault, path="_tasks")
    proxy.add(tasks(opaque_id("orders", 1, 1)), path="_tasks")
    watcher = client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "orders")
    assert len(proxy.requests("_tasks")) > 3
    watcher.close()


def test_one_empty_answer_is_not_enough(proxy: FaultProxy) -> None:
    proxy.add(tasks(), path="_tasks")
    proxy.add(tasks(opaque_id("orders", 1, 1)), path="_tasks", times=3)
    watcher = client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "orders")
    assert len(proxy.requests("_tasks")) > 5
    watcher.close()


def test_an_alias_beyond_ascii_fits_into_a_header(proxy: FaultProxy) -> None:
    tag = opaque_id("größe", 1, 2)
    assert tag.isascii()
    proxy.add(tasks(tag), path="_tasks", times=2)
    watcher = client(Connection(hosts=(proxy.url,)))
    wait_until_quiet(watcher, "größe")
    watcher.close()
