"""A node that left the cluster with requests inside it, and what follows when it is back.

The proxy takes the only node out of the answers in which OpenSearch lists its nodes; that the
requests inside a real node come late is shown by `tests/spark/nodes/test_old_requests.py`.
"""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.naming import STATE_INDEX
from icdc_spark.opensearch.client import tasks as bulk_tasks
from icdc_spark.replication import context as contexts
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Reset, RewrittenAnswer, Rule, Status
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.target.node_calls import call

from .listed_nodes import add_another_node, leave, move_primaries, restart_nodes

pytestmark = pytest.mark.spark

ALIAS = "left"
FIRST, SECOND = f"{ALIAS}-000001", f"{ALIAS}-000002"
READ_ONLY = Status(403, kind="cluster_block_exception")


@pytest.fixture
def pipeline(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Harness:
    """A pipeline that never ran, over a table of two rows; absent nodes are waited for shortly."""
    monkeypatch.setattr(bulk_tasks, "ABSENT_SECONDS", 0.5)
    # No task of a run before is left here that could begin a request.
    monkeypatch.setattr(contexts, "OWNER_SECONDS", 0.5)
    table = lake.create("id int, name string")
    lake.sql(f"insert into lake.{table} values (1, 'a'), (2, 'b')")
    entry = {"name": table, "identifierColumns": ["id"], "index": ALIAS}
    return Harness(spark, proxy.url, tmp_path, [entry])


@pytest.fixture
def change(lake: Lake, pipeline: Harness) -> Callable[[], None]:
    """Exports the table, and leaves a change to the next run."""
    table = pipeline.resource["spec"]["tables"][0]["name"]

    def sync_and_delete() -> None:
        pipeline.sync()
        lake.sql(f"delete from lake.{table} where id = 2")

    return sync_and_delete


def read_state(url: str) -> dict[str, Any]:
    source: dict[str, Any] = oracle.request(f"{url}/{STATE_INDEX}/_doc/{ALIAS}")["_source"]
    return source


def list_absent(url: str) -> list[str]:
    return [absent["node"] for absent in read_state(url)["absentNodes"]]


def read_node(url: str) -> str:
    (node,) = oracle.request(f"{url}/_nodes/jvm")["nodes"]
    return str(node)


@pytest.mark.parametrize("first", [True, False], ids=["an export", "a batch"])
def test_a_batch_names_the_nodes_that_its_requests_may_be_inside(
    pipeline: Harness,
    change: Callable[[], None],
    proxy: FaultProxy,
    clean_indices: str,
    first: bool,
) -> None:
    if not first:
        change()
    refusing = proxy.add(READ_ONLY, path="_bulk")
    assert pipeline.run_to_stall().reason == "TargetReadOnly"
    assert refusing.hits == 1
    assert list(read_state(clean_indices)["intent"]["nodes"]) == [read_node(clean_indices)]


@pytest.fixture
def absent(
    pipeline: Harness, change: Callable[[], None], proxy: FaultProxy, clean_indices: str
) -> str:
    """A node left with a batch inside it, which the next run has repeated; the id of the node."""
    change()
    proxy.add(READ_ONLY, path="_bulk")
    assert pipeline.run_to_stall().reason == "TargetReadOnly"
    leave(proxy)
    pipeline.sync()
    proxy.clear()
    node = read_node(clean_indices)
    assert list_absent(clean_indices) == [node]
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1"}
    return node


def test_a_node_that_comes_back_with_what_it_held_is_followed_by_an_export(
    pipeline: Harness, absent: str, clean_indices: str
) -> None:
    # Such as the request that was inside it, applied late.
    call(clean_indices, "PUT", f"/{FIRST}/_doc/2?refresh=true", {"id": 2, "name": "b"})
    pipeline.sync()
    state = read_state(clean_indices)
    assert (state["index"], state["absentNodes"]) == (SECOND, [])
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1"}


def test_a_node_that_comes_back_stops_the_table_where_that_is_asked_for(
    pipeline: Harness, absent: str, proxy: FaultProxy, clean_indices: str
) -> None:
    pipeline.resource["spec"]["changelog"] = {"onGap": "Stop"}
    # Restarted later, it can say no more what it held.
    for seen in (RewrittenAnswer(lambda answer: answer), RewrittenAnswer(restart_nodes)):
        proxy.add(seen, path="/_nodes/", times=None)
        stalled = pipeline.run_to_stall()
        assert stalled.reason == "Gap"
        assert f"the OpenSearch node {absent} left its cluster" in str(stalled.message)
        assert "Raise spec.resync.nonce to export the table again" in str(stalled.message)
        proxy.clear()
    pipeline.resource["spec"]["resync"] = {"nonce": 1}
    pipeline.sync()
    assert read_state(clean_indices)["index"] == SECOND


def test_a_node_that_was_restarted_costs_nothing(
    pipeline: Harness, absent: str, proxy: FaultProxy, clean_indices: str
) -> None:
    proxy.add(RewrittenAnswer(restart_nodes), path="/_nodes/", times=None)
    pipeline.sync()
    state = read_state(clean_indices)
    assert (state["index"], state["absentNodes"]) == (FIRST, [])
    before = len(proxy.list_requests("/_nodes/"))
    pipeline.sync()
    assert len(proxy.list_requests("/_nodes/")) == before


def test_a_node_that_stays_away_is_asked_for_in_one_request_and_waited_for_no_more(
    pipeline: Harness, absent: str, proxy: FaultProxy, clean_indices: str
) -> None:
    away = leave(proxy)
    before = len(proxy.list_requests("/_nodes/"))
    pipeline.sync()
    assert len(proxy.list_requests("/_nodes/")) == before + 1
    # As for any run that takes over a table at rest: two answers a second apart.
    assert away.hits < 8
    state = read_state(clean_indices)
    assert (state["index"], list_absent(clean_indices)) == (FIRST, [absent])


def test_a_node_that_leaves_with_an_unanswered_request_of_the_same_run_is_remembered(
    pipeline: Harness, change: Callable[[], None], proxy: FaultProxy, clean_indices: str
) -> None:
    change()
    leave(proxy, listed=1)
    lost = proxy.add(Reset(after=True), path="_bulk")
    pipeline.sync()
    state = read_state(clean_indices)
    assert (lost.hits, state["intent"]) == (1, None)
    assert list_absent(clean_indices) == [read_node(clean_indices)]


@pytest.mark.parametrize(
    ("mode", "skip"), [("export", 0), ("batch", 0), ("repair", 4)], ids=lambda value: str(value)
)
def test_the_node_of_a_primary_that_moved_is_asked_although_every_answer_came(
    pipeline: Harness,
    change: Callable[[], None],
    proxy: FaultProxy,
    clean_indices: str,
    mode: str,
    skip: int,
) -> None:
    """The node that was asked has repeated the request, and hidden that one is still inside."""
    if mode != "export":
        change()
    if mode == "repair":
        pipeline.sync()
        call(clean_indices, "DELETE", f"/{FIRST}/_doc/1?refresh=true")
    moved = proxy.add(RewrittenAnswer(move_primaries), path=f"{FIRST}.*/_stats", skip=skip)
    proxy.add(RewrittenAnswer(add_another_node), path="/_nodes/")
    if mode == "repair":
        assert pipeline.inspect(RunMode.REPAIR)["repaired"] == 1
    else:
        pipeline.sync()
    assert moved.hits == 1
    assert list_absent(clean_indices) == ["elsewhere"]


def acknowledge_alone(proxy: FaultProxy) -> Rule:
    """Answer the batch's only request as a primary does that is cut off and has no successor yet.

    Nothing of it reaches the index that is there afterwards.
    """
    guard = {"update": {"status": 404, "error": {"type": "index_not_found_exception"}}}
    answer = {"errors": True, "items": [guard, {"delete": {"status": 200}}]}
    return proxy.add(Status(200, body=json.dumps(answer).encode()), path="_bulk")


def test_what_a_primary_acknowledged_that_its_successor_never_had_is_written_again(
    pipeline: Harness, change: Callable[[], None], proxy: FaultProxy, clean_indices: str
) -> None:
    change()
    lost = acknowledge_alone(proxy)
    # The first answer, before the batch.
    proxy.add(RewrittenAnswer(move_primaries), path=f"{FIRST}.*/_stats")
    pipeline.sync()
    assert lost.hits == 1
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1"}


def test_a_repair_that_such_a_primary_acknowledged_is_written_again(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str
) -> None:
    pipeline.sync()
    call(clean_indices, "DELETE", f"/{FIRST}/_doc/1?refresh=true")
    guard = {"update": {"status": 404, "error": {"type": "index_not_found_exception"}}}
    answer = {"errors": True, "items": [guard, {"index": {"status": 201}}]}
    # The first request only asks whether the account sees the whole index.
    lost = proxy.add(Status(200, body=json.dumps(answer).encode()), path="_bulk", skip=1)
    # The answer before the batch.
    proxy.add(RewrittenAnswer(move_primaries), path=f"{FIRST}.*/_stats", skip=2)
    assert pipeline.inspect(RunMode.REPAIR)["repaired"] == 1
    assert lost.hits == 1
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1", "2"}


MOVED = f"A primary of {FIRST} moved each of the 3 times that the batch was written;"


def keep_moving(proxy: FaultProxy) -> Rule:
    """From now on the index's primary is elsewhere each time that it is asked for."""
    nodes = map(str, itertools.count())
    moved = RewrittenAnswer(lambda answer: move_primaries(answer, next(nodes)))
    return proxy.add(moved, path=f"{FIRST}.*/_stats", times=None)


def test_primaries_that_do_not_stay_where_they_are_are_given_time(
    pipeline: Harness, change: Callable[[], None], proxy: FaultProxy, clean_indices: str
) -> None:
    change()
    moving = keep_moving(proxy)
    (table,) = pipeline.run().tables
    assert (table.reason, table.message) == ("TargetUnavailable", f"{MOVED} it is written again.")
    assert moving.hits > 3
    proxy.clear()
    pipeline.sync()
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1"}


def test_a_repair_whose_primaries_do_not_stay_where_they_are_has_to_be_asked_for_again(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str
) -> None:
    pipeline.sync()
    call(clean_indices, "DELETE", f"/{FIRST}/_doc/1?refresh=true")
    keep_moving(proxy)
    repaired = pipeline.inspect(RunMode.REPAIR)
    assert repaired["reason"] == "TargetUnavailable"
    assert repaired["message"] == f"{MOVED} ask once more."
    proxy.clear()
    pipeline.sync()
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1", "2"}
