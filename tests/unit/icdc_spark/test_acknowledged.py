"""How many sequence numbers an index must have taken for a batch: never more than it took."""

import pytest

from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.opensearch.wire.item_outcome import ItemOutcome
from icdc_spark.replication.changelog import WriteResult
from icdc_spark.replication.duplicates import NO_DUPLICATES, DuplicateSummary

pytestmark = pytest.mark.unit

TRIPLET = DuplicateSummary(count=1, samples=["a"], surplus=2)
"""One key in three rows."""


@pytest.mark.parametrize(
    ("result", "duplicates", "is_repeated", "numbers"),
    [
        pytest.param(
            BatchResult(upserted=3, deleted=2, removed=1), NO_DUPLICATES, False, 6, id="written"
        ),
        pytest.param(
            BatchResult(upserted=3, dead_letters=2), NO_DUPLICATES, False, 3, id="some refused"
        ),
        pytest.param(
            # Of a row of the same key, or of a request whose answer was lost.
            BatchResult(upserted=3, already_applied=2),
            TRIPLET,
            False,
            3,
            id="three rows of one key",
        ),
        pytest.param(
            BatchResult(upserted=3, already_applied=4),
            NO_DUPLICATES,
            True,
            7,
            id="repeated after some were written",
        ),
        pytest.param(
            BatchResult(upserted=1, already_applied=5),
            TRIPLET,
            True,
            4,
            id="repeated with three rows of one key",
        ),
        pytest.param(
            BatchResult(already_applied=4, settled=3),
            NO_DUPLICATES,
            True,
            1,
            id="repeated after the second pass",
        ),
    ],
)
def test_each_operation_that_is_counted_took_a_sequence_number(
    result: BatchResult, duplicates: DuplicateSummary, is_repeated: bool, numbers: int
) -> None:
    written = WriteResult(result=result, duplicates=duplicates, is_repeated=is_repeated)
    assert written.acknowledged == numbers


def test_what_a_second_pass_followed_is_counted_apart() -> None:
    result = PartitionResult()
    for outcome in (ItemOutcome.ALREADY_APPLIED, ItemOutcome.SETTLED, ItemOutcome.ALREADY_APPLIED):
        result.count_repeated(outcome)
    assert (result.already_applied, result.settled) == (3, 1)
