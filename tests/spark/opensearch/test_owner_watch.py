"""A task whose run was replaced while it was cut off, stopped or thought dead."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from icdc_api.errors import Fenced
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.target import OWNER_SECONDS
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.state_store import StateStore, Stored
from icdc_spark.protocol.state_document import Owner, SourceTable, StateDocument
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Status
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import read_documents
from icdc_testing.waiting.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

STATE = "icdc-state/_doc"


@pytest.fixture
def store(connection: Connection) -> Iterator[StateStore]:
    made = StateStore(connection)
    made.ensure_index()
    yield made
    made.close()


@pytest.fixture
def stored(store: StateStore) -> Stored:
    """The state document of the run with epoch 1."""
    return store.create(
        StateDocument(
            alias=sink.OWNER.alias,
            owner=Owner(pipeline=sink.OWNER.pipeline, epoch=1, run_id="run-1"),
            source=SourceTable(table="shop.orders", uuid="t-1", branch="main"),
            document_spec="abc",
            updated_at="2026-03-01T10:00:00Z",
        )
    )


def make_rows(first: int) -> Iterator[pa.RecordBatch]:
    return sink.make_batches([sink.upsert(f"k{n}", {"v": n}) for n in range(first, first + 10)])


def write(batches: Iterator[pa.RecordBatch], url: str, **changes: Any) -> PartitionResult:
    return sink.run_task(batches, sink.make_target(url, max_bytes=500, max_in_flight=1, **changes))


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_task_ends_when_a_newer_run_owns_the_index(
    proxy: FaultProxy, store: StateStore, stored: Stored, epoch: int
) -> None:
    def make_slow_rows() -> Iterator[pa.RecordBatch]:
        yield from make_rows(0)
        owner = Owner(pipeline=sink.OWNER.pipeline, epoch=epoch, run_id=f"run-{epoch}")
        document = stored.document.claim(owner, now="2026-03-01T10:00:01Z")
        wait_until(lambda: bool(proxy.list_writes()), "the task writes")
        store.replace(stored, document)
        yield from make_rows(10)

    result = write(make_slow_rows(), proxy.url, owner_seconds=0.0)
    late = {f"k{n}" for n in range(10, 20)} & set(read_documents(proxy.upstream, sink.INDEX))
    if epoch == 1:
        assert (result.error, len(late)) == (None, 10)
        return
    assert late == set()
    assert result.error is not None
    assert result.error[0] == "Fenced"
    assert "now owned by run 'run-2' with epoch 2" in result.error[1]


def test_a_task_that_cannot_learn_who_owns_the_index_waits(
    proxy: FaultProxy, stored: Stored
) -> None:
    fault = proxy.add(Status(503), path=STATE, times=2)
    result = write(make_rows(0), proxy.url, owner_seconds=0.0)
    assert (result.error, result.upserted, result.retries, fault.hits) == (None, 10, 2, 2)


def test_a_short_task_asks_nobody(proxy: FaultProxy, stored: Stored) -> None:
    assert OWNER_SECONDS > 1
    assert write(make_rows(0), proxy.url).upserted == 10
    assert proxy.list_requests(STATE) == []


@pytest.mark.parametrize(
    "ago", [2 * OWNER_SECONDS, 3600.0, -3600.0], ids=["late", "clock ahead", "clock behind"]
)
def test_a_short_task_that_began_late_in_its_batch_by_its_clock_asks_once(
    proxy: FaultProxy, stored: Stored, ago: float
) -> None:
    assert write(make_rows(0), proxy.url, owned_at=time.time() - ago).upserted == 10
    assert len(proxy.list_requests(STATE)) == 1


def test_a_task_ends_when_the_state_document_is_gone(
    proxy: FaultProxy, store: StateStore, stored: Stored
) -> None:
    store.delete(stored.document.alias)
    result = write(make_rows(0), proxy.url, owner_seconds=0.0)
    assert (result.upserted, result.error and result.error[0]) == (0, "Fenced")


def test_a_process_owns_an_alias_since_it_asked_for_its_last_stored_change(
    store: StateStore, stored: Stored, connection: Connection
) -> None:
    alias, created = stored.document.alias, store.get_owned_at(stored.document.alias)
    assert 0.0 < created <= time.time()
    store.load(alias)
    with closing(StateStore(connection)) as other:
        assert other.get_owned_at(alias) == 0.0
        newer = Owner(pipeline=sink.OWNER.pipeline, epoch=2, run_id="run-2")
        other.replace(stored, stored.document.claim(newer, now="2026-03-01T10:00:01Z"))
        with pytest.raises(Fenced):
            store.replace(stored, stored.document.distrust(now="2026-03-01T10:00:02Z"))
        assert other.get_owned_at(alias) >= created
    assert store.get_owned_at(alias) == created
