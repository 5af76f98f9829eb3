"""Questions that a continuous run answers while it follows its tables."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunQuestion
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableState
from icdc_api.status.runs import ResyncMode, RunKind, RunState
from icdc_api.status.triggers import Ask, ObservedResync, ObservedTriggers
from icdc_operator.core.decide import decide
from icdc_operator.core.events import derive_events
from icdc_operator.core.observed import StopRun
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up

from .followed_pipeline import (
    EQUAL,
    RUN,
    TABLES,
    VERIFY,
    apply,
    get_question,
    make_followed,
    make_run,
    resync,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        (RunKind.PLAN, RunMode.PLAN),
        (RunKind.VERIFY, RunMode.VERIFY),
        (RunKind.REPAIR, RunMode.REPAIR),
        (RunKind.DEAD_LETTERS, RunMode.DEAD_LETTERS),
        (RunKind.REPLAY, RunMode.REPLAY),
    ],
)
def test_a_person_is_answered_by_the_run_that_goes_on(kind: Any, mode: RunMode) -> None:
    world = make_followed(Ask(id="q1", mode=kind))
    first = decide(world, NOW)
    assert get_question(first) == RunQuestion(id="q1", mode=mode)
    ask = first.status.observed_ask
    assert ask is not None
    assert (ask.id, ask.run, ask.finished) == ("q1", RUN.name, False)
    half = {"question": "q1", "complete": False, "tables": EQUAL[:1]}
    world = apply(world, first, runs=(make_run(result=half),))
    second = decide(world, NOW)
    assert get_question(second) == RunQuestion(id="q1", mode=mode), "until the answer is there"
    whole = {"question": "q1", "complete": True, "tables": EQUAL}
    last = decide(apply(world, second, runs=(make_run(result=whole),)), NOW)
    assert get_question(last) is None, "the run shall forget the answer in a while"
    ask = last.status.observed_ask
    assert ask is not None
    assert (ask.run, ask.finished, ask.failure) == (RUN.name, True, None)
    assert last.status.current_run is not None
    assert last.status.current_run.state == RunState.RUNNING


def test_tables_and_ids_that_a_person_names_are_asked_about_alone() -> None:
    ask = Ask(id="q1", mode=RunKind.REPLAY, tables=(TABLES[1],), ids=("7",))
    question = RunQuestion(id="q1", mode=RunMode.REPLAY, only=(TABLES[1],), ids=("7",))
    assert get_question(decide(make_followed(ask), NOW)) == question


def test_a_comparison_of_one_table_leaves_the_run_and_counts_as_of_its_generation() -> None:
    world = resync("Verify", "shop.users")
    first = decide(world, NOW)
    asked = RunQuestion(id="resync-1-2000", mode=RunMode.VERIFY, tables=("shop.users",))
    assert get_question(first) == asked
    run, triggers = first.status.current_run, first.status.observed_triggers
    assert run is not None
    assert (run.name, run.state, run.generation) == (RUN.name, RunState.RUNNING, 2)
    assert triggers is not None
    assert triggers.resync is not None
    assert (triggers.resync_nonce, triggers.verified_nonce) == (1, 0)
    assert not first.status.holds(ConditionType.RECONCILING)
    verified = first.status.find_condition(ConditionType.VERIFIED)
    assert verified is not None
    assert (verified.status, verified.reason) == ("Unknown", "Pending")
    answer = {"question": asked.id, "complete": True, "tables": EQUAL}
    world = apply(world, first, runs=(make_run(result=answer),))
    last = decide(world, NOW)
    assert get_question(last) is None
    orders, users = last.status.tables
    assert orders.verification is None, "it was not asked for, whatever the report says"
    assert users.verification is not None
    assert (users.verification.nonce, users.verification.equal) == (1, True)
    assert last.status.holds(ConditionType.VERIFIED)
    assert [event.reason for event in derive_events(first.status, last.status)] == ["Verified"]
    again = decide(apply(world, last, runs=(make_run(),)), NOW)
    assert not again.actions, "a nonce is honoured once"
    assert again.status.tables == last.status.tables


def test_a_table_that_gives_no_answer_is_not_verified_and_says_so() -> None:
    world = resync("Repair")
    first = decide(world, NOW)
    answer = {"question": "resync-1-2000", "complete": True, "tables": EQUAL[:1]}
    last = decide(apply(world, first, runs=(make_run(result=answer),)), NOW)
    orders, users = (table.verification for table in last.status.tables)
    assert orders is not None
    assert users is not None
    assert (orders.equal, users.equal, users.reason) == (True, None, "Bug")
    assert users.message
    assert RUN.name in users.message


def test_mode_and_tables_count_as_they_were_when_the_nonce_was_raised() -> None:
    world = resync("Verify", "shop.users")
    first = decide(world, NOW)
    edited = resync("Export").spec
    second = decide(apply(world, first, spec=edited, generation=3), NOW)
    assert get_question(second) == get_question(first)


def test_a_rollback_needs_another_run_as_an_export_does() -> None:
    for mode in ("Export", "Rollback"):
        decision = decide(resync(mode, "shop.users"), NOW)
        assert decision.actions == (StopRun(RUN.name, graceful=True),), mode


@pytest.mark.parametrize("state", [TableState.PENDING, TableState.EXPORTING])
def test_a_comparison_waits_until_its_tables_are_exported(state: TableState) -> None:
    world = resync("Verify", "shop.users")
    tables = (make_caught_up("shop.orders"), make_caught_up("shop.users", state=state))
    status = world.status.model_copy(update={"tables": tables})
    world = replace(world, status=status, runs=(make_run(tables=tables),))
    decision = decide(world, NOW)
    assert not decision.actions
    ready = decide(apply(world, decision, runs=(make_run(),)), NOW)
    assert get_question(ready) is not None


def test_a_driver_that_takes_no_questions_makes_room_once_the_tables_are_exported() -> None:
    """It was started to stay while a table waited, and is of an older image."""
    world = resync("Verify", "shop.users")
    world = apply(world, decide(world, NOW), runs=(make_run(takes_questions=False),))
    assert decide(world, NOW).actions == (StopRun(RUN.name, graceful=True),)
    exporting = (
        make_caught_up("shop.orders"),
        make_caught_up("shop.users", state=TableState.EXPORTING),
    )
    status = world.status.model_copy(update={"tables": exporting})
    unready = make_run(takes_questions=False, tables=exporting)
    assert not decide(replace(world, status=status, runs=(unready,)), NOW).actions


def test_what_was_begun_first_is_answered_first() -> None:
    world = resync()
    begun = {"question": "resync-1-2000", "complete": False, "tables": []}
    first = decide(world, NOW)
    world = apply(world, first, ask=VERIFY, runs=(make_run(result=begun),))
    second = decide(world, NOW)
    question = get_question(second)
    assert question is not None
    assert question.id == "resync-1-2000"
    done = {"question": "resync-1-2000", "complete": True, "tables": EQUAL}
    world = apply(world, second, runs=(make_run(result=done),))
    third = decide(world, NOW)
    assert get_question(third) == RunQuestion(id="q1", mode=RunMode.VERIFY)
    # And the other way round: a person's question that was handed over stays until its answer.
    spec, hashed = resync(nonce=2).spec, "same"
    world = apply(world, third, spec=spec, spec_hash=hashed, generation=3)
    assert get_question(decide(world, NOW)) == RunQuestion(id="q1", mode=RunMode.VERIFY)


def test_a_question_that_is_withdrawn_is_taken_from_the_run() -> None:
    first = decide(make_followed(VERIFY), NOW)
    second = decide(apply(make_followed(None), first), NOW)
    assert get_question(second) is None
    ask = second.status.observed_ask
    assert ask is not None
    assert ask.finished
    assert ask.failure is not None
    third = decide(apply(make_followed(None), second), NOW)
    assert not third.actions


def test_a_question_is_taken_back_until_the_run_holds_it_no_more() -> None:
    first = decide(make_followed(VERIFY), NOW)
    second = decide(apply(make_followed(None), first), NOW)
    # The operator was ended before it could remove the question, and the driver has read it.
    held = make_run(result={"question": "q1", "complete": False, "tables": []})
    third = decide(apply(make_followed(None), second, runs=(held,)), NOW)
    assert get_question(third) is None
    last = decide(apply(make_followed(None), third, runs=(make_run(),)), NOW)
    assert not last.actions


def test_a_question_in_place_of_another_is_asked_at_once() -> None:
    first = decide(make_followed(VERIFY), NOW)
    second = decide(apply(make_followed(Ask(id="q2", mode=RunKind.REPAIR)), first), NOW)
    assert get_question(second) == RunQuestion(id="q2", mode=RunMode.REPAIR)


def test_the_answer_to_an_earlier_request_is_none_to_a_later_one() -> None:
    asked = ObservedResync(nonce=1, mode=ResyncMode.VERIFY, id=5)
    triggers = ObservedTriggers(resync_nonce=1, verified_nonce=1, resync=asked)
    world = resync(nonce=2)
    status = world.status.model_copy(update={"observed_triggers": triggers})
    answer = {"question": "resync-1-2000", "complete": True, "tables": EQUAL}
    world = replace(world, status=status, runs=(make_run(result=answer),))
    question = get_question(decide(world, NOW))
    assert question is not None
    assert question.id == "resync-2-2000"


@pytest.mark.parametrize(
    "result",
    [
        {"question": "q1", "complete": "true", "tables": EQUAL},
        {"question": "q2", "complete": True, "tables": EQUAL},
        {"complete": True},
        {},
    ],
)
def test_a_report_that_answers_something_else_ends_no_question(result: dict[str, Any]) -> None:
    world = make_followed(VERIFY)
    first = decide(world, NOW)
    decision = decide(apply(world, first, runs=(make_run(result=result),)), NOW)
    assert get_question(decision) == RunQuestion(id="q1", mode=RunMode.VERIFY)
