"""Compare-and-set of state documents on a real node."""

import json
from collections.abc import Iterator

import pytest

from icdc_api.errors import AliasTaken, Fenced, StateCorrupt
from icdc_api.naming import STATE_INDEX
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_spark.protocol.state_document import Intent, IntentKind, Owner, SourceTable, StateDocument
from icdc_spark.protocol.stored_fields import CONTRACT_VERSION
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Reset, RewrittenAnswer, Status
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark

NOW = "2026-03-01T10:00:00Z"
LATER = "2026-03-01T10:00:01Z"
OWNER = Owner(pipeline="default/shop", epoch=1, run_id="run-1")


def make_first(run: str = "run-1", epoch: int = 1) -> StateDocument:
    return StateDocument(
        alias="orders",
        owner=Owner(pipeline="default/shop", epoch=epoch, run_id=run),
        source=SourceTable(table="shop.orders", uuid="t-1", branch="main"),
        document_spec="abc",
        updated_at=NOW,
    )


def make_export(ordinal: int = 1) -> Intent:
    return Intent(
        kind=IntentKind.EXPORT,
        from_=None,
        to="77",
        ordinal=ordinal,
        index="orders-000001",
        index_uuid="u-1",
    )


@pytest.fixture
def store(connection: Connection) -> Iterator[StateStore]:
    made = StateStore(connection)
    made.ensure_index()
    yield made
    made.close()


def test_what_was_stored_is_loaded(store: StateStore) -> None:
    assert store.load("orders") is None
    created = store.create(make_first())
    assert store.load("orders") == created
    replaced = store.replace(created, created.document.with_intent(make_export(), now=LATER))
    assert store.load("orders") == replaced
    store.delete("orders")
    assert store.load("orders") is None


def test_a_document_is_deleted_only_as_it_was_read(store: StateStore) -> None:
    created = store.create(make_first())
    replaced = store.replace(created, created.document.with_intent(make_export(), now=LATER))
    with pytest.raises(Fenced, match="changed by another run"):
        store.delete_unchanged(created)
    assert store.load("orders") == replaced
    for _ in range(2):  # the second time as after an answer that was lost
        store.delete_unchanged(replaced)
    assert store.load("orders") is None


def test_nothing_is_stored_yet_without_the_index(connection: Connection) -> None:
    store = StateStore(connection)
    assert store.load("orders") is None
    store.close()


def test_a_write_into_an_index_that_is_gone_is_fenced_and_leaves_one_as_ours_are(
    store: StateStore, clean_indices: str
) -> None:
    created = store.create(make_first())
    call(clean_indices, "DELETE", f"/{STATE_INDEX}")
    with pytest.raises(Fenced, match="was deleted meanwhile"):
        store.replace(created, created.document.with_intent(make_export(), now=LATER))
    settings = call(clean_indices, "GET", f"/{STATE_INDEX}/_settings/index.hidden").json
    assert settings == {STATE_INDEX: {"settings": {"index": {"hidden": "true"}}}}
    mapping = call(clean_indices, "GET", f"/{STATE_INDEX}/_mapping").body
    assert b'"dynamic":"false"' in mapping


def test_a_document_that_was_put_back_from_a_copy_is_known_by_its_revision(
    store: StateStore, clean_indices: str
) -> None:
    stored = store.create(make_first())
    for _ in range(3):
        stored = store.replace(stored, stored.document.claim(make_first().owner, now=LATER))
        assert stored.is_original
        assert store.load("orders") == stored
    copy = stored.document.to_source()
    stored = store.replace(stored, stored.document.claim(make_first().owner, now=LATER))
    assert call(clean_indices, "PUT", f"/{STATE_INDEX}/_doc/orders", copy).status == 200
    put_back = store.load("orders")
    assert put_back is not None
    assert not put_back.is_original
    # Nor is it made an original by being written again: not before an export begins anew.
    again = store.replace(put_back, put_back.document.claim(make_first().owner, now=LATER))
    assert not again.is_original
    assert store.replace(again, again.document.trust("s", now=LATER)).is_original


