"""Metadata that is older than what was already read is no proof that a snapshot has expired."""

from typing import Any

import pytest

from icdc_api.errors import Gap, SourceUnavailable
from icdc_spark.protocol.next_step import choose_step
from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import IntentKind, StateDocument
from icdc_spark.protocol.steps import StepKind
from icdc_testing.target.step_cases import (
    COMPLETE,
    EXPORT_ONLY,
    NOW,
    OLDER,
    REBUILDING,
    RECREATED,
    RESYNC,
    STOPPING,
    make_batch,
    make_exporting,
    make_fresh,
    make_state,
    make_view,
)

pytestmark = pytest.mark.unit

BEFORE_THE_BATCH = {"readable": frozenset("7"), "head": "7", "last_sequence_number": 1}
WAITS: dict[str, tuple[StateDocument, dict[str, Any]]] = {
    "without the applied snapshot": (make_state("7"), OLDER),
    "of an empty table": (make_state("7"), {**OLDER, "head": None, "readable": frozenset()}),
    "without the snapshot of the open batch": (make_state("7", make_batch()), BEFORE_THE_BATCH),
    "while a re-export is under way": (make_state("7", make_exporting("8", ordinal=2)), OLDER),
    "while a repair is under way": (make_state("7", make_batch("7", IntentKind.REPAIR)), OLDER),
    "that can still read all that is needed": (make_state("7"), {"last_sequence_number": 0}),
}


@pytest.mark.parametrize("policies", [REBUILDING, STOPPING], ids=["reexport", "stop"])
@pytest.mark.parametrize("case", WAITS)
def test_older_metadata_is_waited_out(case: str, policies: Policies) -> None:
    document, changes = WAITS[case]
    with pytest.raises(SourceUnavailable) as raised:
        choose_step(make_view(document, **changes), policies)
    assert raised.value.message == (
        "Table shop.orders: the catalog answers with metadata that is older than what was already "
        f"read (sequence number {changes['last_sequence_number']}; the index has 1), as a cache or "
        "a slow replica may do. The run tries again. If the table was restored to that state, "
        "raise spec.resync.nonce to export it again."
    )


def test_the_advice_to_raise_the_nonce_heals_a_table_that_was_restored() -> None:
    assert choose_step(make_view(make_state("7"), **OLDER), RESYNC).kind is StepKind.EXPORT


def test_a_restored_table_with_new_commits_is_a_gap() -> None:
    with pytest.raises(Gap, match="snapshot 7 has expired or was removed"):
        choose_step(make_view(make_state("7"), **{**OLDER, "last_sequence_number": 2}), STOPPING)


def test_a_snapshot_of_the_batch_that_expired_under_newer_commits_is_a_gap() -> None:
    newer = {**BEFORE_THE_BATCH, "last_sequence_number": 2}
    with pytest.raises(Gap, match="snapshot 8 has expired or was removed"):
        choose_step(make_view(make_state("7", make_batch()), **newer), STOPPING)


def test_a_table_of_format_1_has_no_numbers_to_compare() -> None:
    old = make_state("7", make_batch())
    assert old.applied is not None
    unnumbered = old.model_copy(
        update={"applied": old.applied.model_copy(update={"sequence_number": 0})}
    )
    with pytest.raises(Gap):
        choose_step(
            make_view(unnumbered, **{**BEFORE_THE_BATCH, "last_sequence_number": 0}), STOPPING
        )


def test_a_table_created_anew_begins_its_numbers_anew() -> None:
    step = choose_step(make_view(make_state("7"), **OLDER, **RECREATED), REBUILDING)
    assert step.reason == "gap: the table was dropped and created again (its uuid changed)"


def test_a_complete_export_needs_no_newer_metadata() -> None:
    assert choose_step(make_view(make_state("7"), **OLDER), EXPORT_ONLY) == COMPLETE


def test_a_first_export_has_read_nothing_to_compare_with() -> None:
    seen = make_view(make_fresh().with_intent(make_exporting(), now=NOW), **OLDER)
    assert choose_step(seen, STOPPING).reason == "the exported snapshot expired"
