"""How many sequence numbers an index must have taken for a batch."""

import pytest

from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.opensearch.wire.item_outcome import ItemOutcome

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("result", "numbers"),
    [
        pytest.param(BatchResult(upserted=3, deleted=2, removed=1), 6, id="applied just now"),
        pytest.param(BatchResult(upserted=3, already_applied=4), 7, id="and by an earlier attempt"),
        pytest.param(BatchResult(already_applied=4, settled=1), 3, id="one by its second pass"),
        pytest.param(BatchResult(dead_letters=2, requests=9), 0, id="rows that were refused"),
    ],
)
def test_each_operation_that_an_index_applied_took_a_sequence_number(
    result: BatchResult, numbers: int
) -> None:
    assert result.acknowledged == numbers


def test_what_a_second_pass_settled_is_counted_apart() -> None:
    result = PartitionResult()
    for outcome in (ItemOutcome.ALREADY_APPLIED, ItemOutcome.SETTLED, ItemOutcome.ALREADY_APPLIED):
        result.count_repeated(outcome)
    assert (result.already_applied, result.settled) == (3, 1)
