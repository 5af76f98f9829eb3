"""The index of state documents on a real node: what it holds, and what may stand in its place."""

from typing import Any

import pytest

from icdc_api.errors import Fenced, TargetInvalid
from icdc_api.naming import STATE_INDEX
from icdc_spark.opensearch.client.connection import Client, Connection
from icdc_spark.opensearch.stores.identity import identify
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_spark.protocol.stored_fields import MAX_BYTES
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Status
from icdc_testing.target.node_calls import call
from icdc_testing.target.state_documents import LATER, OWNER, SHARDS, make_state_after_export
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

LIMIT = 4 << 20
"""Bytes of the translog at which the index is to be flushed."""


def test_the_log_of_replaced_documents_is_bounded(
    connection: Connection, clean_indices: str, admin: Client, index: PhysicalIndex
) -> None:
    store = StateStore(connection)
    store.ensure_index()
    numbers = SHARDS.model_copy(update={"max_seq_nos": [2**62] * 1024})
    stored = store.create(make_state_after_export().model_copy(update={"shards": numbers}))
    # Of 20 KB each: thrice the limit.
    for _ in range(3 * LIMIT // 20_000):
        stored = store.replace(stored, stored.document.claim(OWNER, now=LATER))
    store.close()

    def is_flushed() -> bool:
        answer: Any = call(clean_indices, "GET", f"/{STATE_INDEX}/_stats/translog").json
        translog = answer["_all"]["primaries"]["translog"]
        return bool(translog["uncommitted_size_in_bytes"] < 1.5 * LIMIT)

    # Merges remove replaced documents only up to the last flush: this bounds their number, too.
    wait_until(is_flushed, "the state index is flushed")
    measured = identify(admin, index.name)
    assert measured is not None
    assert measured.store_bytes is not None
    used, limit = measured.store_bytes
    assert 0 < used < limit == MAX_BYTES + 4 * LIMIT


@pytest.mark.parametrize("copies", [("copy",), ("copy", "other")])
def test_an_alias_in_place_of_the_index_is_named_and_the_index_is_made_once_it_is_gone(
    connection: Connection, clean_indices: str, copies: tuple[str, ...]
) -> None:
    adding = [{"add": {"index": copy, "alias": STATE_INDEX}} for copy in copies]
    for copy in copies:
        assert call(clean_indices, "PUT", f"/{copy}").status == 200
    assert call(clean_indices, "POST", "/_aliases", {"actions": adding}).status == 200
    store = StateStore(connection)
    with pytest.raises(TargetInvalid, match=f"is an alias of {', '.join(copies)} now"):
        store.ensure_index()

    removing = [{"remove": {"index": copy, "alias": STATE_INDEX}} for copy in copies]
    assert call(clean_indices, "POST", "/_aliases", {"actions": removing}).status == 200
    store.ensure_index()
    assert store.uuid
    store.close()


def test_a_write_that_a_starting_node_answers_as_if_the_index_were_gone_is_made_again(
    proxy: FaultProxy,
) -> None:
    store = StateStore(Connection(hosts=(proxy.url,)))
    store.ensure_index()
    stored = store.create(make_state_after_export())
    answer = Status(404, kind="index_not_found_exception")
    rule = proxy.add(answer, path=f"/{STATE_INDEX}/_doc", method="PUT")
    replaced = store.replace(stored, stored.document.claim(OWNER, now=LATER))
    assert (store.load(stored.document.alias), rule.hits) == (replaced, 1)
    store.close()


def test_a_write_into_an_index_that_is_gone_is_fenced_where_no_write_may_make_one(
    connection: Connection, clean_indices: str
) -> None:
    store = StateStore(connection)
    store.ensure_index()
    stored = store.create(make_state_after_export())
    call(clean_indices, "DELETE", f"/{STATE_INDEX}")
    setting: dict[str, dict[str, object]] = {"persistent": {"action.auto_create_index": False}}
    assert call(clean_indices, "PUT", "/_cluster/settings", setting).status == 200
    try:
        with pytest.raises(Fenced, match="'icdc-state' was deleted meanwhile"):
            store.replace(stored, stored.document.claim(OWNER, now=LATER))
    finally:
        setting["persistent"]["action.auto_create_index"] = None
        call(clean_indices, "PUT", "/_cluster/settings", setting)
        store.close()
