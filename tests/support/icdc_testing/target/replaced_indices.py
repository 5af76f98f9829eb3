"""State documents of a table whose index was replaced, or whose readers were switched back."""

from icdc_spark.protocol.state_document import AbsentNode, Intent, Shards, StateDocument
from icdc_testing.target.state_documents import (
    NOW,
    SHARDS,
    make_applied,
    make_changelog,
    make_export,
    make_state_after_export,
)

FIRST, SECOND, THIRD = (f"orders-{number:06d}" for number in (1, 2, 3))
LEFT = AbsentNode(node="a", process=1, left_at=NOW)
LATER_SHARDS = Shards(histories="abc", max_seq_nos=[20, 3])


def begin_export(document: StateDocument, number: int, *, loss: str | None = None) -> StateDocument:
    """Return the document with an export into the index of that number open."""
    document = document.retain_served(loss, now=NOW)
    if document.intent is not None:
        document = document.abandon(now=NOW)
    ordinal = document.last_ordinal + 1
    return document.with_intent(make_export(ordinal, f"orders-{number:06d}", "80"), now=NOW)


def complete_export(document: StateDocument) -> StateDocument:
    """Return the document once its export is written, and its alias may move."""
    for chunk in (0, 1):
        document = document.complete_chunk(chunk, rows=1, now=NOW)
    return document.begin_swap(shards=LATER_SHARDS, now=NOW)


def replace_index(
    document: StateDocument, number: int, *, loss: str | None = None
) -> StateDocument:
    """Return the document after an export into the index of that number."""
    document = complete_export(begin_export(document, number, loss=loss))
    return document.advance(make_applied(document.last_ordinal, "80"), now=NOW)


def roll_back(document: StateDocument, *, number: int = 0) -> StateDocument:
    return document.roll_back(SHARDS, None, number=number, now=NOW)


def make_later(ordinal: int) -> Intent:
    """Return a batch on the second index."""
    index = {"index": SECOND, "index_uuid": f"uuid of {SECOND}"}
    return make_changelog(ordinal, from_="80").model_copy(update=index)


def follow(document: StateDocument, *, number: int) -> StateDocument:
    """Return the document after a batch up to the snapshot of that sequence number."""
    ordinal = document.last_ordinal + 1
    applied = make_applied(ordinal, "78").model_copy(update={"sequence_number": number})
    return document.with_intent(make_changelog(ordinal), now=NOW).advance(applied, now=NOW)


def describe(document: StateDocument) -> tuple[str | None, list[str]]:
    return document.index, [record.index for record in document.retained]


TWO = replace_index(make_state_after_export(), 2)
THREE = replace_index(TWO, 3)
SPOILT = replace_index(TWO, 3, loss="it was restored")
"""Of the two earlier indices the last one cannot be used again."""
