"""A cluster manager that is behind: what it has not done yet is asked for again, or waited for.

It answers such a request after half a minute with 503, or with `acknowledged: false`.
"""

import json
from collections.abc import Callable, Iterator

import pytest

from icdc_api.errors import PassingError, TargetReadOnly
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.stores import aliases, dead_letters, indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Hang, Status
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

LATE = {
    "not acknowledged": Status(
        200, body=json.dumps({"acknowledged": False, "shards_acknowledged": False}).encode()
    ),
    "timed out": Status(503, kind="process_cluster_event_timeout_exception"),
}
WIDER = {**sink.MAPPING, "properties": {"v": {"type": "long"}, "added": {"type": "keyword"}}}
SETTINGS = {"refresh_interval": "7s", "number_of_replicas": 0}


def extend(through: Client) -> None:
    indices.extend_mapping(through, sink.INDEX, WIDER, sink.OWNER, added=["added"])


def move(through: Client) -> None:
    aliases.move_alias(through, sink.OWNER, sink.INDEX)


def finish(through: Client) -> None:
    indices.finish_export(through, sink.INDEX, SETTINGS)


REPEATED: dict[str, tuple[Callable[[Client], None], str, str]] = {
    "fields": (extend, "/_mapping$", "/_mapping"),
    "alias": (move, "/_aliases$", "/_alias/orders"),
    "settings": (finish, "/_settings$", "/_settings"),
}
"""What a request asks for, its path, and the path at which the index shows it."""


@pytest.fixture
def through(proxy: FaultProxy) -> Iterator[Client]:
    """A client behind the proxy, which has little patience."""
    made = open_client(Connection(hosts=(proxy.url,)))
    made.patience = 1.5
    yield made
    made.close()


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("what", REPEATED)
def test_what_was_not_done_in_time_is_asked_for_again(
    proxy: FaultProxy, through: Client, index: PhysicalIndex, what: str, late: str
) -> None:
    act, path, shown = REPEATED[what]
    before = call(proxy.upstream, "GET", f"/{index.name}{shown}").body
    rule = proxy.add(LATE[late], path=path)
    act(through)
    assert rule.hits == 1
    assert call(proxy.upstream, "GET", f"/{index.name}{shown}").body != before


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("what", ["an index", "the index of dead letters"])
def test_an_index_that_was_not_made_in_time_is_no_gap(
    proxy: FaultProxy, through: Client, late: str, what: str
) -> None:
    proxy.add(LATE[late], method="PUT", path="/orders-")
    if what == "an index":
        with pytest.raises(PassingError):
            indices.create(through, sink.OWNER, sink.MAPPING, {})
        assert indices.create(through, sink.OWNER, sink.MAPPING, {}).name == "orders-000002"
    else:
        dead_letters.ensure_index(through, sink.OWNER)
        assert dead_letters.count(through, sink.OWNER) == 0


def test_a_refresh_that_hangs_is_asked_for_again(proxy: FaultProxy, index: PhysicalIndex) -> None:
    through = open_client(Connection(hosts=(proxy.url,), timeout=2.0))
    through.patience = 1.0
    sink.write(proxy.upstream, [sink.upsert("k1", {"v": 1})])
    rule = proxy.add(Hang(), path="/_refresh")
    assert indices.finish_export(through, index.name, SETTINGS) == 1
    assert rule.hits == 1
    proxy.add(Hang(), path="/_refresh", times=None)
    with pytest.raises(PassingError, match="did not answer in time"):
        indices.finish_export(through, index.name, SETTINGS)
    through.close()


def test_a_cluster_that_makes_no_index_because_its_disks_fill_up_is_read_only(
    proxy: FaultProxy, through: Client, connection: Connection
) -> None:
    def set_block(value: bool | None) -> None:
        body = {"persistent": {"cluster.blocks.create_index": value}}
        assert call(proxy.upstream, "PUT", "/_cluster/settings", body).status == 200

    set_block(True)
    try:
        with pytest.raises(TargetReadOnly, match="free disk space"):
            indices.create(through, sink.OWNER, sink.MAPPING, {})
        with pytest.raises(TargetReadOnly, match="free disk space"):
            dead_letters.ensure_index(through, sink.OWNER)
        with pytest.raises(TargetReadOnly, match="free disk space"):
            StateStore(connection).ensure_index()
    finally:
        set_block(None)
    assert indices.create(through, sink.OWNER, sink.MAPPING, {}).name == "orders-000002"
