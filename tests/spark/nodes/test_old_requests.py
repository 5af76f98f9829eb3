"""Requests of an older run that are still inside OpenSearch when a newer one begins."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from icdc_api.errors import FailureClass
from icdc_api.job.run_files import RunMode
from icdc_spark.opensearch.client.connection import Connection, client
from icdc_spark.opensearch.client.tasks import wait_until_quiet
from icdc_testing.kills.playing import SOAK_VARIABLE
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.kill_points import Kind, Step, assert_written_once, hold
from icdc_testing.runs.processes import END_SECONDS
from icdc_testing.target.nodes.three_nodes import ThreeNodes
from icdc_testing.waiting.wait import until

from .conftest import Follow

pytestmark = pytest.mark.spark


def test_a_node_that_does_not_say_what_it_runs_is_waited_for(
    nodes: ThreeNodes, front: FaultProxy
) -> None:
    asked, frozen = nodes.members[0], nodes.members[2]
    admin = client(Connection(hosts=(front.url,)))
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
    assert answer["node_failures"], "the node answered after all"
    # One without the node, which does not count, and two more.
    assert len(front.requests("/_tasks")) >= 3


def test_a_driver_cut_off_from_the_target_writes_nothing_once_a_newer_run_has_gone_on(
    nodes: ThreeNodes, follow: Follow, front: FaultProxy
) -> None:
    followed = follow()
    table = followed.table
    followed.settle()
    table.change(1)
    held = hold(front, table.next_batch(Kind.COPY_ON_WRITE), Step.SOME_BULK, skip=1)
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
def test_a_request_inside_a_node_that_was_cut_off_is_refused_or_found_by_verify(
    nodes: ThreeNodes, follow: Follow, front: FaultProxy, reopened: bool
) -> None:
    """The node is no part of the cluster meanwhile, so nobody can ask it what it runs."""
    followed = follow()
    table, pipeline = followed.table, followed.pipeline
    followed.settle()
    table.change(1)
    index = followed.index
    primary = nodes.holder(index)
    held = hold(front, table.next_batch(Kind.COPY_ON_WRITE), Step.SOME_BULK, skip=1)
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(pipeline.run)
        held.wait(END_SECONDS)
        followed.ask_through(primary)
        nodes.cut(primary)
        held.release()
        other = nodes.other_than(primary)
        until(
            lambda: nodes.primary_seen_by(other, index) not in (primary.name, None),
            "a replica is promoted",
        )
        followed.ask_through(other)
        table.spark.sql(f"DELETE FROM {table.table} WHERE turn = 1")
        followed.settle()
        if reopened:
            # The versions of what was deleted are forgotten.
            nodes.do("POST", f"/{index}/_close", through=other)
            nodes.do("POST", f"/{index}/_open", through=other)
        nodes.restart()
        older.result(END_SECONDS)
    if reopened:
        # The zombie window of docs/guarantees.md: the late request is applied.
        comparison = pipeline.inspect(RunMode.REPAIR)
        assert not comparison["equal"]
        assert comparison["repaired"]
    assert pipeline.inspect(RunMode.VERIFY)["equal"]
    followed.settle()
