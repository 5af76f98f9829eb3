"""What a real node stores of state documents that were replaced."""

from typing import Any

import pytest

from icdc_api.naming import STATE_INDEX
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.target.node_calls import call
from icdc_testing.target.state_documents import LATER, OWNER, SHARDS, make_state_after_export
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

LIMIT = 4 << 20
"""Bytes of the translog at which the index is to be flushed."""


def test_the_log_of_replaced_documents_is_bounded(
    connection: Connection, clean_indices: str
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
