"""Decides what a node that left the cluster, and may be back, means for an index. Pure.

A node that is cut from its peers goes on, and nobody can ask it what it runs. Once the cut heals
it sends the bulk requests inside it to the shards as they are then. Where a shard has forgotten a
deletion, such a request brings the document back. So a node that was missing when a batch ended is
remembered until it is known what became of it:

    not in the cluster                          remembered, for a week
    in the cluster, as another process          the old process ended, and its requests with it
    in the cluster, as the same process         what the index holds is uncertain: a gap
    a gap already                               stays one until an export into a new index

Processes are distinguished by their marks, never by comparing clocks: OpenSearch's may differ from
ours.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from icdc_spark.protocol.state_parts import AbsentNode

REMEMBERED = timedelta(days=7)
"""A node that stays away for longer is taken for one that was removed from the cluster."""


def judge_absent(
    absent: Iterable[AbsentNode], processes: Mapping[str, int], now: datetime
) -> list[AbsentNode]:
    """Return what is left to remember; `processes`: the marks of the nodes in the cluster."""
    return [judged for node in absent if (judged := _judge(node, processes.get(node.node), now))]


def _judge(node: AbsentNode, process: int | None, now: datetime) -> AbsentNode | None:
    if node.returned:
        return node
    if process is None:
        return node if now - parse_instant(node.left_at) < REMEMBERED else None
    return node.model_copy(update={"returned": True}) if process == node.process else None


def describe_returned(absent: Iterable[AbsentNode]) -> str | None:
    """Return why an index is uncertain, as a clause; None if no such node has returned."""
    returned = [node.node for node in absent if node.returned]
    if not returned:
        return None
    return (
        f"the OpenSearch node {returned[0]} left its cluster while it held requests of an earlier "
        "batch, and has come back, so these requests may have been applied late"
    )


def parse_instant(text: str) -> datetime:
    """Return the moment of a time in the state document."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    moment = datetime.fromisoformat(f"{whole}+00:00")
    # Up to nine digits are allowed there, of which `datetime` has six.
    return moment + timedelta(microseconds=int(fraction[:6].ljust(6, "0")))
