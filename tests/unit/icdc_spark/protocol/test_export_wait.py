"""What a table does outside of the window in which exports may write."""

from dataclasses import replace

import pytest

from icdc_spark.protocol.export_wait import choose_meanwhile
from icdc_spark.protocol.next_step import choose_step
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.steps import Step, StepKind
from icdc_testing.target.step_cases import (
    EXPIRED,
    IDLE,
    NOW,
    REBUILDING,
    RESYNC,
    STOPPING,
    STREAM_ONLY,
    make_batch,
    make_exporting,
    make_fresh,
    make_state,
    make_view,
    replay,
)

pytestmark = pytest.mark.unit

CHANGES = Step(kind=StepKind.CHANGELOG, from_id="7", to_id="9")


def wait(reason: str) -> Step:
    return Step(kind=StepKind.WAIT, reason=reason, export_waits=True)


def begin_export(chunks_done: int) -> StateDocument:
    """Return the state of an export of three chunks."""
    intent = make_exporting().model_copy(update={"chunks_total": 3})
    document = make_fresh().with_intent(intent, now=NOW)
    for number in range(chunks_done):
        document = document.complete_chunk(number, rows=1, now=NOW)
    return document


def replay_export(document: StateDocument) -> Step:
    assert document.intent is not None
    return replay(document.intent, "an export was under way")


def owe_export(step: Step) -> Step:
    return replace(step, export_waits=True)


CASES = {
    "a first export waits": (make_view(None), REBUILDING, wait("the table was never exported")),
    "an export of nothing does not": (
        make_view(None, head=None),
        REBUILDING,
        Step(kind=StepKind.EXPORT, reason="the table was never exported"),
    ),
    "nor does a begin of StreamOnly": (
        make_view(None),
        STREAM_ONLY,
        Step(kind=StepKind.BEGIN, to_id="6", reason="the mode is StreamOnly"),
    ),
    "changes are applied": (make_view(make_state("7")), REBUILDING, CHANGES),
    "an open batch is repeated": (
        make_view(make_state("7", make_batch())),
        REBUILDING,
        replay(make_batch(), "a batch was under way"),
    ),
    "an open export waits": (
        make_view(begin_export(2)),
        REBUILDING,
        wait("an export was under way"),
    ),
    "a complete one is served": (
        make_view(begin_export(3)),
        REBUILDING,
        replay_export(begin_export(3)),
    ),
    "a gap waits": (
        make_view(make_state("7"), **EXPIRED),
        REBUILDING,
        wait("gap: snapshot 7 has expired or was removed"),
    ),
    "a re-export that was asked for waits, and changes are applied": (
        make_view(make_state("7")),
        RESYNC,
        owe_export(CHANGES),
    ),
    "and nothing is done where nothing was committed": (
        make_view(make_state("9")),
        RESYNC,
        owe_export(IDLE),
    ),
    "and a gap waits although it would stop the table": (
        make_view(make_state("7"), **EXPIRED),
        replace(STOPPING, resync_nonce=1),
        wait("gap: snapshot 7 has expired or was removed"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_meanwhile(case: str) -> None:
    inputs, policies, wanted = CASES[case]
    assert choose_meanwhile(choose_step(inputs, policies), inputs, policies) == wanted
