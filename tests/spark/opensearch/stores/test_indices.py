"""Physical indices and the alias, on a real node."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from icdc_api.errors import AliasTaken, MappingInvalid, TargetReadOnly, TargetUnavailable
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.stores import aliases, identity, indices
from icdc_spark.opensearch.stores.indices import Ownership, PhysicalIndex
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Action, HalfAnswer, Reset, Status
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call
from icdc_testing.waiting.wait import WAIT_SECONDS

pytestmark = pytest.mark.spark

OTHER = Ownership(pipeline="default/other", alias="orders")


def read_settings(client: Client, index: str) -> dict[str, object]:
    answer = client.indices.get_settings(index=index, params={"flat_settings": "true"})
    return dict(answer[index]["settings"])


def test_a_physical_index_is_set_up_for_an_export(admin: Client, index: PhysicalIndex) -> None:
    settings = read_settings(admin, index.name)
    assert index.name == "orders-000001"
    assert index.uuid == settings["index.uuid"]
    assert settings["index.refresh_interval"] == "-1"
    assert settings["index.number_of_replicas"] == "0"
    assert settings["index.gc_deletes"] == "1h"
    mapping = indices.read_mapping(admin, index.name)
    expected = {"tableUuid": "t-1", "pipeline": "default/shop", "alias": "orders"}
    assert mapping["_meta"] == {"icdc": expected}
    assert indices.read_ownership(mapping) == sink.OWNER


def test_numbers_go_on_after_the_highest(admin: Client, index: PhysicalIndex) -> None:
    admin.indices.create(index="orders-archive")
    admin.indices.create(index="orders-000041")
    second = indices.create(admin, sink.OWNER, sink.MAPPING, {})
    assert second.name == "orders-000042"
    assert second.uuid != index.uuid
    # Nor is a number used that only the state document remembers.
    assert indices.create(admin, sink.OWNER, sink.MAPPING, {}, above=77).name == "orders-000078"
    assert indices.create(admin, sink.OWNER, sink.MAPPING, {}, above=41).name == "orders-000079"


@pytest.mark.parametrize(
    ("wanted", "refresh", "replicas"),
    [
        ({}, None, "1"),
        ({"number_of_replicas": 0, "refresh_interval": "30s"}, "30s", "0"),
        ({"index": {"number_of_replicas": 2, "refresh_interval": "5s"}}, "5s", "2"),
        ({"index.number_of_replicas": 0}, None, "0"),
        ({"number_of_replicas": 2, "auto_expand_replicas": False}, None, "2"),
        ({"number_of_replicas": 2, "auto_expand_replicas": None}, None, "2"),
    ],
)
def test_the_end_of_an_export_puts_the_settings_of_the_user_in_force(
    admin: Client, clean_indices: str, wanted: dict[str, object], refresh: str | None, replicas: str
) -> None:
    made = indices.create(admin, sink.OWNER, sink.MAPPING, wanted)
    assert read_settings(admin, made.name)["index.number_of_replicas"] == "0"
    lines = [sink.upsert(f"k{n}", {"v": n}) for n in range(7)]
    sink.run_task(sink.make_batches(lines), sink.make_target(clean_indices))
    assert indices.finish_export(admin, made.name, wanted) == 7
    settings = read_settings(admin, made.name)
    assert settings.get("index.refresh_interval") == refresh
    assert settings["index.number_of_replicas"] == replicas
    assert settings["index.gc_deletes"] == "1h"


def test_replicas_that_expand_by_themselves_are_left_to_the_server(admin: Client) -> None:
    wanted = {"auto_expand_replicas": "0-1"}
    made = indices.create(admin, sink.OWNER, sink.MAPPING, wanted)
    assert indices.finish_export(admin, made.name, wanted) == 0
    assert read_settings(admin, made.name)["index.number_of_replicas"] == "0"


def test_fields_are_added_and_the_owner_stays(admin: Client, index: PhysicalIndex) -> None:
    wider: dict[str, object] = {
        **sink.MAPPING,
        "properties": {"n": {"type": "long"}},
        "_meta": {"icdc": {"schemaId": 2}},
    }
    indices.extend_mapping(admin, index.name, wider, sink.OWNER)
    mapping = indices.read_mapping(admin, index.name)
    assert set(mapping["properties"]) == {"v", "s", "n"}
    assert mapping["_meta"]["icdc"]["schemaId"] == 2
    assert indices.read_ownership(mapping) == sink.OWNER


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"number_of_shards": 0}, {"type": "long"}, "Failed to parse value .0. for setting"),
        ({"no_such_setting": 1}, {"type": "long"}, "unknown setting .index.no_such_setting."),
        ({}, {"type": "nonsense"}, "No handler for type .nonsense."),
    ],
)
def test_settings_and_mappings_that_the_server_refuses_are_named(
    admin: Client, settings: dict[str, object], field: dict[str, object], message: str
) -> None:
    mapping: dict[str, object] = {"properties": {"v": field}}
    with pytest.raises(MappingInvalid, match=rf"sink\.opensearch\.indexSettings .*{message}"):
        indices.create(admin, sink.OWNER, mapping, settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"refresh_interval": "10 seconds"}, "failed to parse .10 seconds."),
        ({"number_of_replicas": "two"}, "Failed to parse value .two. for setting"),
    ],
)
def test_settings_that_are_refused_at_the_end_of_an_export_are_named_until_they_are_corrected(
    admin: Client, settings: dict[str, object], message: str
) -> None:
    made = indices.create(admin, sink.OWNER, sink.MAPPING, settings)
    refused = rf"refresh_interval or number_of_replicas of index '{made.name}'; .*{message}"
    with pytest.raises(MappingInvalid, match=refused):
        indices.finish_export(admin, made.name, settings)
    assert indices.finish_export(admin, made.name, {"refresh_interval": "10s"}) == 0


def test_an_index_that_somebody_makes_at_the_same_moment_is_no_end_of_the_run(
    admin: Client, proxy: FaultProxy
) -> None:
    through = open_client(Connection(hosts=(proxy.url,)))
    held = proxy.hold("/orders-000001", method="PUT")
    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(indices.create, through, sink.OWNER, sink.MAPPING, {})
        held.wait()
        admin.indices.create(index="orders-000001")
        held.release()
        with pytest.raises(TargetUnavailable, match="'orders-000001', as somebody else has just"):
            making.result(WAIT_SECONDS)
    assert indices.create(through, sink.OWNER, sink.MAPPING, {}).name == "orders-000002"
    through.close()


def test_only_our_own_orphans_are_dropped(admin: Client, index: PhysicalIndex) -> None:
    orphan = indices.create(admin, sink.OWNER, sink.MAPPING, {})
    theirs = indices.create(admin, OTHER, sink.MAPPING, {})
    admin.indices.create(index="orders-000009")
    newer = indices.create(admin, sink.OWNER, sink.MAPPING, {})
    keep = frozenset({index.name})
    assert indices.drop_orphans(admin, sink.OWNER, keep=keep, below=9) == [orphan.name]
    for retained in (index.name, theirs.name, "orders-000009", newer.name):
        assert admin.indices.exists(index=retained)


def test_the_alias_moves_in_one_step_and_a_repetition_changes_nothing(
    admin: Client, index: PhysicalIndex
) -> None:
    assert aliases.list_current_indices(admin, "orders") == []
    assert aliases.move_alias(admin, sink.OWNER, index.name) == []
    second = indices.create(admin, sink.OWNER, sink.MAPPING, {})
    assert aliases.move_alias(admin, sink.OWNER, second.name) == [index.name]
    assert aliases.move_alias(admin, sink.OWNER, second.name) == []
    assert aliases.list_current_indices(admin, "orders") == [second.name]


def test_nothing_can_be_written_through_the_alias(
    admin: Client, index: PhysicalIndex, clean_indices: str
) -> None:
    aliases.move_alias(admin, sink.OWNER, index.name)
    assert call(clean_indices, "PUT", "/orders/_doc/a", {"v": 1}).status == 400


@pytest.mark.parametrize("hidden", [False, True])
def test_an_index_of_that_name_takes_the_alias(admin: Client, hidden: bool) -> None:
    admin.indices.create(index="orders", body={"settings": {"index.hidden": hidden}})
    with pytest.raises(AliasTaken, match="An index named 'orders' exists"):
        aliases.check_free(admin, sink.OWNER)


def test_an_alias_of_a_foreign_index_is_taken(admin: Client, index: PhysicalIndex) -> None:
    admin.indices.create(index="theirs", body={"aliases": {"orders": {}}})
    with pytest.raises(AliasTaken, match="'theirs', which was not made by a pipeline"):
        aliases.move_alias(admin, sink.OWNER, index.name)
    assert aliases.list_current_indices(admin, "orders") == ["theirs"]


def test_an_alias_of_another_pipeline_is_taken(admin: Client) -> None:
    theirs = indices.create(admin, OTHER, sink.MAPPING, {})
    aliases.move_alias(admin, OTHER, theirs.name)
    with pytest.raises(AliasTaken, match="of pipeline 'default/other'"):
        aliases.check_free(admin, sink.OWNER)


def test_a_cluster_that_refuses_writes_is_read_only(admin: Client, clean_indices: str) -> None:
    setting = {"persistent": {"cluster.blocks.read_only": True}}
    call(clean_indices, "PUT", "/_cluster/settings", setting)
    try:
        with pytest.raises(TargetReadOnly, match="cluster_block_exception"):
            indices.create(admin, sink.OWNER, sink.MAPPING, {})
    finally:
        setting["persistent"]["cluster.blocks.read_only"] = None  # type: ignore[assignment]
        call(clean_indices, "PUT", "/_cluster/settings", setting)


@pytest.mark.parametrize("fault", [Status(503), Status(429), Reset(after=True), HalfAnswer()])
def test_a_passing_fault_of_a_harmless_request_is_survived(
    proxy: FaultProxy, index: PhysicalIndex, fault: Action
) -> None:
    through = open_client(Connection(hosts=(proxy.url,)))
    proxy.add(fault, path="_stats")
    identity.check_identity(through, index.name, index.uuid)
    proxy.add(fault, path="_aliases", method="POST")
    aliases.move_alias(through, sink.OWNER, index.name)
    assert aliases.list_current_indices(through, "orders") == [index.name]
    proxy.stop()
    through.patience = 0.5
    with pytest.raises(TargetUnavailable, match="cannot be reached"):
        aliases.check_free(through, sink.OWNER)
    through.close()
