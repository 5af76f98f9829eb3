"""What the state document has of earlier indices, and of a rollback to one of them."""

import pytest

from icdc_api.errors import Bug
from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import StateDocument
from icdc_testing.target.replaced_indices import (
    FIRST,
    LEFT,
    SECOND,
    SPOILT,
    THIRD,
    THREE,
    TWO,
    begin_export,
    describe,
    follow,
    make_later,
    replace_index,
    roll_back,
)
from icdc_testing.target.state_documents import (
    NOW,
    make_changelog,
    make_empty,
    make_export,
    make_state_after_export,
)
from icdc_testing.target.step_cases import RESYNC, ROLLBACK

pytestmark = pytest.mark.unit


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
        (begin_export(make_state_after_export(), 2), FIRST, [FIRST]),
        (roll_back(begin_export(TWO, 3)), SECOND, [FIRST]),
        (roll_back(begin_export(begin_export(TWO, 3), 4)), SECOND, [FIRST]),
        # What cannot be used again is passed over.
        (roll_back(SPOILT), FIRST, [SECOND, THIRD]),
        (roll_back(begin_export(TWO, 3, loss="it was restored")), FIRST, [SECOND]),
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
        # What cannot be used again makes room for what can be, whatever is known of it.
        (SPOILT, 1, [SECOND]),
        (replace_index(TWO.model_copy(update={"absent_nodes": [LEFT]}), 3), 1, [SECOND]),
        (replace_index(THREE, 4, loss="it was restored"), 2, [THIRD]),
    ],
)
def test_what_readers_used_least_recently_is_removed_first(
    document: StateDocument, limit: int, surplus: list[str]
) -> None:
    assert document.list_surplus(limit) == surplus


def test_a_number_that_was_left_is_never_used_again() -> None:
    document = roll_back(begin_export(TWO, 3))
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
    left = (
        TWO.with_intent(make_later(3), now=NOW).with_nodes({}, {"a": 1}, now=NOW).abandon(now=NOW)
    )
    after = roll_back(left)
    assert (after.absent_nodes, after.intent) == ([], None)
    # But they do if readers shall have that index again.
    assert "a node that left the cluster" in (after.retained[-1].problem or "")


def test_a_fault_of_a_batch_is_a_problem_of_its_index_alone() -> None:
    fault = TWO.with_fault("a write is lost", now=NOW)
    assert fault.with_intent(make_export(3, THIRD), now=NOW).fault is None
    assert roll_back(fault).fault is None
    # It is why an open export is begun anew, and says nothing of the index that is served.
    after = roll_back(begin_export(TWO, 3).with_fault("a write is lost", now=NOW))
    assert (describe(after), after.fault) == ((SECOND, [FIRST]), None)


@pytest.mark.parametrize(
    ("document", "is_rolled_back", "is_switching"),
    [
        (TWO, False, False),
        (TWO.with_intent(make_later(3), now=NOW).abandon(now=NOW), False, False),
        (roll_back(TWO, number=9), True, True),
        (roll_back(TWO, number=9).with_intent(make_changelog(3), now=NOW), True, False),
        # Changes of more than one batch are followed to their end.
        (follow(roll_back(TWO, number=9), number=8), True, False),
        (follow(roll_back(TWO, number=9), number=9), False, False),
        # In format 1 there are no numbers.
        (roll_back(TWO, number=0), True, True),
        (follow(roll_back(TWO, number=0), number=0), False, False),
        (roll_back(begin_export(TWO, 3), number=3), True, True),
        (replace_index(roll_back(TWO, number=9), 3), False, False),
    ],
)
def test_a_rollback_lasts_until_its_changes_are_applied_again(
    document: StateDocument, is_rolled_back: bool, is_switching: bool
) -> None:
    assert (document.is_rolled_back, document.is_switching) == (is_rolled_back, is_switching)


@pytest.mark.parametrize(
    ("policies", "document", "is_trusted", "ends"),
    [
        (RESYNC, TWO, True, True),
        (RESYNC, TWO.with_resync(1, None, now=NOW), True, False),
        (ROLLBACK, TWO, True, False),
        # Nothing is left that the request could be about.
        (ROLLBACK, TWO, False, True),
        (ROLLBACK, make_empty(), True, True),
        (ROLLBACK, TWO.with_resync(1, 77, now=NOW), False, False),
    ],
)
def test_an_export_ends_a_request(
    policies: Policies, document: StateDocument, is_trusted: bool, ends: bool
) -> None:
    assert policies.ends_with_export(document, is_trusted=is_trusted) == ends
