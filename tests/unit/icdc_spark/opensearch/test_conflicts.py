"""Which answers to an item end the batch, and which leave a document as it is."""

import pytest

from icdc_api.errors import Fenced, TargetInvalid
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.wire.item_outcome import (
    DROPPED,
    ItemAnswer,
    ItemOutcome,
    judge,
    judge_conflict,
)
from icdc_spark.protocol.state_document import FIXUP_OFFSET, compute_base_version

pytestmark = pytest.mark.unit

FIRST = compute_base_version(3)
SECOND = FIRST + FIXUP_OFFSET
NEXT = compute_base_version(4)


@pytest.mark.parametrize(
    ("ours", "current", "foreign", "outcome"),
    [
        pytest.param(FIRST, FIRST, False, ItemOutcome.ALREADY_APPLIED, id="a replay"),
        pytest.param(
            FIRST,
            SECOND,
            False,
            ItemOutcome.SETTLED,
            id="a replay, settled by the second pass",
        ),
        pytest.param(
            SECOND, FIRST, False, ItemOutcome.FOREIGN_EDIT, id="the second pass finds the first"
        ),
        pytest.param(FIRST, FIRST + 1, False, ItemOutcome.FOREIGN_EDIT, id="an edit"),
        pytest.param(FIRST, NEXT - 1, False, ItemOutcome.FOREIGN_EDIT, id="a million edits"),
        pytest.param(FIRST, NEXT, False, Fenced, id="a newer batch"),
        pytest.param(FIRST, NEXT + 7, False, Fenced, id="an edit of a newer batch"),
        pytest.param(FIRST, NEXT, True, Fenced, id="a batch of ours that was forgotten"),
        pytest.param(
            FIRST, NEXT + 7, True, ItemOutcome.FOREIGN_EDIT, id="no run is newer, so it is foreign"
        ),
    ],
)
def test_a_conflict_is_judged_by_the_versions(
    ours: int, current: int, foreign: bool, outcome: ItemOutcome | type[Fenced]
) -> None:
    if isinstance(outcome, ItemOutcome):
        assert judge_conflict(current, ours, outranked_is_foreign=foreign) is outcome
        return
    with pytest.raises(outcome):
        judge_conflict(current, ours, outranked_is_foreign=foreign)


@pytest.mark.parametrize(
    "answer",
    [
        ItemAnswer(200, DROPPED),
        ItemAnswer(400, "routing_missing_exception"),
        ItemAnswer(400, "strict_dynamic_mapping_exception"),
        ItemAnswer(400, "illegal_argument_exception", "pipeline with id [gone] does not exist"),
        ItemAnswer(400, "illegal_argument_exception", "Limit of total fields [10] has been"),
        ItemAnswer(
            400,
            "illegal_argument_exception",
            "Number of documents in shard [[orders][0]] exceeds the limit of [2147483519] "
            "documents per shard",
        ),
        ItemAnswer(404, "unknown_exception"),
    ],
)
def test_an_answer_that_no_row_can_cause_stops_the_batch(answer: ItemAnswer) -> None:
    here = Connection(hosts=("http://search:9200",))
    is_full = answer.reason.startswith("Number of documents")
    advice = "Raise indexSettings.number_of_shards, then" if is_full else "Undo the change of its"
    with pytest.raises(TargetInvalid, match=rf"Nothing was removed\. {advice} .*nonce"):
        judge(answer, expect=b"u", version=FIRST, connection=here)
