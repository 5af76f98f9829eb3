"""The nodes that requests of a process may be inside, as they come and go."""

import time

import pytest

from icdc_spark.opensearch.stores.identity import Identity
from icdc_spark.opensearch.stores.written_nodes import NODES_SECONDS, WrittenNodes, is_stale
from icdc_spark.protocol.state_document import Shards

pytestmark = pytest.mark.unit

SHARDS = Shards(histories="ab", max_seq_nos=[17, 12])


@pytest.mark.parametrize(
    ("listed", "anew"),
    [
        pytest.param({"a": 1, "b": 2, "c": 3}, False, id="all are known"),
        pytest.param({"a": 1, "b": 2}, True, id="one has joined"),
        pytest.param({}, True, id="none was ever listed"),
    ],
)
def test_nodes_are_listed_again_where_a_primary_is_on_an_unknown_one(
    listed: dict[str, int], anew: bool
) -> None:
    nodes = WrittenNodes()
    nodes.list_anew(listed)
    nodes.see(Identity("u", SHARDS, "s", ("b", "c")))
    assert (nodes.members, nodes.primaries) == (listed, ("b", "c"))
    assert is_stale(nodes.listed_at) is anew


def test_nodes_that_may_not_be_listed_are_not_asked_for_at_each_batch() -> None:
    nodes = WrittenNodes(listed_at=time.monotonic())
    nodes.see(Identity("u", SHARDS, "s", ("b", "c")))
    assert not is_stale(nodes.listed_at)


def test_a_node_that_left_is_noted_with_its_process_and_is_no_member_any_more() -> None:
    nodes = WrittenNodes()
    nodes.list_anew({"a": 1, "b": 2})
    nodes.note_absent({"a": 1, "b": 2}, {"b"})
    assert (nodes.members, nodes.absent) == ({"a": 1}, {"b": 2})
    # It may be back before the next batch, as another process.
    assert is_stale(nodes.listed_at)


def test_an_answer_without_nodes_takes_none_away() -> None:
    nodes = WrittenNodes(members={"a": 1})
    nodes.list_anew({})
    assert nodes.members == {"a": 1}
    assert is_stale(nodes.listed_at)


@pytest.mark.parametrize(
    ("seconds", "stale"), [(None, True), (0.0, False), (NODES_SECONDS + 1, True)]
)
def test_nodes_are_listed_again_after_a_while(seconds: float | None, stale: bool) -> None:
    assert is_stale(None if seconds is None else time.monotonic() - seconds) is stale
