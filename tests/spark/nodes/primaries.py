"""A primary that is lost while a batch is written to it: nothing of the batch may be."""

from concurrent.futures import ThreadPoolExecutor

from icdc_api.errors import FailureClass
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.kill_points import BatchKind, KillPoint, assert_written_once, hold
from icdc_testing.runs.processes import END_SECONDS
from icdc_testing.target.nodes.faults import PASSING
from icdc_testing.target.nodes.followed import FollowedOnNodes
from icdc_testing.target.nodes.three_nodes import ThreeNodes
from icdc_testing.waiting.wait import wait_until

AMID_A_BATCH = ("primary cut off and asked", "primary cut off, replica promoted", "primary moved")


def lose_primary(
    nodes: ThreeNodes, followed: FollowedOnNodes, front: FaultProxy, fault: str
) -> None:
    """Play one of AMID_A_BATCH amid a batch, and require that the index ends equal."""
    table = followed.table
    followed.settle()
    # An export ends before its replicas are complete, and one that is not is never promoted.
    nodes.wait_until_settled()
    table.change(1)
    held = hold(front, table.predict_batch(BatchKind.MERGE_ON_READ), KillPoint.SOME_BULK, skip=1)
    index = followed.index
    before = nodes.find_holder(index)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(followed.pipeline.run)
        held.wait(END_SECONDS)
        PASSING[fault](followed)
        held.release()
        other = nodes.find_other(before)
        wait_until(
            lambda: nodes.find_primary(other, index) not in (before.name, None),
            "another node has the primary",
        )
        followed.ask_through(other)
        nodes.restart()
        first = running.result(END_SECONDS * 2)
    assert set(followed.settle(first)) <= {FailureClass.TARGET_UNAVAILABLE}
    table.change(2)
    followed.settle()
    assert_written_once(front, front.url, [table])
