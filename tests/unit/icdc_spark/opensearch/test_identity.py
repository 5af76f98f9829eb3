"""What became of an index, from its UUID, the histories of its shards and their numbers."""

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_spark.opensearch.stores.identity import (
    Identity,
    count_lost_writes,
    find_loss,
    find_loss_since,
)
from icdc_spark.protocol.state_document import RetainedIndex, Shards
from icdc_testing.target.state_documents import make_applied, make_state_after_export

pytestmark = pytest.mark.unit

INDEX = "orders-000001"
RECORDED = Shards(histories="ab", max_seq_nos=[17, 12])


def make_identity(*numbers: int, uuid: str = "u", histories: str = "ab") -> Identity:
    return Identity(uuid, Shards(histories=histories, max_seq_nos=list(numbers)), "s")


CASES: dict[str, tuple[Identity | None, Shards | None, str | None]] = {
    "nothing was written": (make_identity(17, 12), RECORDED, None),
    "somebody wrote": (make_identity(20, 12), RECORDED, None),
    "an older version recorded no shards": (make_identity(0, 0, histories="xy"), None, None),
    "the last shard had no copy when it was recorded": (
        make_identity(17, 12, 5, histories="abc"),
        RECORDED,
        None,
    ),
    "it is gone": (None, RECORDED, f"the index {INDEX} no longer exists"),
    "it is another one": (
        make_identity(17, 12, uuid="v"),
        None,
        f"the index {INDEX} was re-created (its UUID changed)",
    ),
    "a history is new, however far it has come": (
        make_identity(99, 99, histories="ac"),
        RECORDED,
        f"the index {INDEX} was restored, or shards of it were allocated by force",
    ),
    "a translog was lost": (
        make_identity(17, 11),
        RECORDED,
        f"shard 1 of the index {INDEX} lost writes that it had acknowledged",
    ),
    "a shard is empty": (
        make_identity(-1, 12),
        RECORDED,
        f"shard 0 of the index {INDEX} lost writes that it had acknowledged",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_loss_is_said_in_words(case: str) -> None:
    now, recorded, loss = CASES[case]
    assert find_loss(INDEX, now, "u", recorded) == loss


RETAINED = RetainedIndex(
    index=INDEX,
    index_uuid="u",
    histories="ab",
    operations=RECORDED.operations,
    source=make_state_after_export().source,
    document_spec="abc",
    applied=make_applied(1, "77"),
    duplicates=0,
)


@pytest.mark.parametrize(
    ("now", "loss"),
    [
        (make_identity(17, 12), None),
        (make_identity(20, 12), None),
        (None, "no longer exists"),
        (make_identity(17, 12, uuid="v"), "was re-created"),
        (make_identity(99, 99, histories="ac"), "was restored, or shards of it were"),
        (make_identity(17, 11), f"the index {INDEX} lost writes that it had acknowledged"),
    ],
)
def test_an_earlier_index_is_as_it_was_left_or_not(now: Identity | None, loss: str | None) -> None:
    found = find_loss_since(RETAINED, now)
    assert (found is None) if loss is None else (loss in (found or ""))


@pytest.mark.parametrize(
    ("now", "recorded", "acknowledged", "lost"),
    [
        pytest.param((20, 14), RECORDED, 5, 0, id="as many as were acknowledged"),
        pytest.param((20, 99), RECORDED, 5, 0, id="and those of somebody else"),
        pytest.param((20, 12), RECORDED, 5, 2, id="fewer"),
        pytest.param((17, 12), RECORDED, 0, 0, id="none were written"),
        pytest.param((20,), RECORDED, 9, 0, id="other shards than were recorded"),
        pytest.param((20, 12), None, 9, 0, id="none were recorded"),
    ],
)
def test_lost_writes_are_those_that_took_no_number(
    now: tuple[int, ...], recorded: Shards | None, acknowledged: int, lost: int
) -> None:
    shards = Shards(histories="ab", max_seq_nos=list(now))
    assert count_lost_writes(shards, recorded, acknowledged) == lost


def test_an_answer_of_part_of_the_shards_is_no_loss() -> None:
    with pytest.raises(TargetUnavailable, match="primary shards that are not started"):
        find_loss(INDEX, make_identity(17, histories="a"), "u", RECORDED)
