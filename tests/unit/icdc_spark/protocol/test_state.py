"""The rules of the state document: what may follow what."""

from collections.abc import Callable

import pytest

from icdc_api.errors import AliasTaken, Bug, Fenced
from icdc_spark.protocol.state_document import (
    Applied,
    IntentPhase,
    Owner,
    Shards,
    SourceTable,
    StateDocument,
    Totals,
)
from icdc_testing.target.state_documents import (
    LATER,
    NOW,
    SHARDS,
    make_applied,
    make_changelog,
    make_empty,
    make_export,
    make_exporting,
    make_state_after_export,
    make_swapping,
)

pytestmark = pytest.mark.unit


def test_an_export_goes_from_intent_through_chunks_and_swap_to_applied() -> None:
    document = make_state_after_export()
    assert (document.index, document.index_uuid) == ("orders-000001", "uuid of orders-000001")
    assert (document.applied, document.intent, document.last_ordinal) == (make_applied(), None, 1)
    assert document.totals == Totals(upserted=15)
    intent = make_swapping().intent
    assert intent is not None
    assert (intent.rows, intent.chunks_done, intent.phase) == (15, 2, IntentPhase.SWAPPING)


def test_a_changelog_advances_the_applied_snapshot_and_the_totals() -> None:
    document = make_state_after_export().with_intent(make_changelog(), now=NOW)
    batch = Totals(upserted=3, deleted=2, dead_letters=1)
    after = document.advance(make_applied(2, "78"), now=LATER, batch=batch)
    assert after.applied == make_applied(2, "78")
    assert after.totals == Totals(upserted=18, deleted=2, dead_letters=1)
    assert (after.index, after.previous_indices) == ("orders-000001", [])
    assert after.updated_at == LATER


def test_how_far_the_shards_had_come_is_that_of_the_last_advance() -> None:
    document = make_state_after_export()
    assert document.shards == SHARDS
    document = document.with_intent(make_changelog(), now=NOW)
    assert document.shards == SHARDS
    later = Shards(histories="abc", max_seq_nos=[20, 3])
    assert document.advance(make_applied(2, "78"), now=NOW).shards == SHARDS
    document = document.advance(make_applied(2, "78"), shards=later, now=NOW)
    assert document.shards == later
    # An export ends with another index; a document of old and new numbers would be twice as long.
    document = document.with_intent(make_export(3, "orders-000002"), now=NOW)
    assert document.shards is None


def test_an_upgraded_document_gets_its_shards_once_and_never_while_a_batch_is_open() -> None:
    upgraded = make_state_after_export().model_copy(update={"shards": None, "store_history": None})
    document = upgraded.record_shards(SHARDS, "icdc-state of now", now=LATER)
    assert (document.shards, document.store_history) == (SHARDS, "icdc-state of now")
    assert (document.applied, document.updated_at) == (make_applied(), LATER)
    assert upgraded.record_shards(SHARDS, "", now=LATER).store_history is None
    for later in (document, upgraded.with_intent(make_changelog(), now=NOW)):
        with pytest.raises(Bug, match="shards are recorded already"):
            later.record_shards(SHARDS, "icdc-state of now", now=LATER)


def test_a_second_export_keeps_the_old_index_in_the_history() -> None:
    document = make_state_after_export().with_intent(make_export(2, "orders-000002", "80"), now=NOW)
    assert document.index == "orders-000001"
    for chunk in (0, 1):
        document = document.complete_chunk(chunk, rows=1, now=NOW)
    new_source = SourceTable(table="shop.orders", uuid="t-2", branch="main")
    document = document.begin_swap(now=NOW).advance(
        make_applied(2, "80"), now=NOW, source=new_source, document_spec="def"
    )
    assert (document.index, document.previous_indices) == ("orders-000002", ["orders-000001"])
    assert (document.source, document.document_spec) == (new_source, "def")
    assert document.without_previous("orders-000001", now=NOW).previous_indices == []


def test_the_history_of_indices_is_bounded() -> None:
    document = make_state_after_export()
    for number in range(2, 20):
        intent = make_export(number, f"orders-{number:06d}").model_copy(update={"chunks_total": 0})
        document = document.with_intent(intent, now=NOW).begin_swap(now=NOW)
        document = document.advance(make_applied(number), now=NOW)
    assert document.previous_indices == [f"orders-{number:06d}" for number in range(9, 19)]


def test_what_readers_used_is_remembered_whatever_was_forgotten() -> None:
    serving = ["orders-000002", "orders-000003"]
    document = make_state_after_export().with_previous(["orders-000001", *serving], now=NOW)
    assert document.previous_indices == serving
    document = document.with_intent(make_export(2, "orders-000005"), now=NOW)
    assert document.last_number == 5
    for chunk in (0, 1):
        document = document.complete_chunk(chunk, rows=1, now=NOW)
    document = document.begin_swap(now=NOW).advance(make_applied(2), now=NOW)
    # The newest of them is the last, whichever this document knew.
    assert document.previous_indices == ["orders-000001", *serving]