def test_the_index_is_hidden_and_made_once(store: StateStore, clean_indices: str) -> None:
    store.ensure_index()
    settings = call(clean_indices, "GET", f"/{STATE_INDEX}/_settings/index.hidden").json
    assert settings == {STATE_INDEX: {"settings": {"index": {"hidden": "true"}}}}


def test_the_slower_of_two_creations_is_fenced(store: StateStore) -> None:
    store.create(make_first("run-1"))
    with pytest.raises(Fenced, match="owned by run 'run-1' of pipeline 'default/shop'"):
        store.create(make_first("run-2"))


def test_the_older_of_two_owners_is_fenced_at_its_next_write(store: StateStore) -> None:
    old = store.create(make_first("run-1", epoch=1))
    newer = Owner(pipeline="default/shop", epoch=2, run_id="run-2")
    store.replace(old, old.document.claim(newer, now=LATER))
    with pytest.raises(Fenced, match=r"run 'run-2' .* with epoch 2; this run has stopped"):
        store.replace(old, old.document.with_intent(make_export(), now=LATER))
    retained = store.load("orders")
    assert retained is not None
    assert (retained.document.owner, retained.document.intent) == (newer, None)


def test_a_document_deleted_meanwhile_fences(store: StateStore) -> None:
    old = store.create(make_first())
    store.delete("orders")
    with pytest.raises(Fenced, match="was deleted meanwhile"):
        store.replace(old, old.document.with_intent(make_export(), now=LATER))


def test_another_pipeline_finds_the_alias_taken(store: StateStore) -> None:
    stored = store.create(make_first())
    other = Owner(pipeline="default/other", epoch=9, run_id="x")
    with pytest.raises(AliasTaken, match="'default/shop'"):
        stored.document.claim(other, now=LATER)


@pytest.mark.parametrize("fault", [Reset(after=True), Status(503), Status(429, retry_after=1)])
def test_a_lost_answer_is_not_taken_for_another_owner(
    store: StateStore, proxy: FaultProxy, fault: Reset | Status
) -> None:
    through = StateStore(Connection(hosts=(proxy.url,)))
    created = through.create(make_first())
    proxy.add(fault, method="PUT")
    document = created.document.with_intent(make_export(), now=LATER)
    replaced = through.replace(created, document)
    assert store.load("orders") == replaced
    through.close()


def lie(seq_no: int) -> Status:
    """Say that the document was replaced, and forwards nothing."""
    named = {"_index": STATE_INDEX, "_id": "orders", "_version": 9}
    answer = {**named, "_seq_no": seq_no, "_primary_term": 1}
    return Status(200, body=json.dumps(answer).encode())


def test_a_change_that_was_acknowledged_and_lost_is_stored_with_the_next(
    store: StateStore, proxy: FaultProxy
) -> None:
    """Otherwise the ordinal of its batch would be used again for other rows."""
    through = StateStore(Connection(hosts=(proxy.url,)))
    created = through.create(make_first())
    claimed = through.replace(created, created.document.claim(OWNER, now=LATER))
    proxy.add(lie(claimed.seq_no + 1), method="PUT")
    begun = through.replace(claimed, claimed.document.with_intent(make_export(), now=LATER))
    retained = store.load("orders")
    assert retained is not None
    assert retained.document.intent is None
    done = begun.document.model_copy(update={"updated_at": "2026-03-01T10:00:02Z"})
    assert store.load("orders") != through.replace(begun, done)
    retained = store.load("orders")
    assert retained is not None
    assert retained.document == done.model_copy(update={"revision": retained.version})
    through.close()


def test_an_intent_that_was_acknowledged_and_lost_is_stored_before_a_row_is_written(
    store: StateStore, proxy: FaultProxy
) -> None:
    """The driver may die before its next change, which would show that it was lost."""
    through = StateStore(Connection(hosts=(proxy.url,)))
    created = through.create(make_first())
    rule = proxy.add(lie(created.seq_no + 1), method="PUT")
    begun = through.begin(created, created.document.with_intent(make_export(), now=LATER))
    assert rule.hits == 1
    assert store.load("orders") == begun
    through.close()


