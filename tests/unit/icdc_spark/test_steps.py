"""Which step follows from what: the whole decision as tables of cases."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.errors import Gap, IncompatibleSchema, TargetInvalid
from icdc_spark.state import Applied, Intent, IntentKind, Owner, Phase, Source, StateDocument
from icdc_spark.steps import Policies, Step, StepKind, View, next_step

pytestmark = pytest.mark.unit

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


def fresh() -> StateDocument:
    return StateDocument(
        alias="orders",
        owner=Owner(pipeline="default/shop", epoch=1, run_id="run-1"),
        source=Source(table="shop.orders", uuid="t-1", branch="main"),
        document_spec="abc",
        updated_at=NOW,
    )


def exporting(to: str | None = "7", *, ordinal: int = 1) -> Intent:
    return Intent(
        kind=IntentKind.EXPORT,
        from_=None,
        to=to,
        ordinal=ordinal,
        index=f"orders-{ordinal:06d}",
        index_uuid=f"u-{ordinal}",
        chunks_total=0,
    )


def state(snapshot: str | None = "7", intent: Intent | None = None) -> StateDocument:
    """The index equals `snapshot`; one more intent may be open."""
    document = fresh().with_intent(exporting(snapshot), now=NOW).swapping(now=NOW)
    applied = Applied(snapshot_id=snapshot, sequence_number=1, committed_at=NOW, ordinal=1)
    document = document.advanced(applied, now=NOW)
    return document if intent is None else document.with_intent(intent, now=NOW)


def miscounted(times: int) -> StateDocument:
    """An export whose index did not hold what was written, so often in a row."""
    document = fresh().with_intent(exporting(), now=NOW)
    for _ in range(times):
        document = document.miscounted(now=NOW)
    return document


def batch(to: str = "8", kind: IntentKind = IntentKind.CHANGELOG, from_: str = "7") -> Intent:
    return Intent(kind=kind, from_=from_, to=to, ordinal=2, index="orders-000001", index_uuid="u-1")


def view(document: StateDocument | None, **changes: Any) -> View:
    """A healthy table with the snapshots 6 to 9, of which 9 is the current one."""
    fields: dict[str, Any] = {
        "state": document,
        "table": "shop.orders",
        "table_uuid": "t-1",
        "head": "9",
        "start": "6",
        "document_spec": "abc",
        "spec_change": None,
        "readable": frozenset("6789"),
        "index_loss": None,
    }
    return View(**(fields | changes))


def export(reason: str, to: str | None = "9") -> Step:
    return Step(kind=StepKind.EXPORT, to_id=to, reason=reason)


def replay(intent: Intent, reason: str) -> Step:
    return Step(
        kind=StepKind.REPLAY, from_id=intent.from_, to_id=intent.to, intent=intent, reason=reason
    )


IDLE, COMPLETE = Step(kind=StepKind.IDLE), Step(kind=StepKind.COMPLETE)
EXPIRED = {"readable": frozenset("9")}
RECREATED = {"table_uuid": "t-2"}
INDEX_GONE = {"index_loss": "the index orders-000001 is gone"}
CHANGED = {"spec_change": "column `a` is no longer there"}

CASES = {
    "a new table is exported": (view(None), REBUILDING, export("the table was never exported")),
    "a new table without a snapshot is exported as empty": (
        view(None, head=None),
        REBUILDING,
        export("the table was never exported", None),
    ),
    "a state that only claims the alias is no export": (
        view(fresh()),
        REBUILDING,
        export("the table was never exported"),
    ),
    "an export-only table is exported first": (
        view(None),
        EXPORT_ONLY,
        export("the table was never exported"),
    ),
    "a stream-only table begins at its start": (
        view(None),
        STREAM_ONLY,
        Step(kind=StepKind.BEGIN, to_id="6", reason="the mode is StreamOnly"),
    ),
    "nothing new is idle": (view(state("9")), REBUILDING, IDLE),
    "nothing new in an empty table is idle": (view(state(None), head=None), REBUILDING, IDLE),
    "a new snapshot is a changelog": (
        view(state("7")),
        REBUILDING,
        Step(kind=StepKind.CHANGELOG, from_id="7", to_id="9"),
    ),
    "the first snapshot is a changelog from nothing": (
        view(state(None)),
        REBUILDING,
        Step(kind=StepKind.CHANGELOG, from_id=None, to_id="9"),
    ),
    "a rollback is a changelog too": (
        view(state("9"), head="6"),
        REBUILDING,
        Step(kind=StepKind.CHANGELOG, from_id="9", to_id="6"),
    ),
    "an export-only table is complete, whatever comes": (view(state("7")), EXPORT_ONLY, COMPLETE),
    "a stream-only table goes on with a changelog": (
        view(state("7")),
        STREAM_ONLY,
        Step(kind=StepKind.CHANGELOG, from_id="7", to_id="9"),
    ),
    "a table that lost its snapshots is exported as empty": (
        view(state("7"), head=None),
        REBUILDING,
        export("the table has no snapshot any more", None),
    ),
    "a higher nonce exports again": (view(state("9")), RESYNC, export("a re-export was asked for")),
    "a nonce that was honoured does not": (
        view(state("9").with_resync(1, None, now=NOW)),
        RESYNC,
        IDLE,
    ),
    "a higher nonce wins over an open batch": (
        view(state("7", batch())),
        RESYNC,
        export("a re-export was asked for"),
    ),
    "a higher nonce wins over an open export": (
        view(fresh().with_intent(exporting(), now=NOW)),
        RESYNC,
        export("a re-export was asked for"),
    ),
    "a higher nonce wins over an export that miscounted": (
        view(miscounted(2)),
        RESYNC,
        export("a re-export was asked for"),
    ),
    "a higher nonce wins over a complete index that was lost": (
        view(fresh().with_intent(exporting(), now=NOW).swapping(now=NOW), **INDEX_GONE),
        RESYNC,
        export("a re-export was asked for"),
    ),
    "an index that is complete is served before a higher nonce counts": (
        view(fresh().with_intent(exporting(), now=NOW).swapping(now=NOW)),
        RESYNC,
        replay(exporting().model_copy(update={"phase": Phase.SWAPPING}), "an export was under way"),
    ),
    "an export that was begun for the nonce goes on": (
        view(fresh().with_intent(exporting(), now=NOW).with_resync(1, None, now=NOW)),
        RESYNC,
        replay(exporting(), "an export was under way"),
    ),
    "an export that miscounted once goes on": (
        view(miscounted(1)),
        REBUILDING,
        replay(exporting().model_copy(update={"miscounts": 1}), "an export was under way"),
    ),
    "an export that miscounted under another spec begins anew": (
        view(miscounted(2), **CHANGED),
        STOPPING,
        export("documents differ: column `a` is no longer there"),
    ),
    "an open batch is replayed as it was, not to the newest snapshot": (
        view(state("7", batch())),
        STOPPING,
        replay(batch(), "a batch was under way"),
    ),
    "an open repair is replayed": (
        view(state("7", batch("7", IntentKind.REPAIR))),
        REBUILDING,
        replay(batch("7", IntentKind.REPAIR), "a batch was under way"),
    ),
    "an open first export goes on": (
        view(fresh().with_intent(exporting(), now=NOW)),
        STOPPING,
        replay(exporting(), "an export was under way"),
    ),
    "an open export whose snapshot expired begins anew, which is no gap": (
        view(fresh().with_intent(exporting(), now=NOW), **EXPIRED),
        STOPPING,
        export("the exported snapshot expired"),
    ),
    "an open export whose index is gone begins anew": (
        view(fresh().with_intent(exporting(), now=NOW), **INDEX_GONE),
        STOPPING,
        export("the index orders-000001 is gone"),
    ),
    "an open export under another spec begins anew": (
        view(fresh().with_intent(exporting(), now=NOW), **CHANGED),
        STOPPING,
        export("documents differ: column `a` is no longer there"),
    ),
    "an expired snapshot that is also the current one is no gap": (
        view(state("9"), readable=frozenset()),
        STOPPING,
        IDLE,
    ),
    "an export-only table stays complete when its snapshot expires": (
        view(state("7"), **EXPIRED),
        replace(STOPPING, export_only=True),
        COMPLETE,
    ),
    "documents of another shape are built anew": (
        view(state("9"), **CHANGED),
        REBUILDING,
        export("documents differ: column `a` is no longer there"),
    ),
    "half a batch of another shape is built anew": (
        view(state("7", batch()), **CHANGED),
        REBUILDING,
        export("documents differ: column `a` is no longer there"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_next_step_is(case: str) -> None:
    seen, policies, wanted = CASES[case]

    assert next_step(seen, policies) == wanted


LOSSES = {
    "the applied snapshot expired": (
        view(state("7"), **EXPIRED),
        "snapshot 7 has expired or was removed",
    ),
    "the target of the open batch expired": (
        view(state("7", batch()), readable=frozenset("79")),
        "snapshot 8 has expired or was removed",
    ),
    "the start of the open batch expired": (
        view(state("7", batch()), readable=frozenset("89")),
        "snapshot 7 has expired or was removed",
    ),
    "the table was re-created": (
        view(state("7"), **RECREATED),
        "the table was dropped and created again (its uuid changed)",
    ),
    "the index is gone": (
        view(state("9"), **INDEX_GONE),
        "the index orders-000001 is gone",
    ),
}


@pytest.mark.parametrize("case", LOSSES)
def test_what_can_no_longer_be_known_is_exported_again(case: str) -> None:
    seen, lost = LOSSES[case]

    wanted = Step(kind=StepKind.EXPORT, to_id="9", reason=f"gap: {lost}")
    assert next_step(seen, REBUILDING) == wanted


@pytest.mark.parametrize("case", LOSSES)
def test_what_can_no_longer_be_known_stops_the_table_where_that_is_asked_for(case: str) -> None:
    seen, lost = LOSSES[case]

    with pytest.raises(Gap) as raised:
        next_step(seen, STOPPING)

    assert raised.value.message == (
        f"Table shop.orders: {lost}, so the changes since the last applied snapshot are unknown. "
        "Raise spec.resync.nonce to export the table again, or set changelog.onGap to Reexport."
    )


@pytest.mark.parametrize("case", LOSSES)
def test_the_advice_to_raise_the_nonce_heals_a_stopped_table(case: str) -> None:
    seen, _ = LOSSES[case]

    step = next_step(seen, replace(STOPPING, resync_nonce=1))

    assert (step.kind, step.to_id) == (StepKind.EXPORT, "9")


@pytest.mark.parametrize("document", [state("9"), state("7"), state("7", batch())])
def test_another_shape_of_documents_stops_the_table_where_that_is_asked_for(
    document: StateDocument,
) -> None:
    with pytest.raises(IncompatibleSchema) as raised:
        next_step(view(document, **CHANGED), STOPPING)

    assert raised.value.message == (
        "Table shop.orders: column `a` is no longer there, so documents already written would "
        "differ. Raise spec.resync.nonce to export the table again, or set "
        "changelog.onIncompatibleSchema to Reexport."
    )


@pytest.mark.parametrize("document", [state("9"), state("7"), state("7", batch())])
def test_the_advice_to_raise_the_nonce_heals_another_shape_too(document: StateDocument) -> None:
    step = next_step(view(document, **CHANGED), replace(STOPPING, resync_nonce=1))

    assert (step.kind, step.to_id) == (StepKind.EXPORT, "9")


@pytest.mark.parametrize("changes", [{}, EXPIRED, INDEX_GONE])
def test_an_export_that_miscounts_again_and_again_stops_the_table(changes: dict[str, Any]) -> None:
    with pytest.raises(TargetInvalid) as raised:
        next_step(view(miscounted(2), **changes), REBUILDING)

    assert raised.value.message == (
        "Table shop.orders: index orders-000001, like the one before it, does not hold what was "
        "written into it: something else writes into or deletes from indices of that name (a job "
        "or a policy on a wildcard, an ingest pipeline). Stop it, then raise spec.resync.nonce to "
        "export the table again."
    )


def test_the_phase_of_an_open_export_does_not_matter() -> None:
    swapping = fresh().with_intent(exporting(), now=NOW).swapping(now=NOW)

    step = next_step(view(swapping), REBUILDING)

    assert (step.kind, step.intent and step.intent.phase) == (StepKind.REPLAY, Phase.SWAPPING)