@pytest.mark.parametrize(
    ("document", "number"),
    [
        (make_empty(), 0),
        (make_exporting(index="orders-000007"), 7),
        (make_state_after_export(), 1),
        (make_state_after_export().with_previous(["orders-000012", "orders-old"], now=NOW), 12),
    ],
)
def test_the_greatest_number_of_an_index_is_known(document: StateDocument, number: int) -> None:
    assert document.last_number == number


def test_the_same_work_again_is_a_replay_and_keeps_the_progress() -> None:
    document = make_exporting().complete_chunk(0, rows=10, now=NOW)
    assert document.with_intent(make_export(), now=LATER) == document


def test_a_table_without_a_snapshot_is_exported_and_followed() -> None:
    document = make_exporting(to=None)
    for chunk in (0, 1):
        document = document.complete_chunk(chunk, rows=0, now=NOW)
    nothing = Applied(snapshot_id=None, sequence_number=0, committed_at=None, ordinal=1)
    document = document.begin_swap(now=NOW).advance(nothing, now=NOW)
    assert document.with_intent(make_changelog(from_=None), now=NOW).intent is not None


@pytest.mark.parametrize(
    ("step", "message"),
    [
        pytest.param(
            lambda: make_exporting().with_intent(make_export(2), now=NOW),
            "another intent is still open",
            id="an intent over an open one",
        ),
        pytest.param(
            lambda: make_state_after_export().with_intent(make_changelog(1), now=NOW),
            "ordinal 1 was used",
            id="an ordinal again",
        ),
        pytest.param(
            lambda: make_exporting().abandon(now=NOW).with_intent(make_export(1), now=NOW),
            "ordinal 1 was used",
            id="the ordinal of an abandoned intent",
        ),
        pytest.param(
            lambda: make_empty().with_intent(make_changelog(1), now=NOW),
            "nothing was exported yet",
            id="a changelog before the export",
        ),
        pytest.param(
            lambda: make_state_after_export().with_intent(make_changelog(from_="76"), now=NOW),
            "does not start at the applied state",
            id="a changelog from elsewhere",
        ),
        pytest.param(
            lambda: make_state_after_export().with_intent(
                make_changelog().model_copy(update={"index_uuid": "other"}), now=NOW
            ),
            "names another index",
            id="a changelog of another index",
        ),
        pytest.param(
            lambda: make_empty().with_intent(
                make_export().model_copy(update={"phase": IntentPhase.SWAPPING}), now=NOW
            ),
            "has progress already",
            id="an intent with progress",
        ),
        pytest.param(
            lambda: make_exporting().complete_chunk(1, rows=1, now=NOW),
            "chunk 1 is not the next one",
            id="a chunk left out",
        ),
        pytest.param(
            lambda: (
                make_exporting()
                .complete_chunk(0, rows=1, now=NOW)
                .complete_chunk(0, rows=1, now=NOW)
            ),
            "chunk 0 is not the next one",
            id="a chunk twice",
        ),
        pytest.param(
            lambda: make_swapping().complete_chunk(2, rows=1, now=NOW),
            "past writing",
            id="a chunk while swapping",
        ),
        pytest.param(
            lambda: make_exporting().begin_swap(now=NOW),
            "chunks are missing",
            id="swapping too early",
        ),
        pytest.param(
            lambda: (
                make_state_after_export().with_intent(make_changelog(), now=NOW).begin_swap(now=NOW)
            ),
            "only an export",
            id="swapping for a changelog",
        ),
        pytest.param(
            lambda: make_exporting().advance(make_applied(), now=NOW),
            "the alias was not moved",
            id="advancing before the swap",
        ),
        pytest.param(
            lambda: make_swapping().advance(make_applied(snapshot="78"), now=NOW),
            "not the intent's",
            id="advancing to another snapshot",
        ),
        pytest.param(
            lambda: make_state_after_export().advance(make_applied(), now=NOW),
            "no intent is open",
            id="advancing without an intent",
        ),
        pytest.param(
            lambda: make_empty().abandon(now=NOW), "no intent is open", id="abandoning nothing"
        ),
    ],
)
def test_a_step_out_of_turn_is_refused(step: Callable[[], StateDocument], message: str) -> None:
    with pytest.raises(Bug, match=message):
        step()


@pytest.mark.parametrize(
    ("pipeline", "epoch", "run", "error"),
    [
        ("default/shop", 5, "run-5", None),
        ("default/shop", 4, "run-4", None),
        ("default/shop", 4, "run-x", Fenced),
        ("default/shop", 3, "run-3", Fenced),
        ("other/shop", 9, "run-9", AliasTaken),
    ],
)
def test_only_a_newer_run_of_the_pipeline_takes_over(
    pipeline: str, epoch: int, run: str, error: type[Exception] | None
) -> None:
    owner = Owner(pipeline=pipeline, epoch=epoch, run_id=run)
    if error is None:
        assert make_exporting().claim(owner, now=LATER).owner == owner
        return
    with pytest.raises(error):
        make_exporting().claim(owner, now=LATER)
