"""State documents, views of a table and steps, of which tests of the decision are made."""

from dataclasses import replace
from typing import Any

from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import (
    Applied,
    Intent,
    IntentKind,
    Owner,
    SourceTable,
    StateDocument,
)
from icdc_spark.protocol.steps import Step, StepInputs, StepKind

NOW = "2026-03-01T10:00:00Z"
REBUILDING = Policies(
    reexport_on_gap=True,
    reexport_on_incompatible_schema=True,
    export_only=False,
    stream_only=False,
    resync_nonce=0,
)
STOPPING = replace(REBUILDING, reexport_on_gap=False, reexport_on_incompatible_schema=False)
EXPORT_ONLY = replace(REBUILDING, export_only=True)
STREAM_ONLY = replace(REBUILDING, stream_only=True)
RESYNC = replace(REBUILDING, resync_nonce=1)
ROLLBACK = replace(STOPPING, resync_nonce=1, resync_id=77, is_rollback=True)


def make_fresh() -> StateDocument:
    return StateDocument(
        alias="orders",
        owner=Owner(pipeline="default/shop", epoch=1, run_id="run-1"),
        source=SourceTable(table="shop.orders", uuid="t-1", branch="main"),
        document_spec="abc",
        updated_at=NOW,
    )


def make_exporting(to: str | None = "7", *, ordinal: int = 1) -> Intent:
    return Intent(
        kind=IntentKind.EXPORT,
        from_=None,
        to=to,
        ordinal=ordinal,
        index=f"orders-{ordinal:06d}",
        index_uuid=f"u-{ordinal}",
        chunks_total=0,
        cut="by files",
    )


def make_begun() -> StateDocument:
    """Return one whose index began without an export at snapshot 7 (StreamOnly)."""
    begin = make_exporting().model_copy(update={"cut": None})
    document = make_fresh().with_intent(begin, now=NOW).begin_swap(now=NOW)
    applied = Applied(snapshot_id="7", sequence_number=1, committed_at=NOW, ordinal=1)
    return document.advance(applied, now=NOW)


def make_state(snapshot: str | None = "7", intent: Intent | None = None) -> StateDocument:
    """Return one whose index equals `snapshot`; one more intent may be open."""
    document = make_fresh().with_intent(make_exporting(snapshot), now=NOW).begin_swap(now=NOW)
    applied = Applied(snapshot_id=snapshot, sequence_number=1, committed_at=NOW, ordinal=1)
    document = document.advance(applied, now=NOW)
    return document if intent is None else document.with_intent(intent, now=NOW)


def make_state_after_miscount(times: int) -> StateDocument:
    """Return one after an export whose index did not hold what was written, so often in a row."""
    document = make_fresh().with_intent(make_exporting(), now=NOW)
    for _ in range(times):
        document = document.add_miscount("4 of 3 documents", now=NOW)
    return document


def make_batch(to: str = "8", kind: IntentKind = IntentKind.CHANGELOG, from_: str = "7") -> Intent:
    return Intent(kind=kind, from_=from_, to=to, ordinal=2, index="orders-000001", index_uuid="u-1")


def make_view(document: StateDocument | None, **changes: Any) -> StepInputs:
    """Return a healthy table with the snapshots 6 to 9, of which 9 is the current one."""
    fields: dict[str, Any] = {
        "state": document,
        "table": "shop.orders",
        "table_uuid": "t-1",
        "head": "9",
        "last_sequence_number": 4,
        "start": "6",
        "document_spec": "abc",
        "spec_change": None,
        "readable": frozenset("6789"),
        "index_loss": None,
    }
    return StepInputs(**(fields | changes))


def make_export(reason: str, to: str | None = "9") -> Step:
    return Step(kind=StepKind.EXPORT, to_id=to, reason=reason)


def replay(intent: Intent, reason: str) -> Step:
    return Step(
        kind=StepKind.REPLAY, from_id=intent.from_, to_id=intent.to, intent=intent, reason=reason
    )


IDLE, COMPLETE = Step(kind=StepKind.IDLE), Step(kind=StepKind.COMPLETE)
EXPIRED = {"readable": frozenset("9")}
RECREATED = {"table_uuid": "t-2"}
INDEX_FORGOTTEN = {"index_loss": "the state document of orders-000001 is gone"}
INDEX_MISSING = {"index_loss": "the index orders-000001 no longer exists"}
OLDER = {"head": "6", "readable": frozenset("6"), "last_sequence_number": 0}
"""Metadata from before snapshot 7, the first with a sequence number."""
CHANGED = {"spec_change": "column `a` no longer exists"}
