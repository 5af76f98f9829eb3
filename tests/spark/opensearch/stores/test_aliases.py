"""The alias that readers use, when other hands are on it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from icdc_api.errors import AliasTaken, Fenced, TargetInvalid, TargetUnavailable
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.stores import aliases, indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark

FILTER = {"term": {"s": "nl"}}
FILTERED: dict[str, Any] = {
    "filter": FILTER,
    "index_routing": "1",
    "search_routing": "1",
    "is_hidden": True,
}


def confirm_ownership() -> None:
    """No other run has taken over."""


@pytest.fixture
def second(admin: Client, index: PhysicalIndex) -> PhysicalIndex:
    """`orders-000002`, not yet served."""
    aliases.move_alias(admin, sink.OWNER, index.name)
    return indices.create(admin, sink.OWNER, sink.MAPPING, {})


def read_alias(url: str, alias: str) -> dict[str, Any]:
    """By index: how the alias points to it."""
    answer = call(url, "GET", f"/_alias/{alias}").json
    if "error" in answer:
        return {}
    return {name: body["aliases"][alias] for name, body in answer.items()}  # type: ignore[index]


def change(url: str, *actions: dict[str, Any]) -> None:
    answer = call(url, "POST", "/_aliases", {"actions": list(actions)})
    assert answer.status == 200, answer.body


def add(index: str, alias: str = "orders", **more: Any) -> dict[str, Any]:
    return {"add": {"index": index, "alias": alias, **more}}


def remove(index: str, alias: str = "orders") -> dict[str, Any]:
    return {"remove": {"index": index, "alias": alias}}


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        pytest.param([remove("orders-000001")], "was missing", id="removed"),
        pytest.param(
            [remove("orders-000001"), add("orders-000002")],
            "pointed to orders-000002",
            id="moved to another index of ours",
        ),
        pytest.param(
            [add("orders-000002")],
            "pointed to orders-000001, orders-000002",
            id="on two indices of ours",
        ),
    ],
)
def test_an_alias_that_was_moved_is_put_back(
    admin: Client,
    clean_indices: str,
    second: PhysicalIndex,
    actions: list[dict[str, Any]],
    problem: str,
) -> None:
    assert (
        aliases.restore(admin, sink.OWNER, "orders-000001", require_owner=confirm_ownership) is None
    )
    change(clean_indices, *actions)
    assert aliases.find_problem(admin, "orders", "orders-000001") == f"Alias 'orders' {problem}"
    restored = aliases.restore(admin, sink.OWNER, "orders-000001", require_owner=confirm_ownership)
    assert restored == f"Alias 'orders' {problem}"
    assert list(read_alias(clean_indices, "orders")) == ["orders-000001"]
    assert aliases.find_problem(admin, "orders", "orders-000001") is None


@pytest.mark.parametrize("also_ours", [False, True])
def test_an_alias_that_is_on_somebody_elses_index_is_left_alone(
    admin: Client, clean_indices: str, second: PhysicalIndex, also_ours: bool
) -> None:
    """As a rollover leaves it, whose indices are named like ours."""
    admin.indices.create(index="orders-000003")
    retained = [] if also_ours else [remove("orders-000001")]
    change(clean_indices, add("orders-000003"), *retained)
    before = read_alias(clean_indices, "orders")
    with pytest.raises(AliasTaken, match="'orders-000003', which was not made by a pipeline"):
        aliases.restore(admin, sink.OWNER, "orders-000001", require_owner=confirm_ownership)
    assert read_alias(clean_indices, "orders") == before


def test_a_run_that_was_replaced_moves_nothing(
    admin: Client, clean_indices: str, second: PhysicalIndex
) -> None:
    def lose_the_lock() -> None:
        raise Fenced("another run")

    with pytest.raises(Fenced):
        aliases.move_alias(admin, sink.OWNER, second.name, require_owner=lose_the_lock)
    assert list(read_alias(clean_indices, "orders")) == ["orders-000001"]
    change(clean_indices, remove("orders-000001"), add(second.name))
    with pytest.raises(Fenced):
        aliases.restore(admin, sink.OWNER, "orders-000001", require_owner=lose_the_lock)
    assert list(read_alias(clean_indices, "orders")) == [second.name]


@pytest.fixture
def through(proxy: FaultProxy) -> Iterator[Client]:
    """An impatient client behind the proxy."""
    made = open_client(Connection(hosts=(proxy.url,)))
    made.patience = 0.1
    yield made
    made.close()


Move = Callable[[Client, Callable[[], None]], object]


@pytest.mark.parametrize(
    "move",
    [
        lambda c, ask: aliases.move_alias(c, sink.OWNER, "orders-000002", require_owner=ask),
        lambda c, ask: aliases.restore(c, sink.OWNER, "orders-000002", require_owner=ask),
    ],
    ids=["at the end of an export", "at a poll"],
)
def test_a_move_that_overtakes_ours_wins(
    through: Client, clean_indices: str, second: PhysicalIndex, move: Move
) -> None:
    """The driver slept after it had looked, and meanwhile another one moved the alias."""
    third = indices.create(through, sink.OWNER, sink.MAPPING, {})
    asked: list[bool] = []

    def sleep() -> None:
        if not asked:
            change(clean_indices, remove("orders-000001"), add(third.name))
        asked.append(True)
        if len(asked) > 1:
            raise Fenced("another run")

    with pytest.raises((TargetUnavailable, Fenced)):
        move(through, sleep)
    assert list(read_alias(clean_indices, "orders")) == [third.name]


def test_a_first_move_that_comes_too_late_is_taken_back(
    through: Client, clean_indices: str, index: PhysicalIndex
) -> None:
    """No alias was there, so nothing of the old one's could be made a condition of the request."""
    second = indices.create(through, sink.OWNER, sink.MAPPING, {})
    asked: list[bool] = []

    def sleep() -> None:
        if not asked:
            change(clean_indices, add(second.name))
        asked.append(True)
        if len(asked) > 1:
            raise Fenced("another run")

    with pytest.raises((TargetUnavailable, Fenced)):
        aliases.move_alias(through, sink.OWNER, index.name, require_owner=sleep)
    assert list(read_alias(clean_indices, "orders")) == [second.name]


