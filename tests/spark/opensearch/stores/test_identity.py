"""Whether an index is still the one that was written, after what administrators do to indices."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_api.errors import Gap, TargetReadOnly, TargetUnavailable
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.stores import identity, indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call
from icdc_testing.target.restoring import empty_shard, restore, take_snapshot, wait_until_green

pytestmark = pytest.mark.spark

Act = Callable[[OpenSearchNode], object]
INDEX = sink.INDEX


def send_request(method: str, path: str, body: object = None) -> Act:
    return lambda node: call(node.url, method, f"/{INDEX}{path}", body)


def reopen(node: OpenSearchNode) -> None:
    call(node.url, "POST", f"/{INDEX}/_close")
    call(node.url, "POST", f"/{INDEX}/_open")
    wait_until_green(node.url, INDEX)


HARMLESS: dict[str, Act] = {
    "nothing": lambda _: None,
    "a refresh": send_request("POST", "/_refresh"),
    "a flush": send_request("POST", "/_flush?force=true"),
    "a merge": send_request("POST", "/_forcemerge?max_num_segments=1"),
    "closed and opened": reopen,
    "another number of replicas": send_request(
        "PUT", "/_settings", {"index.number_of_replicas": 1}
    ),
    "more replicas than nodes": send_request("PUT", "/_settings", {"index.number_of_replicas": 5}),
    "an edit by somebody else": send_request("PUT", "/_doc/1", {"v": 100}),
    "an alias": send_request("PUT", "/_alias/other"),
}


def write(url: str, *, rounds: int = 1) -> None:
    for number in range(20 * rounds):
        assert call(url, "PUT", f"/{INDEX}/_doc/{number % 20}", {"v": number}).status < 300


@pytest.fixture
def written(admin: Client, clean_indices: str) -> PhysicalIndex:
    """An index of two shards with 20 documents."""
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    made = indices.create(admin, sink.OWNER, sink.MAPPING, settings)
    write(clean_indices)
    return made


@pytest.mark.parametrize("what", HARMLESS)
def test_what_loses_no_write_leaves_the_index_what_it_was(
    opensearch: OpenSearchNode, admin: Client, written: PhysicalIndex, what: str
) -> None:
    recorded = identity.check_identity(admin, written.name, written.uuid).shards
    HARMLESS[what](opensearch)
    now = identity.check_identity(admin, written.name, written.uuid, recorded).shards
    assert now.histories == recorded.histories
    assert sum(now.max_seq_nos) >= sum(recorded.max_seq_nos)


def test_a_restart_of_the_node_leaves_the_index_what_it_was(tmp_path: Path) -> None:
    with OpenSearchNode(tmp_path) as node:
        through = open_client(Connection(hosts=(node.url,)))
        made = indices.create(through, sink.OWNER, sink.MAPPING, {"number_of_replicas": 0})
        write(node.url)
        recorded = identity.check_identity(through, made.name, made.uuid).shards
        through.close()
        os.kill(node.pid, signal.SIGKILL)
        node.stop()
        node.start()
        wait_until_green(node.url, made.name)
        through = open_client(Connection(hosts=(node.url,)))
        now = identity.check_identity(through, made.name, made.uuid, recorded)
        assert now.shards == recorded
        through.close()


def test_every_acknowledged_write_takes_a_number_and_no_other_does(
    admin: Client, clean_indices: str, written: PhysicalIndex
) -> None:
    recorded = identity.check_identity(admin, written.name, written.uuid).shards
    answers = [
        call(clean_indices, method, f"/{INDEX}/_doc/{path}", body).status
        for method, path, body in (
            ("PUT", "new", {"v": 1}),
            ("PUT", "new", {"v": 1}),
            ("DELETE", "new", None),
            ("DELETE", "never-there?version=7&version_type=external_gte", None),
            ("PUT", "1?version=1&version_type=external", {"v": 1}),
            ("PUT", "2", {"v": "no number"}),
        )
    ]
    assert answers == [201, 200, 200, 404, 409, 400]
    now = identity.check_identity(admin, written.name, written.uuid, recorded).shards
    assert identity.count_lost_writes(now, recorded, 4) == 0
    assert identity.count_lost_writes(now, recorded, 5) == 1


def make_anew(node: OpenSearchNode) -> None:
    call(node.url, "DELETE", f"/{INDEX}")
    call(node.url, "PUT", f"/{INDEX}")


def make_an_alias(node: OpenSearchNode) -> None:
    call(node.url, "DELETE", f"/{INDEX}")
    call(node.url, "PUT", "/other", {"aliases": {INDEX: {}}})


def restore_after_deletion(node: OpenSearchNode) -> None:
    call(node.url, "DELETE", f"/{INDEX}")
    restore(node, INDEX, close=False)


RESTORED = "was restored, or shards of it were allocated by force"
LOSSES: dict[str, tuple[Act, str]] = {
    "deleted": (send_request("DELETE", ""), "no longer exists"),
    "made anew": (make_anew, "was re-created"),
    "an alias": (make_an_alias, "no longer exists"),
    "restored after it was deleted": (restore_after_deletion, "was re-created"),
    "closed and restored in place": (lambda node: restore(node, INDEX), RESTORED),
    "one shard emptied": (lambda node: empty_shard(node, INDEX, 1), RESTORED),
}


@pytest.mark.parametrize("what", LOSSES)
def test_an_index_that_lost_writes_is_a_gap(
    opensearch: OpenSearchNode,
    admin: Client,
    clean_indices: str,
    written: PhysicalIndex,
    what: str,
) -> None:
    act, reason = LOSSES[what]
    take_snapshot(opensearch, INDEX)
    recorded = identity.check_identity(admin, written.name, written.uuid).shards
    act(opensearch)
    if what not in ("deleted", "an alias"):
        # Whatever is written now hides the loss from who looks at numbers alone.
        write(clean_indices, rounds=3)
    with pytest.raises(Gap, match=f"the index {INDEX} {reason}"):
        identity.check_identity(admin, written.name, written.uuid, recorded)


def test_a_closed_index_is_no_gap(
    admin: Client, clean_indices: str, written: PhysicalIndex
) -> None:
    call(clean_indices, "POST", f"/{INDEX}/_close")
    with pytest.raises(TargetReadOnly, match="index_closed_exception") as closed:
        identity.check_identity(admin, written.name, written.uuid)
    message = closed.value.message
    assert message.startswith(f"Index '{INDEX}' of OpenSearch at {clean_indices} is closed")
    assert f"An administrator of OpenSearch has to open it (POST /{INDEX}/_open)" in message


def test_an_index_with_a_shard_that_is_not_started_is_no_gap(
    admin: Client, clean_indices: str
) -> None:
    nowhere = {"settings": {"index.routing.allocation.include._name": "nobody"}}
    call(clean_indices, "PUT", "/lost?wait_for_active_shards=0", nowhere)
    admin.patience = 0.5
    with pytest.raises(TargetUnavailable, match="primary shards that are not started"):
        identity.identify(admin, "lost")
