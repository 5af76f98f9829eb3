"""What an ingest pipeline did beside adding fields is found in answers and in documents."""

import json
from typing import Any

import pytest

from icdc_api.errors import TargetInvalid
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.stores.read_back import find_changed
from icdc_spark.opensearch.wire.item_outcome import ItemAnswer
from icdc_spark.opensearch.wire.operations import build_index_entry, build_operations
from icdc_spark.opensearch.wire.pipeline_faults import find_moved, refuse_pipeline_fault

pytestmark = pytest.mark.unit

SENT = build_operations([build_index_entry(str(key), 64, b"{}") for key in range(3)], b"ccc")
GOOD = {"_index": "orders-1", "_version": 64}


@pytest.mark.parametrize(
    ("last", "fault"),
    [
        ({"_id": "2", **GOOD}, ""),
        ({"_id": "2", **GOOD, "_index": "elsewhere"}, "it changed _index of a document"),
        ({"_id": "2", **GOOD, "_version": 65}, "it changed _version of a document"),
        ({"_id": "7", **GOOD}, "it changed _id of a document"),
        ({}, "it changed _index of a document"),
    ],
)
def test_each_document_that_was_written_is_compared_with_its_request(
    last: dict[str, Any], fault: str
) -> None:
    items = [{}, {"_id": "0", **GOOD}, {"_id": "other", **GOOD}, last]
    text = json.dumps({"items": [{"index": item} for item in items]})
    # The second was not written just now, so nothing is said of it.
    assert find_moved(text, SENT, [0, 2], index="orders-1", version=64) == fault


@pytest.mark.parametrize(
    ("stored", "fault"),
    [
        ({"_source": {"a": 1, "b": {"c": "x"}, "vector": [1.5]}}, ""),
        ({"_source": {"b": {"c": "x"}, "a": 1}}, ""),
        ({"_source": {"a": 2, "b": {"c": "x"}}}, "the field `a`"),
        ({"_source": {"a": 1, "b": {"c": "y"}}}, "the field `b`"),
        ({"_source": {"a": 1}}, "the field `b`"),
        ({"_source": {"a": 1, "b": {"c": "x"}, "secret": 1}}, "the set of fields"),
        ({"_source": {"a": 1, "b": {"c": "x"}}, "_routing": "z"}, "_routing"),
    ],
)
def test_a_document_that_is_read_back_may_have_what_is_added_and_nothing_else(
    stored: dict[str, Any], fault: str
) -> None:
    sent = b'{"a": 1, "b": {"c": "x"}}'
    assert find_changed({"_id": "1"}, sent, stored, frozenset({"vector"})) == fault


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        ("index_not_found_exception", "no such index [elsewhere]", "an index that does not exist"),
        ("index_not_found_exception", "no such index [orders-1]", None),
        (
            "strict_dynamic_mapping_exception",
            "mapping set to strict, dynamic introduction of [jane] within [_doc] is not allowed",
            "it added a field that has no mapping. ",
        ),
        ("mapper_parsing_exception", "failed to parse", None),
    ],
)
def test_an_item_that_failed_for_the_pipeline_is_no_fault_of_row_or_index(
    kind: str, reason: str, words: str | None
) -> None:
    answer = ItemAnswer(404, kind, reason)
    if words is None:
        refuse_pipeline_fault(answer, index="orders-1", name="embed")
        return
    with pytest.raises(TargetInvalid) as caught:
        refuse_pipeline_fault(answer, index="orders-1", name="embed")
    assert words in caught.value.message
    assert "jane" not in caught.value.message


def test_one_changed_document_of_many_partitions_is_remembered() -> None:
    total = PartitionResult()
    for altered in (False, True, False):
        total.merge(PartitionResult.from_json(PartitionResult(altered=altered).to_json()))
    assert (total.altered, total.ambiguous) == (True, False)
