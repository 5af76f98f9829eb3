"""Which step follows from what: the whole decision as tables of cases."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.errors import Gap, IncompatibleSchema, TargetInvalid
from icdc_spark.protocol.next_step import Step, StepKind, choose_step
from icdc_spark.protocol.state_document import IntentKind, IntentPhase, StateDocument
from icdc_testing.target.step_cases import (
    CHANGED,
    COMPLETE,
    EXPIRED,
    EXPORT_ONLY,
    IDLE,
    INDEX_MISSING,
    NOW,
    REBUILDING,
    RECREATED,
    STOPPING,
    STREAM_ONLY,
    batch,
    export,
    exporting,
    fresh,
    replay,
    state,
    state_after_miscount,
    view,
)

pytestmark = pytest.mark.unit

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
    "an export that miscounted once goes on": (
        view(state_after_miscount(1)),
        REBUILDING,
        replay(exporting().model_copy(update={"miscounts": 1}), "an export was under way"),
    ),
    "an export that miscounted under another spec begins anew": (
        view(state_after_miscount(2), **CHANGED),
        STOPPING,
        export("documents differ: column `a` no longer exists"),
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
        view(fresh().with_intent(exporting(), now=NOW), **INDEX_MISSING),
        STOPPING,
        export("the index orders-000001 no longer exists"),
    ),
    "an open export under another spec begins anew": (
        view(fresh().with_intent(exporting(), now=NOW), **CHANGED),
        STOPPING,
        export("documents differ: column `a` no longer exists"),
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
        export("documents differ: column `a` no longer exists"),
    ),
    "half a batch of another shape is built anew": (
        view(state("7", batch()), **CHANGED),
        REBUILDING,
        export("documents differ: column `a` no longer exists"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_next_step_is(case: str) -> None:
    seen, policies, wanted = CASES[case]

    assert choose_step(seen, policies) == wanted


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
        view(state("9"), **INDEX_MISSING),
        "the index orders-000001 no longer exists",
    ),
}


@pytest.mark.parametrize("case", LOSSES)
def test_what_can_no_longer_be_known_is_exported_again(case: str) -> None:
    seen, lost = LOSSES[case]

    wanted = Step(kind=StepKind.EXPORT, to_id="9", reason=f"gap: {lost}")
    assert choose_step(seen, REBUILDING) == wanted


@pytest.mark.parametrize("case", LOSSES)
def test_what_can_no_longer_be_known_stops_the_table_where_that_is_asked_for(case: str) -> None:
    seen, lost = LOSSES[case]

    with pytest.raises(Gap) as raised:
        choose_step(seen, STOPPING)

    assert raised.value.message == (
        f"Table shop.orders: {lost}, so the changes since the last applied snapshot are unknown. "
        "Raise spec.resync.nonce to export the table again, or set changelog.onGap to Reexport."
    )


@pytest.mark.parametrize("case", LOSSES)
def test_the_advice_to_raise_the_nonce_heals_a_stopped_table(case: str) -> None:
    seen, _ = LOSSES[case]

    step = choose_step(seen, replace(STOPPING, resync_nonce=1))

    assert (step.kind, step.to_id) == (StepKind.EXPORT, "9")


@pytest.mark.parametrize("document", [state("9"), state("7"), state("7", batch())])
def test_another_shape_of_documents_stops_the_table_where_that_is_asked_for(
    document: StateDocument,
) -> None:
    with pytest.raises(IncompatibleSchema) as raised:
        choose_step(view(document, **CHANGED), STOPPING)

    assert raised.value.message == (
        "Table shop.orders: column `a` no longer exists, so documents already written would "
        "differ. Raise spec.resync.nonce to export the table again, or set "
        "changelog.onIncompatibleSchema to Reexport."
    )


@pytest.mark.parametrize("document", [state("9"), state("7"), state("7", batch())])
def test_the_advice_to_raise_the_nonce_heals_another_shape_too(document: StateDocument) -> None:
    step = choose_step(view(document, **CHANGED), replace(STOPPING, resync_nonce=1))

    assert (step.kind, step.to_id) == (StepKind.EXPORT, "9")


@pytest.mark.parametrize("changes", [{}, EXPIRED, INDEX_MISSING])
def test_an_export_that_miscounts_again_and_again_stops_the_table(changes: dict[str, Any]) -> None:
    with pytest.raises(TargetInvalid) as raised:
        choose_step(view(state_after_miscount(2), **changes), REBUILDING)

    assert raised.value.message == (
        "Table shop.orders: index orders-000001, like the one before it, does not hold what was "
        "written into it: something else writes into or deletes from indices of that name (a job "
        "or a policy on a wildcard, an ingest pipeline). Stop it, then raise spec.resync.nonce to "
        "export the table again."
    )


def test_the_phase_of_an_open_export_does_not_matter() -> None:
    swapping = fresh().with_intent(exporting(), now=NOW).begin_swap(now=NOW)

    step = choose_step(view(swapping), REBUILDING)

    assert (step.kind, step.intent and step.intent.phase) == (StepKind.REPLAY, IntentPhase.SWAPPING)
