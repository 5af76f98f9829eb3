"""Clusters and settings that want more copies of each shard than an export begins with."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from icdc_spark.opensearch.client.connection import Client, Connection
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark

ZONES = "cluster.routing.allocation.awareness"
BALANCED = {
    f"{ZONES}.attributes": "zone",
    f"{ZONES}.force.zone.values": "a,b,c",
    f"{ZONES}.balance": True,
    "cluster.default_number_of_replicas": 2,
}
"""Each index has a copy in each of three zones, as Amazon's Multi-AZ with standby demands it."""


def read_copies(client: Client, index: str) -> str:
    answer = client.indices.get_settings(index=index, params={"flat_settings": "true"})
    return str(answer[index]["settings"]["index.number_of_replicas"])


@pytest.fixture
def balanced(clean_indices: str) -> Iterator[str]:
    """The node as a cluster of three zones."""
    settings: dict[str, Any] = {"persistent": BALANCED}
    answer = call(clean_indices, "PUT", "/_cluster/settings", settings)
    assert answer.status == 200, answer.body
    yield clean_indices
    # In two steps: a default that is not a multiple is refused while there is a balance.
    for names in (BALANCED.keys() - {"cluster.default_number_of_replicas"}, BALANCED.keys()):
        nothing = {"persistent": dict.fromkeys(names)}
        answer = call(clean_indices, "PUT", "/_cluster/settings", nothing)
        assert answer.status == 200, answer.body


@pytest.mark.parametrize("wanted", [{}, {"number_of_replicas": 5}])
def test_an_index_has_a_copy_in_each_zone_where_the_cluster_demands_it(
    balanced: str, connection: Connection, admin: Client, wanted: dict[str, object]
) -> None:
    store = StateStore(connection)
    store.ensure_index()
    store.close()
    dead_letters.ensure_index(admin, sink.OWNER)
    made = indices.create(admin, sink.OWNER, sink.MAPPING, wanted)
    copies = str(wanted.get("number_of_replicas", 2))
    assert read_copies(admin, made.name) == copies
    assert read_copies(admin, "icdc-state") == read_copies(admin, "orders-dead-letters") == "2"
    assert sink.write(balanced, [sink.upsert("a", {"v": 1})]).upserted == 1
    assert indices.finish_export(admin, made.name, wanted) == 1
    assert read_copies(admin, made.name) == copies


def test_an_index_retains_the_copies_that_a_template_gives_it_where_the_cluster_demands_them(
    balanced: str, admin: Client
) -> None:
    template = {"settings": {"number_of_replicas": 5}}
    body = {"index_patterns": ["orders*"], "template": template}
    assert call(balanced, "PUT", "/_index_template/copies", body).status == 200
    try:
        made = indices.create(admin, sink.OWNER, sink.MAPPING, {})
        assert read_copies(admin, made.name) == "5"
        assert indices.finish_export(admin, made.name, {}) == 0
        assert read_copies(admin, made.name) == "5"
    finally:
        call(balanced, "DELETE", "/_index_template/copies")


def test_an_index_of_which_nobody_says_how_many_copies_it_has_gets_one(
    clean_indices: str, admin: Client
) -> None:
    setting: dict[str, dict[str, Any]] = {"persistent": {"cluster.default_number_of_replicas": 2}}
    assert call(clean_indices, "PUT", "/_cluster/settings", setting).status == 200
    try:
        made = indices.create(admin, sink.OWNER, sink.MAPPING, {})
        for _ in range(2):  # the second time as after an answer that was lost
            assert indices.finish_export(admin, made.name, {}) == 0
            assert read_copies(admin, made.name) == "1"
    finally:
        setting["persistent"] = dict.fromkeys(setting["persistent"])
        call(clean_indices, "PUT", "/_cluster/settings", setting)


def test_an_index_whose_writes_wait_for_copies_has_them_from_its_beginning(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"number_of_replicas": 1, "write.wait_for_active_shards": "2"}
    # By default the node would wait half a minute for a copy that has no second node.
    create = partial(admin.indices.create, params={"wait_for_active_shards": "1"})
    monkeypatch.setattr(admin.indices, "create", create)
    made = indices.create(admin, sink.OWNER, sink.MAPPING, wanted)
    assert read_copies(admin, made.name) == "1"
