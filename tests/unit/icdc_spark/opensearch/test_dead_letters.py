"""What may be shown of why a row was refused."""

import pytest

from icdc_api.errors import DeadLetterLimit
from icdc_api.spec.sink import DeadLetterPolicy
from icdc_spark.opensearch.bulk.dead_letter_writer import DeadLetterWriter
from icdc_spark.opensearch.bulk.delivery import Delivery, RefusedOperation
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.wire.item_outcome import FIELD_FAILED, ItemAnswer
from icdc_spark.opensearch.wire.operations import (
    CREATE,
    Operations,
    build_index_entry,
    build_operations,
)
from icdc_spark.opensearch.wire.refusal_reasons import without_values
from icdc_testing.target.sink_cases import make_target

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "failed to parse field [v] of type [long] in document with id 'a'. Preview of field's "
            "value: 'secret'",
            "failed to parse field [v] of type [long]",
        ),
        (
            "mapping set to strict, dynamic introduction of [other] within [_doc] is not allowed",
            "mapping set to strict, dynamic introduction of [other] within [_doc]",
        ),
        (
            'Document contains at least one immense term in field="s" (whose UTF8 encoding is '
            "longer than the max length 32766), all of which were skipped. prefix: '[115, 101]'",
            'Document contains at least one immense term in field="s"',
        ),
        ("object mapping for [a] tried to parse field [b] as object, but found secret",
         "object mapping for [a] tried to parse field [b]"),
        ("Limit of total fields [1000] has been exceeded", "Limit of total fields [1000]"),
        (
            "the expression of the field `a` fails on this row",
            "the expression of the field `a` fails on this row",
        ),
        ("failed to parse date field [secret] with format [x]", ""),
        ("Value [1e400] is out of range for a long", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_reason_is_shown_up_to_where_it_quotes_a_value(reason: str, shown: str) -> None:
    assert without_values(reason) == shown


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            ItemAnswer(400, FIELD_FAILED, "the expression of the field `a` fails on this row"),
            'shop.orders cannot make document "1" (the expression of the field `a` fails on this '
            "row), and deadLetters.policy is Stop. Correct the row or the field, or set the policy "
            "to Index.",
        ),
        (
            ItemAnswer(400, "mapper_parsing_exception", "found secret"),
            "Index 'orders-000001' refused document \"1\" (mapper_parsing_exception), and "
            "deadLetters.policy is Stop. Correct the row or the mapping, or set the policy to "
            "Index.",
        ),
    ],
)
def test_where_none_is_allowed_the_error_says_whose_fault_a_refused_row_is(
    answer: ItemAnswer, words: str
) -> None:
    def deliver(index: str, operations: Operations, result: PartitionResult) -> Delivery:
        pytest.fail("nothing is sent")

    aim = make_target("http://nowhere", dead_letter_policy=DeadLetterPolicy.STOP)
    writer = DeadLetterWriter(aim, deliver)
    operation = build_operations([build_index_entry("1", 1, b"{}")], CREATE)
    with pytest.raises(DeadLetterLimit) as caught:
        writer.store([RefusedOperation(operation, answer)], PartitionResult())
    assert caught.value.message == words
