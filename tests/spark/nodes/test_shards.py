"""Primaries that are cut off, lost or moved amid a batch, and those made of old copies by force."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from icdc_api.errors import FailureClass
from icdc_api.status.pipeline_status import TableReason
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.kill_points import BatchKind, KillPoint, hold
from icdc_testing.runs.processes import END_SECONDS
from icdc_testing.target import oracle
from icdc_testing.target.nodes.faults import LOSING, kill_primary
from icdc_testing.target.nodes.three_nodes import ThreeNodes
from icdc_testing.waiting.wait import wait_until

from .conftest import Follow
from .primaries import AMID_A_BATCH, lose_primary

pytestmark = pytest.mark.spark


@pytest.mark.sampled
@pytest.mark.parametrize("fault", AMID_A_BATCH)
def test_a_primary_that_is_cut_off_or_moved_amid_a_batch_loses_nothing(
    nodes: ThreeNodes, follow: Follow, front: FaultProxy, fault: str
) -> None:
    lose_primary(nodes, follow(BatchKind.MERGE_ON_READ), front, fault)


@pytest.mark.sampled
@pytest.mark.parametrize("what", LOSING)
def test_a_primary_allocated_by_force_from_less_than_was_acknowledged_is_noticed_and_exported_anew(
    nodes: ThreeNodes, follow: Follow, what: str
) -> None:
    followed = follow()
    table = followed.table
    followed.settle()

    def write() -> None:
        table.change(1)
        assert followed.pipeline.run().outcome is None

    LOSING[what](followed, write)
    nodes.restart()
    # What is written from here on hides the loss from who looks at numbers alone.
    table.change(2)
    followed.settle()
    assert list(oracle.request(f"{table.url}/_alias/{table.alias}")) == [f"{table.alias}-000002"]


def test_a_loss_by_force_stops_the_table_where_that_is_asked_for(
    nodes: ThreeNodes, follow: Follow
) -> None:
    followed = follow()
    followed.pipeline.resource["spec"]["changelog"] = {"onGap": "Stop"}
    followed.settle()

    def write() -> None:
        followed.table.change(1)
        assert followed.pipeline.run().outcome is None

    LOSING["stale primary allocated"](followed, write)
    nodes.restart()
    stalled = followed.pipeline.run_to_stall()
    assert stalled.reason is TableReason.GAP
    assert "spec.resync.nonce" in (stalled.message or "")


def test_an_index_without_replicas_that_turns_red_amid_its_export_is_waited_for(
    nodes: ThreeNodes, follow: Follow, front: FaultProxy
) -> None:
    followed = follow(BatchKind.EXPORT, replicas=0)
    table = followed.table
    held = hold(front, table.predict_batch(BatchKind.EXPORT), KillPoint.SOME_BULK, skip=2)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(followed.pipeline.run)
        held.wait(END_SECONDS)
        kill_primary(followed)
        held.release()
        wait_until(lambda: bool(front.list_requests("_bulk")), "the bulk was sent to a red index")
        assert not front.list_requests("/_aliases"), "readers were given an index that is red"
        nodes.restart()
        first = running.result(END_SECONDS * 2)
    assert set(followed.settle(first)) <= {FailureClass.TARGET_UNAVAILABLE}
