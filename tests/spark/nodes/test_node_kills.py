"""SIGKILL of OpenSearch nodes at every step of the protocol, with deletes in the batch.

A run is stopped at a step, nodes are killed, the held request goes on or is lost, and the nodes
come back while the run goes on. What a killed node had acknowledged must be there, and what it had
not must be sent again; versions of deleted documents are forgotten by shards that are opened again.

One victim for each kind of batch, at a step chosen by the seed; all with ICDC_SOAK.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from icdc_api.errors import FailureClass
from icdc_testing.operator.kills.playing import SOAK_VARIABLE
from icdc_testing.runs.kill_points import BatchKind, KillPoint, assert_written_once, hold
from icdc_testing.runs.processes import END_SECONDS
from icdc_testing.target.nodes.followed import FollowedOnNodes
from icdc_testing.target.nodes.member import Member
from icdc_testing.target.nodes.three_nodes import ThreeNodes
from icdc_testing.waiting.seeds import choose_seed

from .conftest import Follow

pytestmark = pytest.mark.spark

VICTIMS = ("primary's node", "node that is asked", "all nodes")
CHANGELOG_STEPS = (
    KillPoint.BEFORE_INTENT,
    KillPoint.AFTER_INTENT,
    KillPoint.SOME_BULK,
    KillPoint.SOME_BULK_LOST,
    KillPoint.ALL_BULK,
    KillPoint.AFTER_ADVANCE,
)
STEPS = {
    BatchKind.EXPORT: tuple(step for step in KillPoint if step is not KillPoint.FIRST_CHUNKS),
    BatchKind.COPY_ON_WRITE: CHANGELOG_STEPS,
    BatchKind.MERGE_ON_READ: CHANGELOG_STEPS,
}
CHOSEN = [(kind, None, who) for kind, who in zip(BatchKind, VICTIMS, strict=True)]
ALL = [(kind, step, who) for kind in BatchKind for step in STEPS[kind] for who in VICTIMS]


def choose_victims(
    nodes: ThreeNodes, followed: FollowedOnNodes, who: str, step: KillPoint
) -> list[Member]:
    if who == "all nodes":
        return list(nodes.members)
    if who == "node that is asked":
        return [nodes.members[0]]
    # Before the first intent of an export there is no index but that of the state documents.
    early = step is KillPoint.BEFORE_INTENT and not followed.table.read_state().get("applied")
    return [nodes.find_holder("icdc-state" if early else followed.index)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "step", "who"), ALL if os.environ.get(SOAK_VARIABLE) else CHOSEN, ids=str
)
def test_nodes_killed_at_any_step_neither_lose_nor_resurrect_a_row(
    nodes: ThreeNodes,
    follow: Follow,
    record_property: Callable[[str, object], None],
    kind: BatchKind,
    step: KillPoint | None,
    who: str,
) -> None:
    seed, chance = choose_seed(f"{kind} {step} {who}")
    step = step or chance.choice(STEPS[kind])
    record_property("kill", f"seed {seed}: {who} at {kind} {step}")
    followed = follow(kind)
    table, front = followed.table, followed.front
    if kind is not BatchKind.EXPORT:
        followed.settle()
        # An export ends before its replicas are complete, and one that is not is never promoted.
        nodes.wait_until_settled()
        table.change(1)
    index = None if kind is BatchKind.EXPORT else followed.index
    held = hold(front, table.predict_batch(kind), step, skip=chance.randint(0, 2) * step.in_a_task)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(followed.pipeline.run)
        held.wait(END_SECONDS)
        killed = choose_victims(nodes, followed, who, step)
        for member in killed:
            member.kill()
        if len(killed) == 1:
            followed.ask_through(nodes.find_other())
        held.release() if chance.random() < 0.5 else held.drop()
        nodes.restart()
        first = running.result(END_SECONDS * 2)
    assert set(followed.settle(first)) <= {FailureClass.TARGET_UNAVAILABLE}
    # The versions of what was deleted are forgotten now; the next batch must not mind.
    table.change(2)
    followed.settle()
    assert_written_once(front, front.url, [table])
    # What was inside the nodes ended with their processes: no export makes it good.
    assert index in (None, followed.index)
