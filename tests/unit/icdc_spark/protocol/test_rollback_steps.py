"""Whether readers are switched back in the next step, and to which index."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.errors import Gap, RollbackRefused, SourceUnavailable
from icdc_spark.protocol.export_wait import choose_meanwhile
from icdc_spark.protocol.next_step import choose_step
from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.steps import Step, StepInputs, StepKind
from icdc_testing.target.replaced_indices import (
    FIRST,
    SECOND,
    SPOILT,
    THIRD,
    TWO,
    begin_export,
    complete_export,
    replace_index,
)
from icdc_testing.target.state_documents import (
    NOW,
    make_empty,
    make_export,
    make_exporting,
    make_state_after_export,
    make_swapping,
)
from icdc_testing.target.step_cases import (
    CHANGED,
    INDEX_MISSING,
    OLDER,
    RECREATED,
    ROLLBACK,
    make_view,
)

pytestmark = pytest.mark.unit


def make_step(index: str) -> Step:
    reason = f"a rollback to {index} was requested"
    return Step(kind=StepKind.ROLLBACK, index=index, reason=reason)


def stay(why: str) -> Step:
    return Step(kind=StepKind.ROLLBACK, reason=f"a rollback was requested, but {why}")


NAMED = replace(ROLLBACK, is_named=True)
SEE = " (see sink.opensearch.keepIndices)"
LOST = replace_index(make_state_after_export(), 2, loss="it was restored")
BEGUN = TWO.model_copy(update={"begun_index": FIRST})
COPY = {"is_trusted": False, "index_loss": "the state document was restored"}


@pytest.mark.parametrize(
    ("document", "policies", "seen", "wanted"),
    [
        (TWO, ROLLBACK, {}, make_step(FIRST)),
        (TWO, NAMED, {}, make_step(FIRST)),
        # What is wrong with the index that is left may be why somebody asks.
        (TWO, ROLLBACK, CHANGED, make_step(FIRST)),
        (TWO, ROLLBACK, INDEX_MISSING, make_step(FIRST)),
        (TWO.with_intent(make_export(3, THIRD), now=NOW), ROLLBACK, {}, make_step(FIRST)),
        (begin_export(TWO, 3), ROLLBACK, {}, make_step(SECOND)),
        # Complete and intact it is served first, and left in the next step.
        (complete_export(begin_export(TWO, 3)), ROLLBACK, {}, StepKind.REPLAY),
        (complete_export(begin_export(TWO, 3)), ROLLBACK, INDEX_MISSING, make_step(SECOND)),
        # Once, and only where it is known that it was not made before.
        (TWO.with_resync(1, 77, now=NOW), ROLLBACK, {}, StepKind.CHANGELOG),
        (TWO, replace(ROLLBACK, resync_id=None), {}, StepKind.CHANGELOG),
        (SPOILT, NAMED, {}, make_step(FIRST)),
        # No names are no order to all: a table that has nothing to go back to goes on, and so does
        # one for which nothing but an export would follow.
        (make_state_after_export(), ROLLBACK, {}, stay("no earlier index of it is recorded" + SEE)),
        (BEGUN, ROLLBACK, {}, stay(f"{FIRST} began with mode StreamOnly, so it lacks rows")),
        (BEGUN, replace(ROLLBACK, stream_only=True), {}, make_step(FIRST)),
        (LOST, ROLLBACK, {}, stay(f"{FIRST} cannot be used again, because it was restored")),
        (TWO, ROLLBACK, RECREATED, stay(f"the table was created again since readers used {FIRST}")),
        (TWO, NAMED, RECREATED, make_step(FIRST)),
        (
            TWO,
            ROLLBACK,
            {"readable": frozenset({"80", "81"})},
            stay(f"snapshot 77, which {FIRST} equals, has expired or was removed"),
        ),
        (TWO, NAMED, {"readable": frozenset({"80", "81"})}, make_step(FIRST)),
        (
            TWO,
            replace(ROLLBACK, export_only=True),
            {"readable": frozenset({"80", "81"})},
            make_step(FIRST),
        ),
        # Before the first export is complete there is nothing to go back to, whoever is named.
        (make_exporting(), NAMED, {}, stay("no earlier index of it is recorded" + SEE)),
        (make_swapping(), ROLLBACK, {}, StepKind.REPLAY),
    ],
)
def test_the_next_step_is(
    document: StateDocument, policies: Policies, seen: dict[str, Any], wanted: Step | StepKind | str
) -> None:
    inputs = build_inputs(document, seen)
    chosen = choose_step(inputs, policies)
    assert wanted in (chosen, chosen.kind, chosen.reason)
    # It writes no chunk of an export, so no window holds it up.
    assert choose_meanwhile(chosen, inputs, policies) == chosen


def build_inputs(document: StateDocument, seen: dict[str, Any]) -> StepInputs:
    readable = frozenset({"77", "80", "81"})
    return make_view(document, **({"head": "81", "readable": readable} | seen))


@pytest.mark.parametrize(
    ("document", "policies", "refusal", "message"),
    [
        (TWO, ROLLBACK, "the spec asks for other documents", "index orders-000002: the spec asks"),
        (
            begin_export(TWO, 3),
            ROLLBACK,
            "it was restored",
            "index orders-000002: it was restored",
        ),
        (
            make_state_after_export(),
            NAMED,
            None,
            "no earlier index of it is recorded (see sink",
        ),
        (LOST, NAMED, None, "orders-000001 cannot be used again, because it was restored"),
    ],
)
def test_a_rollback_that_cannot_be_made_stalls_the_table_and_says_why(
    document: StateDocument, policies: Policies, refusal: str | None, message: str
) -> None:
    with pytest.raises(RollbackRefused) as raised:
        choose_step(build_inputs(document, {"rollback_refusal": refusal}), policies)
    assert message in raised.value.message
    assert raised.value.message.endswith("request of spec.resync replaces the rollback.")


@pytest.mark.parametrize(
    ("document", "seen"),
    [
        (make_empty(), {}),
        # A copy may name an index that was written since: it is a gap as without the request.
        (TWO, COPY),
        (begin_export(TWO, 3), COPY),
    ],
)
def test_where_nothing_is_left_to_go_back_to_the_table_is_exported(
    document: StateDocument, seen: dict[str, Any]
) -> None:
    policies = replace(NAMED, reexport_on_gap=True)
    assert choose_step(build_inputs(document, seen), policies).kind is StepKind.EXPORT


def test_a_document_that_is_a_copy_stalls_the_table_as_a_gap() -> None:
    with pytest.raises(Gap, match="the state document was restored"):
        choose_step(build_inputs(TWO, COPY), NAMED)


def test_an_older_answer_of_the_catalog_is_waited_out_before() -> None:
    with pytest.raises(SourceUnavailable, match="metadata that is older"):
        choose_step(make_view(TWO, **OLDER), ROLLBACK)
