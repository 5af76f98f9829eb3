"""State documents at every point of their life, for tests."""

from icdc_spark.protocol.state_document import (
    Applied,
    Intent,
    IntentKind,
    Owner,
    Shards,
    SourceTable,
    StateDocument,
    Totals,
)

NOW = "2026-03-01T10:00:00Z"
LATER = "2026-03-01T10:00:01.5Z"
SHARDS = Shards(histories="abc", max_seq_nos=[14, -1])
OWNER = Owner(pipeline="default/shop", epoch=4, run_id="run-4")


def make_empty() -> StateDocument:
    """Return one that is claimed, with nothing exported yet."""
    return StateDocument(
        alias="orders",
        owner=OWNER,
        source=SourceTable(table="shop.orders", uuid="t-1", branch="main"),
        document_spec="abc",
        updated_at=NOW,
    )


def make_export(ordinal: int = 1, index: str = "orders-000001", to: str | None = "77") -> Intent:
    """Return the intent of an export in two chunks."""
    return Intent(
        kind=IntentKind.EXPORT,
        from_=None,
        to=to,
        ordinal=ordinal,
        index=index,
        index_uuid=f"uuid of {index}",
        chunks_total=2,
    )


def make_changelog(ordinal: int = 2, from_: str | None = "77", to: str = "78") -> Intent:
    """Return the intent of a changelog on the first index."""
    return Intent(
        kind=IntentKind.CHANGELOG,
        from_=from_,
        to=to,
        ordinal=ordinal,
        index="orders-000001",
        index_uuid="uuid of orders-000001",
    )


def make_applied(ordinal: int = 1, snapshot: str | None = "77") -> Applied:
    """Return a snapshot that is applied."""
    return Applied(snapshot_id=snapshot, sequence_number=3, committed_at=NOW, ordinal=ordinal)


def make_exporting(**changes: object) -> StateDocument:
    """Return one whose export has begun."""
    return make_empty().with_intent(make_export(**changes), now=NOW)  # type: ignore[arg-type]


def make_swapping() -> StateDocument:
    """Return one whose export is written and may move the alias."""
    written = (
        make_exporting().complete_chunk(0, rows=10, now=NOW).complete_chunk(1, rows=5, now=NOW)
    )
    return written.begin_swap(shards=SHARDS, now=NOW)


def make_state_after_export() -> StateDocument:
    """Return one whose export is done."""
    return make_swapping().advance(make_applied(), now=NOW, batch=Totals(upserted=15))
