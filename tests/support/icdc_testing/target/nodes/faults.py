"""What befalls three nodes: each fault happens while a table is written, and is mended later.

A fault returns at once. What goes on and comes back is the business of who plays it: `mend` brings
everything back to three nodes that hear each other.
"""

from collections.abc import Callable

from icdc_testing.target.nodes.followed import FollowedOnNodes
from icdc_testing.target.nodes.three_nodes import ThreeNodes
from icdc_testing.waiting.wait import wait_until

_ALLOCATION = "cluster.routing.allocation.enable"


def kill_primary(followed: FollowedOnNodes) -> None:
    """Kill the node that has the primary; a replica is promoted, if there is one."""
    nodes = followed.nodes
    victim = nodes.find_holder(followed.index)
    victim.kill()
    followed.ask_through(nodes.find_other())


def kill_replica(followed: FollowedOnNodes) -> None:
    """Kill a node that has a replica."""
    nodes = followed.nodes
    victim = nodes.find_holder(followed.index, primary=False)
    victim.kill()
    followed.ask_through(nodes.find_other())


def kill_asked(followed: FollowedOnNodes) -> None:
    """Kill the node that is asked, whatever it holds."""
    asked = followed.asked
    asked.kill()
    followed.ask_through(followed.nodes.find_other())


def kill_all(followed: FollowedOnNodes) -> None:
    """Kill all nodes: the whole target is gone, and comes back without what it had in memory."""
    for member in followed.nodes.members:
        member.kill()


def cut_primary(followed: FollowedOnNodes) -> None:
    """Cut the primary's node from its peers, and go on to ask it: it does not know yet."""
    primary = followed.nodes.find_holder(followed.index)
    followed.ask_through(primary)
    followed.nodes.cut(primary)


def cut_primary_from_asked(followed: FollowedOnNodes) -> None:
    """Cut the primary's node from its peers, of which one is asked: a replica is promoted."""
    nodes = followed.nodes
    primary = nodes.find_holder(followed.index)
    followed.ask_through(nodes.find_other(primary))
    nodes.cut(primary)


def relocate(followed: FollowedOnNodes) -> None:
    """Move the primary to a node that has no copy."""
    nodes, index = followed.nodes, followed.index
    where = {
        "from_node": nodes.find_holder(index).name,
        "to_node": nodes.find_node_without(index).name,
    }
    nodes.reroute("move", index, **where)


PASSING: dict[str, Callable[[FollowedOnNodes], None]] = {
    "primary's node killed": kill_primary,
    "replica's node killed": kill_replica,
    "asked node killed": kill_asked,
    "all nodes killed": kill_all,
    "primary cut off and asked": cut_primary,
    "primary cut off, replica promoted": cut_primary_from_asked,
    "primary moved": relocate,
}
"""Faults after which nothing that was acknowledged is lost."""


def allocate_stale(followed: FollowedOnNodes, write: Callable[[], None]) -> None:
    """Make a copy the primary that has missed what `write` writes."""
    _lose_newest_copy(followed, write, "allocate_stale_primary")


def allocate_empty(followed: FollowedOnNodes, write: Callable[[], None]) -> None:
    """Lose what the index holds, and put an empty primary in its place."""
    _lose_newest_copy(followed, write, "allocate_empty_primary")


LOSING: dict[str, Callable[[FollowedOnNodes, Callable[[], None]], None]] = {
    "stale primary allocated": allocate_stale,
    "empty primary allocated": allocate_empty,
}
"""What administrators do to get a red index back, at the price of writes that are lost."""


def _lose_newest_copy(followed: FollowedOnNodes, write: Callable[[], None], command: str) -> None:
    nodes, index = followed.nodes, followed.index
    nodes.wait_until_settled()
    older, newest = nodes.find_holder(index, primary=False), nodes.find_holder(index)
    # Else a third copy would be made of the newest one.
    nodes.do("PUT", "/_cluster/settings", {"persistent": {_ALLOCATION: "none"}})
    older.kill()
    followed.ask_through(newest)
    write()
    newest.kill()
    older.launch()
    older.wait_until_it_answers()
    followed.ask_through(older)
    target = {"node": older.name, "accept_data_loss": True}
    # A node that has joined a moment ago does not know its copies yet.
    wait_until(lambda: _try_reroute(nodes, command, index, target), f"{command} is taken")
    nodes.do("PUT", "/_cluster/settings", {"persistent": {_ALLOCATION: None}})


def _try_reroute(nodes: ThreeNodes, command: str, index: str, target: dict[str, object]) -> bool:
    try:
        nodes.reroute(command, index, **target)
    except (AssertionError, OSError):
        return False
    return True
