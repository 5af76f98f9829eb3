"""Readers are switched back: when, to which index, and what the state document has of it then."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.errors import Bug, RollbackRefused, SourceUnavailable
from icdc_spark.protocol.export_wait import choose_meanwhile
from icdc_spark.protocol.next_step import Step, StepInputs, StepKind, choose_step
from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import Shards, StateDocument
from icdc_testing.target.state_documents import (
    NOW,
    SHARDS,
    make_applied,
    make_changelog,
    make_export,
    make_state_after_export,
    make_swapping,
)
from icdc_testing.target.step_cases import CHANGED, INDEX_MISSING, OLDER, ROLLBACK, make_view

pytestmark = pytest.mark.unit

FIRST, SECOND, THIRD = (f"orders-{number:06d}" for number in (1, 2, 3))
LATER_SHARDS = Shards(histories="abc", max_seq_nos=[20, 3])


def begin(document: StateDocument, number: int, *, loss: str | None = None) -> StateDocument:
    """Return the document with an export into the index of that number open."""
    document = document.retain_served(loss, now=NOW)
    if document.intent is not None:
        document = document.abandon(now=NOW)
    ordinal = document.last_ordinal + 1
    return document.with_intent(make_export(ordinal, f"orders-{number:06d}", "80"), now=NOW)


def complete(document: StateDocument) -> StateDocument:
    """Return the document once its export is written, and its alias may move."""
    for chunk in (0, 1):
        document = document.complete_chunk(chunk, rows=1, now=NOW)
    return document.begin_swap(shards=LATER_SHARDS, now=NOW)


def replace_index(
    document: StateDocument, number: int, *, loss: str | None = None
) -> StateDocument:
    """Return the document after an export into the index of that number."""
    document = complete(begin(document, number, loss=loss))
    return document.advance(make_applied(document.last_ordinal, "80"), now=NOW)


def roll_back(document: StateDocument) -> StateDocument:
    return document.roll_back(SHARDS, None, now=NOW)


def describe(document: StateDocument) -> tuple[str | None, list[str]]:
    return document.index, [record.index for record in document.retained]


TWO = replace_index(make_state_after_export(), 2)
THREE = replace_index(TWO, 3)


def test_a_rollback_gives_the_index_back_with_all_that_was_known_of_it() -> None:
    before = make_state_after_export().with_duplicates(2, ["7", "8"], now=NOW)
    after = roll_back(replace_index(before, 2))
    for field in ("index", "index_uuid", "shards", "applied", "source", "document_spec"):
        assert getattr(after, field) == getattr(before, field), field
    assert after.duplicates is not None
    assert after.duplicates.count == 2
    assert (after.last_ordinal, after.last_number) == (2, 2)
    assert after.with_intent(make_changelog(3), now=NOW).intent is not None
    assert StateDocument.parse("orders", after.to_source()) == after


@pytest.mark.parametrize(
    ("document", "served", "retained"),
    [
        (make_state_after_export(), FIRST, []),
        (TWO, SECOND, [FIRST]),
        (roll_back(TWO), FIRST, [SECOND]),
        (roll_back(roll_back(TWO)), SECOND, [FIRST]),
        (THREE, THIRD, [FIRST, SECOND]),
        (roll_back(THREE), SECOND, [FIRST, THIRD]),
        # The index that was served last is the next one, whatever its number.
        (replace_index(roll_back(TWO), 3), THIRD, [SECOND, FIRST]),
        # An open export is ended, and what it would have replaced is served on.
        (begin(make_state_after_export(), 2), FIRST, [FIRST]),
        (roll_back(begin(TWO, 3)), SECOND, [FIRST]),
        (roll_back(begin(begin(TWO, 3), 4)), SECOND, [FIRST]),
    ],
)
def test_the_index_that_readers_used_last_is_the_next_one(
    document: StateDocument, served: str, retained: list[str]
) -> None:
    assert describe(document) == (served, retained)


@pytest.mark.parametrize(
    ("document", "limit", "surplus"),
    [
        (THREE, 0, [FIRST, SECOND]),
        (THREE, 1, [FIRST]),
        (THREE, 2, []),
        (roll_back(THREE), 1, [FIRST]),
        (replace_index(roll_back(TWO), 3), 1, [SECOND]),
        # Without records, as of an older version: by number.
        (TWO.model_copy(update={"retained": []}).with_previous([THIRD], now=NOW), 1, [FIRST]),
        # What cannot be used again makes room for what can be.
        (replace_index(TWO, 3, loss="it was deleted"), 1, [SECOND]),
    ],
)
def test_what_readers_used_least_recently_is_removed_first(
    document: StateDocument, limit: int, surplus: list[str]
) -> None:
    assert document.list_surplus(limit) == surplus


def test_a_number_that_was_left_is_never_used_again() -> None:
    document = roll_back(begin(TWO, 3))
    assert document.last_number == 3
    assert (
        roll_back(replace_index(document, 4)).without_previous("orders-000004", now=NOW).last_number
        == 4
    )


@pytest.mark.parametrize(
    ("document", "loss", "problem"),
    [
        (make_state_after_export(), None, None),
        (make_state_after_export(), "it was deleted", "it was deleted"),
        (
            make_state_after_export().with_intent(make_changelog(), now=NOW),
            None,
            "a batch was under way",
        ),
        (
            make_state_after_export()
            .with_intent(make_changelog(), now=NOW)
            .with_nodes({}, {"a": 1}, now=NOW)
            .abandon(now=NOW),
            None,
            "a node that left the cluster",
        ),
        (make_state_after_export().model_copy(update={"shards": None}), None, "an earlier version"),
    ],
)
def test_an_index_that_does_not_equal_its_snapshot_is_never_served_again(
    document: StateDocument, loss: str | None, problem: str | None
) -> None:
    left = replace_index(document, 2, loss=loss)
    (record,) = left.retained
    if problem is None:
        assert record.problem is None
        return
    assert problem in (record.problem or "")
    with pytest.raises(Bug, match="cannot be switched back"):
        roll_back(left)


def test_records_of_a_document_that_was_restored_are_forgotten() -> None:
    document = TWO.retain_served("restored from a copy", is_trusted=False, now=NOW)
    assert [(record.index, record.problem) for record in document.retained] == [
        (SECOND, "restored from a copy")
    ]
    # A record of the served index as well, which an export before the copy has made.
    again = TWO.retain_served(None, now=NOW).retain_served("restored", is_trusted=False, now=NOW)
    assert [record.problem for record in again.retained] == ["restored"]


def test_nodes_that_left_with_requests_for_the_other_index_do_not_matter_any_more() -> None:
    batch = make_changelog(3, from_="80").model_copy(
        update={"index": SECOND, "index_uuid": f"uuid of {SECOND}"}
    )
    left = TWO.with_intent(batch, now=NOW).with_nodes({}, {"a": 1}, now=NOW).abandon(now=NOW)
    after = roll_back(left)
    assert (after.absent_nodes, after.intent) == ([], None)
    # But they do if readers shall have that index again.
    assert "a node that left the cluster" in (after.retained[-1].problem or "")


def make_step(index: str) -> Step:
    return Step(kind=StepKind.ROLLBACK, reason=f"a rollback to {index} was requested")


NAMED = replace(ROLLBACK, is_named=True)


@pytest.mark.parametrize(
    ("document", "policies", "seen", "wanted"),
    [
        (TWO, ROLLBACK, {}, make_step(FIRST)),
        (TWO, NAMED, {}, make_step(FIRST)),
        # What is wrong with the index that is left may be why somebody asks.
        (TWO, ROLLBACK, CHANGED, make_step(FIRST)),
        (TWO, ROLLBACK, INDEX_MISSING, make_step(FIRST)),
        (TWO.with_intent(make_export(3, THIRD), now=NOW), ROLLBACK, {}, make_step(FIRST)),
        (begin(TWO, 3), ROLLBACK, {}, make_step(SECOND)),
        # Complete and intact it is served first, and left in the next step.
        (complete(begin(TWO, 3)), ROLLBACK, {}, StepKind.REPLAY),
        (complete(begin(TWO, 3)), ROLLBACK, INDEX_MISSING, make_step(SECOND)),
        # Once, and only where it is known that it was not made before.
        (TWO.with_resync(1, 77, now=NOW), ROLLBACK, {}, StepKind.CHANGELOG),
        (TWO, replace(ROLLBACK, resync_id=None), {}, StepKind.CHANGELOG),
        # No names are no order to all: a table that has nothing to go back to goes on.
        (make_state_after_export(), ROLLBACK, {}, "a rollback was requested, of other tables"),
        (make_swapping(), ROLLBACK, {}, StepKind.REPLAY),
    ],
)
def test_the_next_step_is(
    document: StateDocument, policies: Policies, seen: dict[str, Any], wanted: Step | StepKind | str
) -> None:
    inputs = build_inputs(document, seen)
    chosen = choose_step(inputs, policies)
    assert wanted in (chosen, chosen.kind, chosen.reason)
    # It writes no chunk of an export, so no window holds it up.
    assert choose_meanwhile(chosen, inputs, policies) == chosen


def build_inputs(document: StateDocument, seen: dict[str, Any]) -> StepInputs:
    readable = frozenset({"77", "80", "81"})
    return make_view(document, head="81", readable=readable, **seen)


@pytest.mark.parametrize(
    ("document", "policies", "refusal", "message"),
    [
        (TWO, ROLLBACK, "the spec asks for other documents", "index orders-000002: the spec asks"),
        (begin(TWO, 3), ROLLBACK, "it was restored", "stay on index orders-000002: it was res"),
        (
            make_state_after_export(),
            NAMED,
            None,
            "no earlier index of it is recorded (see sink",
        ),
    ],
)
def test_a_rollback_that_cannot_be_made_stalls_the_table_and_says_why(
    document: StateDocument, policies: Policies, refusal: str | None, message: str
) -> None:
    with pytest.raises(RollbackRefused) as raised:
        choose_step(build_inputs(document, {"rollback_refusal": refusal}), policies)
    assert message in raised.value.message
    assert raised.value.message.endswith("request of spec.resync replaces the rollback.")


def test_an_older_answer_of_the_catalog_is_waited_out_before() -> None:
    with pytest.raises(SourceUnavailable, match="metadata that is older"):
        choose_step(make_view(TWO, **OLDER), ROLLBACK)
