"""The stored form of the state document: complete, checksummed, bounded."""

import hashlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_api.errors import Bug, StateCorrupt
from icdc_api.naming import MAX_INDEX_BYTES, MAX_TABLE_NAME
from icdc_spark.protocol.state_document import (
    Shards,
    SourceTable,
    StateDocument,
    compute_base_version,
)
from icdc_spark.protocol.stored_fields import MAX_RETAINED_INDICES
from icdc_testing.target.state_documents import (
    NOW,
    SHARDS,
    make_applied,
    make_changelog,
    make_empty,
    make_exporting,
    make_state_after_export,
    make_swapping,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "make", [make_empty, make_exporting, make_swapping, make_state_after_export]
)
def test_every_state_survives_being_stored(make: Callable[[], StateDocument]) -> None:
    document = make()
    stored = json.loads(json.dumps(document.to_source()))
    assert StateDocument.parse("orders", stored) == document


def test_the_stored_form_is_the_one_of_the_contract() -> None:
    source = make_state_after_export().with_intent(make_changelog(), now=NOW).to_source()
    assert {key: value for key, value in source.items() if key != "checksum"} == {
        "contractVersion": 6,
        "alias": "orders",
        "index": "orders-000001",
        "indexUuid": "uuid of orders-000001",
        "shards": {"histories": "abc", "maxSeqNos": [14, -1]},
        "owner": {"pipeline": "default/shop", "epoch": 4, "runId": "run-4"},
        "source": {"table": "shop.orders", "uuid": "t-1", "branch": "main"},
        "documentSpec": "abc",
        "applied": {
            "snapshotId": "77",
            "sequenceNumber": 3,
            "committedAt": NOW,
            "ordinal": 1,
        },
        "intent": {
            "kind": "Changelog",
            "from": "77",
            "to": "78",
            "ordinal": 2,
            "index": "orders-000001",
            "indexUuid": "uuid of orders-000001",
            "phase": "Writing",
            "chunksTotal": 1,
            "cut": None,
            "chunksDone": 0,
            "rows": 0,
            "miscounts": 0,
            "shards": None,
            "nodes": {},
        },
        "lastOrdinal": 2,
        "resyncNonce": 0,
        "resyncId": None,
        "duplicates": None,
        "totals": {"upserted": 15, "deleted": 0, "deadLetters": 0},
        "lastIndexNumber": 0,
        "previousIndices": [],
        "retained": [],
        "rolledBackNumber": None,
        "fault": None,
        "begunIndex": None,
        "absentNodes": [],
        "revision": None,
        "storeHistory": None,
        "updatedAt": NOW,
    }


@given(st.data())
def test_any_single_change_of_a_stored_document_is_noticed(data: st.DataObject) -> None:
    source = make_state_after_export().to_source()
    key = data.draw(st.sampled_from(sorted(source)))
    change: object = data.draw(
        st.one_of(st.none(), st.integers(), st.text(max_size=5), st.just({}))
    )
    changed = source | {key: change}
    if changed == source:
        return
    with pytest.raises(StateCorrupt, match="delete the document 'orders' in icdc-state"):
        StateDocument.parse("orders", changed)


def test_a_missing_field_is_noticed() -> None:
    for key in make_state_after_export().to_source():
        source = make_state_after_export().to_source()
        del source[key]
        with pytest.raises(StateCorrupt):
            StateDocument.parse("orders", source)


def test_a_document_under_another_id_is_refused() -> None:
    with pytest.raises(StateCorrupt, match="belongs to alias 'orders'"):
        StateDocument.parse("customers", make_state_after_export().to_source())


def test_a_document_of_the_version_before_is_read_and_says_nothing_of_shards() -> None:
    content = make_state_after_export().with_intent(make_changelog(), now=NOW).to_source()
    del content["revision"], content["storeHistory"]
    del content["shards"], content["intent"]["shards"], content["intent"]["miscounts"]
    del content["checksum"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    source = content | {"checksum": hashlib.sha256(text.encode()).hexdigest()}
    document = StateDocument.parse("orders", source)
    assert document.shards is None
    advanced = document.advance(make_applied(2, "78"), shards=SHARDS, now=NOW)
    assert StateDocument.parse("orders", advanced.to_source()).shards == SHARDS


@pytest.mark.parametrize(
    ("shards", "kilobytes"), [(1, 2), (64, 3), (1024, 15)], ids=["one", "many", "as many as can be"]
)
def test_shards_take_little_room(shards: int, kilobytes: int) -> None:
    numbers = Shards(histories="f" * 32, max_seq_nos=[10**9 + n for n in range(shards)])
    document = make_state_after_export().with_intent(make_changelog(), now=NOW)
    document = document.advance(make_applied(2, "78"), shards=numbers, now=NOW)
    assert len(json.dumps(document.to_source())) < kilobytes * 1024


@pytest.mark.parametrize("sample", ["é" * 500, "𝄞" * 500])
def test_the_document_is_bounded_whatever_is_put_into_it(sample: str) -> None:
    alias = "o" * MAX_INDEX_BYTES
    source = SourceTable(table="t" * MAX_TABLE_NAME, uuid="u" * 36, branch="b" * 256)
    document = make_swapping().model_copy(update={"alias": alias, "source": source})
    previous = [f"{alias}-{number:06d}" for number in range(20)]
    document = document.with_previous(previous, now=NOW)
    numbers = Shards(histories="f" * 32, max_seq_nos=[2**63 - 1] * 1024)
    document = document.advance(make_applied(), shards=numbers, now=NOW)
    document = document.with_duplicates(10**9, [sample] * 100, now=NOW)
    record = document.retain_served("x" * 2000, now=NOW).retained[0]
    document = document.model_copy(update={"retained": [record] * MAX_RETAINED_INDICES})
    assert document.duplicates is not None
    assert (len(document.duplicates.samples), len(document.duplicates.samples[0])) == (20, 128)
    nodes, absent = ({f"{kind}{n:063d}": 2**53 - 1 for n in range(200)} for kind in "na")
    document = document.with_intent(make_changelog(), now=NOW).with_nodes(nodes, absent, now=NOW)
    # Bug if it is too large: the table would be stalled until its cluster is smaller.
    document.to_source()


def test_a_document_beyond_its_bound_is_refused_before_it_is_stored() -> None:
    numbers = Shards(histories="f" * 32, max_seq_nos=[2**63 - 1] * 4096)
    document = make_state_after_export().model_copy(update={"shards": numbers})
    with pytest.raises(Bug, match="limit 73728"):
        document.to_source()


def test_versions_of_later_batches_outrank_a_million_edits() -> None:
    assert compute_base_version(2) - compute_base_version(1) > 1_000_000
