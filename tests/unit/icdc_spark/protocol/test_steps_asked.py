"""When a re-export that somebody asked for is the next step: the nonce, and what is under way."""

from dataclasses import replace

import pytest

from icdc_spark.protocol.next_step import choose_step
from icdc_spark.protocol.state_document import IntentPhase
from icdc_testing.target.step_cases import (
    IDLE,
    INDEX_MISSING,
    NOW,
    RESYNC,
    make_batch,
    make_export,
    make_exporting,
    make_fresh,
    make_state,
    make_state_after_miscount,
    make_view,
    replay,
)

pytestmark = pytest.mark.unit

CASES = {
    "a higher nonce exports again": (
        make_view(make_state("9")),
        RESYNC,
        make_export("a re-export was requested"),
    ),
    "a nonce that was honoured does not": (
        make_view(make_state("9").with_resync(1, None, now=NOW)),
        RESYNC,
        IDLE,
    ),
    "a lower nonce than the one that was honoured exports again": (
        make_view(make_state("9").with_resync(3, None, now=NOW)),
        RESYNC,
        make_export("a re-export was requested"),
    ),
    "a request that was honoured is not honoured twice": (
        make_view(make_state("9").with_resync(1, 77, now=NOW)),
        replace(RESYNC, resync_id=77),
        IDLE,
    ),
    "another request of the same nonce exports again": (
        make_view(make_state("9").with_resync(1, 77, now=NOW)),
        replace(RESYNC, resync_id=78),
        make_export("a re-export was requested"),
    ),
    "a higher nonce wins over an open batch": (
        make_view(make_state("7", make_batch())),
        RESYNC,
        make_export("a re-export was requested"),
    ),
    "a higher nonce wins over an open export": (
        make_view(make_fresh().with_intent(make_exporting(), now=NOW)),
        RESYNC,
        make_export("a re-export was requested"),
    ),
    "a higher nonce wins over an export that miscounted": (
        make_view(make_state_after_miscount(2)),
        RESYNC,
        make_export("a re-export was requested"),
    ),
    "a higher nonce wins over a complete index that was lost": (
        make_view(
            make_fresh().with_intent(make_exporting(), now=NOW).begin_swap(now=NOW), **INDEX_MISSING
        ),
        RESYNC,
        make_export("a re-export was requested"),
    ),
    "an index that is complete is served before a higher nonce counts": (
        make_view(make_fresh().with_intent(make_exporting(), now=NOW).begin_swap(now=NOW)),
        RESYNC,
        replay(
            make_exporting().model_copy(update={"phase": IntentPhase.SWAPPING}),
            "an export was under way",
        ),
    ),
    "an export that was begun for the nonce goes on": (
        make_view(
            make_fresh().with_intent(make_exporting(), now=NOW).with_resync(1, None, now=NOW)
        ),
        RESYNC,
        replay(make_exporting(), "an export was under way"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_next_step_is(case: str) -> None:
    seen, policies, wanted = CASES[case]

    assert choose_step(seen, policies) == wanted
