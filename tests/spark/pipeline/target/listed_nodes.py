"""Answers in which OpenSearch lists its nodes and primaries, changed on their way by a proxy."""

from typing import Any

from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import RewrittenAnswer, Rule, Status

Answer = dict[str, Any]


def leave(proxy: FaultProxy, *, listed: int = 0) -> Rule:
    """Take the node out of the cluster, as far as it says itself; another one is there.

    `listed`: how often it is listed before that.
    """
    proxy.add(Status(200, body=b"{}"), path="/_nodes/", skip=listed, times=None)
    return proxy.add(
        RewrittenAnswer(lambda _: {"nodes": {"n": {"tasks": {}}}}), path="_tasks", times=None
    )


def restart_nodes(answer: Answer) -> Answer:
    """Return an answer in which all nodes are new processes; one clock was put back."""
    return {"nodes": {node: {"jvm": {"start_time_in_millis": 7}} for node in answer["nodes"]}}


def move_primaries(answer: Answer, node: str = "elsewhere") -> Answer:
    """Return the answer with all primaries on a node that leaves."""
    for index in answer["indices"].values():
        for copies in index["shards"].values():
            for copy in copies:
                copy["routing"]["node"] = node
    return answer


def add_another_node(answer: Answer) -> Answer:
    """That node is in the cluster."""
    elsewhere = {"elsewhere": {"jvm": {"start_time_in_millis": 7}}}
    return answer | {"nodes": answer["nodes"] | elsewhere}
