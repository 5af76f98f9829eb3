"""Nodes that left the cluster with requests inside them: what is recorded, and what follows."""

from datetime import UTC, datetime, timedelta

import pytest

from icdc_api.errors import Bug
from icdc_spark.protocol.absent_nodes import (
    REMEMBERED,
    describe_returned,
    judge_absent,
    parse_instant,
)
from icdc_spark.protocol.state_document import AbsentNode, StateDocument
from icdc_spark.protocol.state_parts import MAX_NODES
from icdc_testing.target.state_documents import (
    LATER,
    NOW,
    make_applied,
    make_changelog,
    make_export,
    make_exporting,
    make_state_after_export,
)

pytestmark = pytest.mark.unit

WRITTEN = datetime(2026, 3, 1, 10, tzinfo=UTC)
SOON = WRITTEN + timedelta(minutes=5)
LONG_AFTER = WRITTEN + REMEMBERED
ABSENT = AbsentNode(node="a", process=1, left_at=NOW)
RETURNED = AbsentNode(node="a", process=1, left_at=NOW, returned=True)


@pytest.mark.parametrize(
    ("node", "processes", "now", "left"),
    [
        pytest.param(ABSENT, {}, SOON, ABSENT, id="it is away"),
        pytest.param(ABSENT, {"b": 1}, SOON, ABSENT, id="another node is there"),
        pytest.param(ABSENT, {}, LONG_AFTER, None, id="it is away for a week"),
        pytest.param(ABSENT, {"a": 2}, SOON, None, id="it was restarted"),
        pytest.param(ABSENT, {"a": 0}, SOON, None, id="it was restarted and its clock put back"),
        pytest.param(ABSENT, {"a": 1}, SOON, RETURNED, id="it never ended"),
        pytest.param(
            ABSENT, {"a": 1}, LONG_AFTER, RETURNED, id="it is back on the last day or later"
        ),
        pytest.param(RETURNED, {"a": 2}, SOON, RETURNED, id="it was back, and then restarted"),
        pytest.param(RETURNED, {}, LONG_AFTER, RETURNED, id="it was back, and then went away"),
    ],
)
def test_what_is_left_to_remember_of_a_node_that_left(
    node: AbsentNode, processes: dict[str, int], now: datetime, left: AbsentNode | None
) -> None:
    assert judge_absent([node], processes, now) == ([] if left is None else [left])


@pytest.mark.parametrize(
    ("absent", "named"),
    [([], None), ([ABSENT], None), ([ABSENT, RETURNED], "node a left its cluster")],
)
def test_only_a_node_that_is_back_makes_an_index_uncertain(
    absent: list[AbsentNode], named: str | None
) -> None:
    reason = describe_returned(absent)
    assert reason is None if named is None else named in str(reason)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [(NOW, 0), (LATER, 1_500_000), ("2026-03-01T10:00:00.123456789Z", 123_456)],
)
def test_every_time_of_a_state_document_is_read(text: str, microseconds: int) -> None:
    assert parse_instant(text) == WRITTEN + timedelta(microseconds=microseconds)


def make_state_with_absent() -> StateDocument:
    """Return a batch is open, and a node left the cluster meanwhile."""
    begun = make_state_after_export().with_intent(make_changelog(), now=NOW)
    return begun.with_nodes({"c": 3, "b": 2}, {"a": 1}, now=NOW)


def test_the_nodes_of_an_open_batch_are_recorded_in_order() -> None:
    document = make_state_with_absent()
    assert document.intent is not None
    assert (document.intent.nodes, document.absent_nodes) == ({"b": 2, "c": 3}, [ABSENT])
    assert StateDocument.parse("orders", document.to_source()) == document


def test_nodes_are_recorded_of_an_open_batch_alone() -> None:
    with pytest.raises(Bug, match="no intent is open"):
        make_state_after_export().with_nodes({"a": 1}, {}, now=NOW)


def test_the_same_batch_on_other_nodes_is_the_same_work() -> None:
    again = make_changelog().model_copy(update={"nodes": {"z": 9}})
    assert make_state_with_absent().with_intent(again, now=NOW) == make_state_with_absent()


def test_a_node_that_leaves_twice_is_recorded_once_with_its_later_batch() -> None:
    later = AbsentNode(node="a", process=4, left_at=LATER)
    assert make_state_with_absent().with_nodes({"b": 2}, {"a": 4}, now=LATER).absent_nodes == [
        later
    ]


def test_of_too_many_nodes_the_newest_are_remembered_and_the_document_stays_small() -> None:
    crowd = {f"{number:064}": 1_770_000_000_000 for number in range(3 * MAX_NODES)}
    document = make_state_with_absent().with_nodes(crowd, crowd, now=NOW)
    assert [absent.node for absent in document.absent_nodes] == list(crowd)[-MAX_NODES:]
    assert document.to_source()


def test_absent_nodes_are_remembered_from_batch_to_batch_until_an_export_begins() -> None:
    advanced = make_state_with_absent().advance(make_applied(2, "78"), now=NOW)
    assert advanced.with_intent(make_changelog(3, "78", "79"), now=NOW).absent_nodes == [ABSENT]
    anew = advanced.with_intent(make_export(3, "orders-000002"), now=NOW)
    assert anew.absent_nodes == []


def test_a_node_that_left_during_an_export_is_remembered_for_the_index_that_it_made() -> None:
    document = make_exporting().with_nodes({"b": 2}, {"a": 1}, now=NOW)
    done = document.complete_chunk(0, rows=1, now=NOW).complete_chunk(1, rows=1, now=NOW)
    assert done.begin_swap(now=NOW).advance(make_applied(), now=NOW).absent_nodes == [ABSENT]


def test_what_is_known_of_absent_nodes_is_replaced() -> None:
    assert make_state_with_absent().with_absent([RETURNED], now=NOW).absent_nodes == [RETURNED]