def test_a_run_does_not_fence_itself_when_it_cannot_read_what_made_good_a_lost_change(
    store: StateStore, proxy: FaultProxy
) -> None:
    through = StateStore(Connection(hosts=(proxy.url,)))
    created = through.create(make_first())
    claimed = through.replace(created, created.document.claim(OWNER, now=LATER))
    proxy.add(lie(claimed.seq_no + 5), method="PUT")
    lost = through.replace(claimed, claimed.document)
    # The first reading tells what the conflict is about, the second whether it was made good.
    unread = proxy.add(Status(503), method="GET", path="/icdc-state/_doc/", skip=1)
    begun = through.begin(lost, lost.document.with_intent(make_export(), now=LATER))
    assert unread.hits == 1
    assert store.load("orders") == begun
    assert begun.document.intent is not None
    through.close()


def test_a_claim_that_was_acknowledged_and_lost_fences(
    store: StateStore, proxy: FaultProxy
) -> None:
    """The older run was not stopped by it, and may still write."""
    through = StateStore(Connection(hosts=(proxy.url,)))
    created = through.create(make_first())
    proxy.add(lie(created.seq_no + 1), method="PUT")
    newer = Owner(pipeline="default/shop", epoch=2, run_id="run-2")
    claimed = through.replace(created, created.document.claim(newer, now=LATER))
    with pytest.raises(Fenced, match="now owned by run 'run-1'"):
        through.replace(claimed, claimed.document.with_intent(make_export(), now=LATER))
    assert store.load("orders") == created
    through.close()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"_id": "customers"}, id="of another document"),
        pytest.param({"_seq_no": 0}, id="of an earlier change"),
    ],
)
def test_an_answer_to_another_change_is_not_believed(
    store: StateStore, proxy: FaultProxy, change: dict[str, object]
) -> None:
    """As a cache or a proxy gives it that mixes up two answers."""
    through = StateStore(Connection(hosts=(proxy.url,)))
    created = through.create(make_first())
    proxy.add(RewrittenAnswer(lambda answer: answer | change), method="PUT")
    replaced = through.replace(created, created.document.with_intent(make_export(), now=LATER))
    assert store.load("orders") == replaced
    through.close()


@pytest.mark.parametrize("status", [409, 503])
def test_an_error_although_the_change_was_stored_is_not_believed(
    store: StateStore, proxy: FaultProxy, status: int
) -> None:
    through = StateStore(Connection(hosts=(proxy.url,)))
    created = through.create(make_first())
    error = {"type": "version_conflict_engine_exception", "reason": "injected"}
    proxy.add(
        RewrittenAnswer(lambda answer: {"error": error, "status": status}, status), method="PUT"
    )
    replaced = through.replace(created, created.document.with_intent(make_export(), now=LATER))
    assert store.load("orders") == replaced
    through.close()


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ({"lastOrdinal": 99}, "checksum does not match"),
        ({"checksum": "0" * 64}, "checksum does not match"),
        ({"contractVersion": CONTRACT_VERSION + 1}, "written by a newer version"),
        ({"surprise": True}, "checksum does not match"),
    ],
)
def test_an_edited_document_is_refused_and_left_alone(
    store: StateStore, clean_indices: str, edit: dict[str, object], problem: str
) -> None:
    source = store.create(make_first()).document.to_source() | edit
    call(clean_indices, "PUT", f"/{STATE_INDEX}/_doc/orders", source)
    with pytest.raises(StateCorrupt, match=problem) as caught:
        store.load("orders")
    assert "delete the document 'orders' in icdc-state" in caught.value.message
    assert call(clean_indices, "GET", f"/{STATE_INDEX}/_doc/orders").json["_source"] == source
