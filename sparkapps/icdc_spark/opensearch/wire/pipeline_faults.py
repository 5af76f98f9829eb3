"""Finds what an ingest pipeline did beside adding fields, in the answer to a bulk request.

A pipeline may set `_index`, `_id` and `_version` like any field. Example, version 64 of a document
of index orders-000001:

    answer                                                     found
    {"_index": "orders-000001", "_id": "7", "_version": 64}    nothing
    {"_index": "elsewhere", "_id": "7", "_version": 64}        _index
    {"_index": "orders-000001", "_id": "7", "_version": 65}    _version

What it did to the fields themselves is found by `read_back`.
"""

import json
from collections.abc import Iterable

from icdc_api.errors import TargetInvalid
from icdc_spark.opensearch.wire.item_outcome import STRICT_REASON, ItemAnswer
from icdc_spark.opensearch.wire.operations import Operations


def find_moved(
    text: str, sent: Operations, positions: Iterable[int], *, index: str, version: int
) -> str:
    """Return what a pipeline changed beside fields; empty where it changed nothing.

    `text` is the answer to the guard and `sent`; `positions` are of documents that were written.
    """
    # The first is the guard's.
    items = [next(iter(item.values())) for item in json.loads(text)["items"][1:]]
    for position in positions:
        item = items[position]
        wanted = {"_index": index, "_id": sent.get_document_id(position), "_version": version}
        for part, value in wanted.items():
            if item.get(part) != value:
                return f"it changed {part} of a document"
    return ""


def refuse_pipeline_fault(answer: ItemAnswer, *, index: str, name: str) -> None:
    """Raise TargetInvalid where an item failed for what the pipeline made of the document."""
    if answer.kind == "index_not_found_exception" and f"[{index}]" not in answer.reason:
        raise build_pipeline_fault(name, "it redirected a document to an index that does not exist")
    if answer.reason.startswith(STRICT_REASON):
        # Not quoted: the name of the field may come from the values of a row.
        raise build_pipeline_fault(name, "it added a field that has no mapping")


def build_pipeline_fault(name: str, what: str) -> TargetInvalid:
    """Return the error for a pipeline that does more than it may."""
    return TargetInvalid(
        f"The ingest pipeline {name!r} does more than to add fields: {what}. It may add those that "
        "sink.opensearch.pipeline.adds names, and change, drop or redirect nothing. Correct it; "
        "an index with documents that it changed is replaced by a new one, as changelog.onGap says."
    )