def test_filter_routing_and_other_aliases_come_along_to_a_new_index(
    admin: Client, clean_indices: str, second: PhysicalIndex
) -> None:
    change(
        clean_indices,
        remove("orders-000001"),
        add("orders-000001", **FILTERED),
        add("orders-000001", "orders-nl", filter=FILTER),
        add("orders-000001", "sales", is_write_index=True),
    )
    assert aliases.move_alias(admin, sink.OWNER, second.name) == ["orders-000001"]
    assert read_alias(clean_indices, "orders") == {
        second.name: {**FILTERED, "is_write_index": False}
    }
    assert read_alias(clean_indices, "orders-nl") == {second.name: {"filter": FILTER}}
    assert read_alias(clean_indices, "sales") == {second.name: {"is_write_index": True}}
    assert aliases.move_alias(admin, sink.OWNER, second.name) == []


def test_a_filter_that_does_not_fit_the_new_index_is_named(
    admin: Client, index: PhysicalIndex, clean_indices: str
) -> None:
    nested = {"nested": {"path": "lines", "query": {"match_all": {}}}}
    lines = {"properties": {"lines": {"type": "nested"}}}
    assert call(clean_indices, "PUT", f"/{index.name}/_mapping", lines).status == 200
    aliases.move_alias(admin, sink.OWNER, index.name)
    added = {"add": {"index": index.name, "alias": "orders", "filter": nested}}
    assert call(clean_indices, "POST", "/_aliases", {"actions": [added]}).status == 200
    second = indices.create(admin, sink.OWNER, sink.MAPPING, {})
    with pytest.raises(TargetInvalid, match="the filter of alias 'orders' does not fit"):
        aliases.move_alias(admin, sink.OWNER, second.name)
    assert aliases.list_current_indices(admin, "orders") == [index.name]


def test_filters_that_differ_are_not_chosen_from(
    admin: Client, clean_indices: str, second: PhysicalIndex
) -> None:
    third = indices.create(admin, sink.OWNER, sink.MAPPING, {})
    change(clean_indices, add(second.name, filter=FILTER))
    with pytest.raises(TargetInvalid, match="different filters or routing"):
        aliases.move_alias(admin, sink.OWNER, third.name)
    assert set(read_alias(clean_indices, "orders")) == {"orders-000001", second.name}


def test_an_index_without_its_owner_is_known_by_the_uuid_that_was_recorded(
    admin: Client, clean_indices: str, second: PhysicalIndex
) -> None:
    """Somebody put a mapping of their own, which replaces `_meta` as a whole."""
    serving = PhysicalIndex("orders-000001", indices.read_uuid(admin, "orders-000001"))
    emptied = call(clean_indices, "PUT", f"/{serving.name}/_mapping", {"_meta": {}})
    assert emptied.status == 200
    another = PhysicalIndex(serving.name, "made by somebody else since")
    for recorded in ([], [another], [second]):
        with pytest.raises(AliasTaken, match="was not made by a pipeline"):
            aliases.check_free(admin, sink.OWNER, recorded=recorded)
    recorded = [second, serving]
    assert aliases.check_free(admin, sink.OWNER, recorded=recorded) == [serving.name]
    assert aliases.move_alias(admin, sink.OWNER, second.name, recorded=recorded) == [serving.name]
    change(clean_indices, add(serving.name))
    aliases.restore(
        admin, sink.OWNER, second.name, require_owner=confirm_ownership, recorded=recorded
    )
    assert list(read_alias(clean_indices, "orders")) == [second.name]
