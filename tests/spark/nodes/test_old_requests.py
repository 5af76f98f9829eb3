"""Requests of an older run that are still inside OpenSearch when a newer one begins."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from icdc_api.errors import FailureClass
from icdc_api.job.modes import RunMode
from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.client.tasks import wait_until_quiet
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.operator.kills.playing import SOAK_VARIABLE
from icdc_testing.runs.kill_points import BatchKind, KillPoint, assert_written_once, hold
from icdc_testing.runs.processes import END_SECONDS
from icdc_testing.target import oracle
from icdc_testing.target.nodes.faults import PASSING
from icdc_testing.target.nodes.member import Member
from icdc_testing.target.nodes.three_nodes import ThreeNodes
from icdc_testing.waiting.wait import wait_until

from .conftest import Follow

pytestmark = pytest.mark.spark

ATTEMPTS = 3


def test_a_node_that_does_not_say_what_it_runs_is_waited_for(
    nodes: ThreeNodes, front: FaultProxy
) -> None:
    for _ in range(ATTEMPTS):
        front.clear()
        answer = list_tasks_beside_a_stopped_node(nodes, front)
        if "node_failures" in answer:
            # One without the node, which does not count, and two more.
            assert len(front.list_requests("/_tasks")) >= 3
            return
        # On a busy host the others may have removed the node before they were asked.
        nodes.restart()
    raise AssertionError(f"the node answered after all: {answer}")


def list_tasks_beside_a_stopped_node(nodes: ThreeNodes, front: FaultProxy) -> dict[str, object]:
    """Wait as a run does while a node stands still; return what was said of tasks meanwhile."""
    asked, frozen = nodes.members[0], nodes.members[2]
    admin = open_client(Connection(hosts=(front.url,)))
    assert frozen.process is not None
    frozen.process.send_signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as pool:
            listed = pool.submit(asked.ask, "/_tasks?actions=indices:data/write/bulk*", seconds=60)
            wait_until_quiet(admin, "any", below_epoch=2)
            answer = listed.result()
    finally:
        frozen.process.send_signal(signal.SIGCONT)
    admin.close()
    assert isinstance(answer, dict)
    return answer


def test_a_driver_cut_off_from_the_target_writes_nothing_once_a_newer_run_has_gone_on(
    nodes: ThreeNodes, follow: Follow, front: FaultProxy
) -> None:
    followed = follow()
    table = followed.table
    followed.settle()
    table.change(1)
    held = hold(front, table.predict_batch(BatchKind.COPY_ON_WRITE), KillPoint.SOME_BULK, skip=1)
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(followed.pipeline.run)
        held.wait(END_SECONDS)
        for turn in (2, 3, 4):
            table.change(turn)
            table.spark.sql(f"DELETE FROM {table.table} WHERE turn = {turn - 1}")
            followed.settle()
        held.release()
        outcome = older.result(END_SECONDS).outcome
    assert outcome is not None
    assert outcome.failure_class is FailureClass.FENCED
    table.check()
    assert_written_once(front, front.url, [table])


@pytest.mark.parametrize("reopened", [False, True] if os.environ.get(SOAK_VARIABLE) else [False])
def test_a_request_inside_a_node_that_was_cut_off_is_made_good_once_the_node_is_back(
    nodes: ThreeNodes, follow: Follow, front: FaultProxy, reopened: bool
) -> None:
    """The node is no part of the cluster meanwhile, so nobody can ask it what it runs."""
    followed = follow()
    table, pipeline = followed.table, followed.pipeline
    followed.settle()
    # An export ends before its replicas are complete, and one that is not is never promoted.
    nodes.wait_until_settled()
    table.change(1)
    index = followed.index
    primary = nodes.find_holder(index)
    (node,) = nodes.do("GET", f"/_nodes/{primary.name}/jvm")["nodes"]
    held = hold(front, table.predict_batch(BatchKind.COPY_ON_WRITE), KillPoint.SOME_BULK, skip=1)
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(pipeline.run)
        held.wait(END_SECONDS)
        followed.ask_through(primary)
        nodes.cut(primary)
        held.release()
        other = nodes.find_other(primary)
        wait_until(
            lambda: nodes.find_primary(other, index) not in (primary.name, None),
            "a replica is promoted",
        )
        followed.ask_through(other)
        table.spark.sql(f"DELETE FROM {table.table} WHERE turn = 1")
        followed.settle()
        equal = oracle.read_index(front.url, table.alias)
        (absent,) = table.read_state()["absentNodes"]
        assert absent["node"] == node
        if reopened:
            # The versions of what was deleted are forgotten.
            nodes.do("POST", f"/{index}/_close", through=other)
            nodes.do("POST", f"/{index}/_open", through=other)
        nodes.restart()
        older.result(END_SECONDS)
    # What the guard is there for: rows that were deleted are back, and no version says so.
    assert (oracle.read_index(front.url, table.alias) != equal) is reopened
    followed.settle()
    state = table.read_state()
    assert (state["index"] != index, state["absentNodes"]) == (True, [])
    assert pipeline.inspect(RunMode.VERIFY)["equal"]


def test_a_request_inside_a_primary_that_is_cut_off_is_made_good_although_its_run_had_its_answers(
    nodes: ThreeNodes, follow: Follow, front: FaultProxy
) -> None:
    """The node that was asked has sent the request to the promoted replica, and answered."""
    followed = follow()
    table = followed.table
    followed.settle()
    index = followed.index
    nodes.wait_until_settled()
    if nodes.find_holder(index) == nodes.find_manager():
        # The manager would take the replica, not itself, for the node that left.
        PASSING["primary moved"](followed)
        # While it moves, no primary is started.
        nodes.wait_until_settled()
        assert nodes.find_holder(index) != nodes.find_manager()
    primary, replica = nodes.find_holder(index), nodes.find_holder(index, primary=False)
    asked = nodes.find_node_without(index)
    followed.ask_through(asked)
    table.change(1)
    held = hold(front, table.predict_batch(BatchKind.COPY_ON_WRITE), KillPoint.SOME_BULK, skip=1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(followed.pipeline.run)
        held.wait(END_SECONDS)
        # First from the replica alone: the request comes in and cannot come to its end.
        nodes.cut(primary, replica)
        held.release()
        wait_until(lambda: is_inside(primary), "the request is inside the primary's node")
        nodes.cut(primary, asked)
        first = running.result(END_SECONDS * 2)
    assert first.outcome is None, first.outcome
    (absent,) = table.read_state()["absentNodes"]
    assert absent["node"]
    table.spark.sql(f"DELETE FROM {table.table} WHERE turn = 1")
    followed.settle()
    equal = oracle.read_index(front.url, table.alias)
    nodes.do("POST", f"/{index}/_close", through=asked)
    nodes.do("POST", f"/{index}/_open", through=asked)
    nodes.restart()
    wait_until(lambda: not is_inside(primary), "the request has come to its end")
    # Rows that were deleted are back, and no answer to the run has said so. Nodes of 2.19 give such
    # a request up, which the run cannot know.
    is_older = nodes.read_version().startswith("2.")
    assert (oracle.read_index(front.url, table.alias) == equal) is is_older
    followed.settle()
    assert table.read_state()["index"] != index
    assert oracle.read_index(front.url, table.alias) == equal


def is_inside(member: Member) -> bool:
    """Return whether the node says that it runs a bulk request, of itself alone."""
    path = "/_tasks?nodes=_local&actions=indices:data/write/bulk*"
    answer = cast(dict[str, dict[str, object]], member.ask(path) or {})
    return bool(answer.get("nodes"))
