"""Which step follows from what: the whole decision as tables of cases."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.errors import Gap, IncompatibleSchema, TargetInvalid
from icdc_spark.protocol.next_step import choose_step
from icdc_spark.protocol.state_document import IntentKind, IntentPhase, StateDocument
from icdc_spark.protocol.steps import Step, StepKind
from icdc_testing.target.step_cases import (
    CHANGED,
    COMPLETE,
    EXPIRED,
    EXPORT_ONLY,
    IDLE,
    INDEX_FORGOTTEN,
    INDEX_MISSING,
    NOW,
    REBUILDING,
    RECREATED,
    STOPPING,
    STREAM_ONLY,
    make_batch,
    make_begun,
    make_export,
    make_exporting,
    make_fresh,
    make_state,
    make_state_after_miscount,
    make_view,
    replay,
)

pytestmark = pytest.mark.unit

BEGUN = "it began with mode StreamOnly, so rows from before are missing"

CASES = {
    "a new table is exported": (
        make_view(None),
        REBUILDING,
        make_export("the table was never exported"),
    ),
    "a new table without a snapshot is exported as empty": (
        make_view(None, head=None),
        REBUILDING,
        make_export("the table was never exported", None),
    ),
    "a state that only claims the alias is no export": (
        make_view(make_fresh()),
        REBUILDING,
        make_export("the table was never exported"),
    ),
    "an export-only table is exported first": (
        make_view(None),
        EXPORT_ONLY,
        make_export("the table was never exported"),
    ),
    "a stream-only table begins at its start": (
        make_view(None),
        STREAM_ONLY,
        Step(kind=StepKind.BEGIN, to_id="6", reason="the mode is StreamOnly"),
    ),
    "a stream-only table whose readers have an index that nobody remembers is exported": (
        make_view(None, **INDEX_FORGOTTEN),
        STREAM_ONLY,
        make_export(f"gap: {INDEX_FORGOTTEN['index_loss']}"),
    ),
    "nothing new is idle": (make_view(make_state("9")), REBUILDING, IDLE),
    "nothing new in an empty table is idle": (
        make_view(make_state(None), head=None),
        REBUILDING,
        IDLE,
    ),
    "a new snapshot is a changelog": (
        make_view(make_state("7")),
        REBUILDING,
        Step(kind=StepKind.CHANGELOG, from_id="7", to_id="9"),
    ),
    "the first snapshot is a changelog from nothing": (
        make_view(make_state(None)),
        REBUILDING,
        Step(kind=StepKind.CHANGELOG, from_id=None, to_id="9"),
    ),
    "a rollback is a changelog too": (
        make_view(make_state("9"), head="6"),
        REBUILDING,
        Step(kind=StepKind.CHANGELOG, from_id="9", to_id="6"),
    ),
    "an export-only table is complete, whatever comes": (
        make_view(make_state("7")),
        EXPORT_ONLY,
        COMPLETE,
    ),
    "a stream-only table goes on with a changelog": (
        make_view(make_begun()),
        STREAM_ONLY,
        Step(kind=StepKind.CHANGELOG, from_id="7", to_id="9"),
    ),
    "a table that began stream-only is exported in another mode": (
        make_view(make_begun()),
        STOPPING,
        make_export(BEGUN),
    ),
    "also where nothing is new": (
        make_view(make_begun(), head="7"),
        STOPPING,
        make_export(BEGUN, "7"),
    ),
    "also where only an export is wanted": (
        make_view(make_begun()),
        EXPORT_ONLY,
        make_export(BEGUN),
    ),
    "not while a batch is under way": (
        make_view(make_begun().with_intent(make_batch(), now=NOW)),
        REBUILDING,
        replay(make_batch(), "a batch was under way"),
    ),
    "an exported table goes on stream-only": (
        make_view(make_state("7")),
        STREAM_ONLY,
        Step(kind=StepKind.CHANGELOG, from_id="7", to_id="9"),
    ),
    "a table that lost its snapshots is exported as empty": (
        make_view(make_state("7"), head=None),
        REBUILDING,
        make_export("the table has no snapshot any more", None),
    ),
    "an export that miscounted once goes on": (
        make_view(make_state_after_miscount(1)),
        REBUILDING,
        replay(make_exporting().model_copy(update={"miscounts": 1}), "an export was under way"),
    ),
    "an export that miscounted under another spec begins anew": (
        make_view(make_state_after_miscount(2), **CHANGED),
        STOPPING,
        make_export("documents differ: column `a` no longer exists"),
    ),
    "an open batch is replayed as it was, not to the newest snapshot": (
        make_view(make_state("7", make_batch())),
        STOPPING,
        replay(make_batch(), "a batch was under way"),
    ),
    "an open repair is replayed": (
        make_view(make_state("7", make_batch("7", IntentKind.REPAIR))),
        REBUILDING,
        replay(make_batch("7", IntentKind.REPAIR), "a batch was under way"),
    ),
    "an open first export goes on": (
        make_view(make_fresh().with_intent(make_exporting(), now=NOW)),
        STOPPING,
        replay(make_exporting(), "an export was under way"),
    ),
    "an open export whose snapshot expired begins anew, which is no gap": (
        make_view(make_fresh().with_intent(make_exporting(), now=NOW), **EXPIRED),
        STOPPING,
        make_export("the exported snapshot expired"),
    ),
    "an open export whose index is gone begins anew": (
        make_view(make_fresh().with_intent(make_exporting(), now=NOW), **INDEX_MISSING),
        STOPPING,
        make_export("the index orders-000001 no longer exists"),
    ),
    "an open export under another spec begins anew": (
        make_view(make_fresh().with_intent(make_exporting(), now=NOW), **CHANGED),
        STOPPING,
        make_export("documents differ: column `a` no longer exists"),
    ),
    "an expired snapshot that is also the current one is no gap": (
        make_view(make_state("9"), readable=frozenset()),
        STOPPING,
        IDLE,
    ),
    "an export-only table stays complete when its snapshot expires": (
        make_view(make_state("7"), **EXPIRED),
        replace(STOPPING, export_only=True),
        COMPLETE,
    ),
    "documents of another shape are built anew": (
        make_view(make_state("9"), **CHANGED),
        REBUILDING,
        make_export("documents differ: column `a` no longer exists"),
    ),
    "half a batch of another shape is built anew": (
        make_view(make_state("7", make_batch()), **CHANGED),
        REBUILDING,
        make_export("documents differ: column `a` no longer exists"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_next_step_is(case: str) -> None:
    seen, policies, wanted = CASES[case]

    assert choose_step(seen, policies) == wanted


LOSSES = {
    "the applied snapshot expired": (
        make_view(make_state("7"), **EXPIRED),
        "snapshot 7 has expired or was removed",
    ),
    "the target of the open batch expired": (
        make_view(make_state("7", make_batch()), readable=frozenset("79")),
        "snapshot 8 has expired or was removed",
    ),
    "the start of the open batch expired": (
        make_view(make_state("7", make_batch()), readable=frozenset("89")),
        "snapshot 7 has expired or was removed",
    ),
    "the table was re-created": (
        make_view(make_state("7"), **RECREATED),
        "the table was dropped and created again (its uuid changed)",
    ),
    "the index is gone": (
        make_view(make_state("9"), **INDEX_MISSING),
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


@pytest.mark.parametrize(
    "document", [make_state("9"), make_state("7"), make_state("7", make_batch())]
)
def test_another_shape_of_documents_stops_the_table_where_that_is_asked_for(
    document: StateDocument,
) -> None:
    with pytest.raises(IncompatibleSchema) as raised:
        choose_step(make_view(document, **CHANGED), STOPPING)

    assert raised.value.message == (
        "Table shop.orders: column `a` no longer exists, so documents already written would "
        "differ. Raise spec.resync.nonce to export the table again, or set "
        "changelog.onIncompatibleSchema to Reexport."
    )


@pytest.mark.parametrize(
    "document", [make_state("9"), make_state("7"), make_state("7", make_batch())]
)
def test_the_advice_to_raise_the_nonce_heals_another_shape_too(document: StateDocument) -> None:
    step = choose_step(make_view(document, **CHANGED), replace(STOPPING, resync_nonce=1))

    assert (step.kind, step.to_id) == (StepKind.EXPORT, "9")


@pytest.mark.parametrize("changes", [{}, EXPIRED, INDEX_MISSING])
def test_an_export_that_miscounts_again_and_again_stops_the_table(changes: dict[str, Any]) -> None:
    with pytest.raises(TargetInvalid) as raised:
        choose_step(make_view(make_state_after_miscount(2), **changes), REBUILDING)

    assert raised.value.message == (
        "Table shop.orders: index orders-000001, like the one before it, does not hold what was "
        "written into it (4 of 3 documents): something else writes into or deletes from indices "
        "of that name (a job or a policy on a wildcard, an ingest pipeline). Stop it, then raise "
        "spec.resync.nonce to export the table again. If a difference from its rows is as you want "
        "it, also set changelog.proveBeforeSwitch to Count, which compares none."
    )


def test_the_phase_of_an_open_export_does_not_matter() -> None:
    swapping = make_fresh().with_intent(make_exporting(), now=NOW).begin_swap(now=NOW)

    step = choose_step(make_view(swapping), REBUILDING)

    assert (step.kind, step.intent and step.intent.phase) == (StepKind.REPLAY, IntentPhase.SWAPPING)
