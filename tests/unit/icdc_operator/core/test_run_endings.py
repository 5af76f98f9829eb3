"""Which questions and changes a continuous run outlasts, and what answers where it does not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from icdc_api import errors
from icdc_api.job.run_files import RunReport
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableState
from icdc_api.status.runs import Failure, RunKind
from icdc_api.status.triggers import Ask
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import (
    CreateRun,
    Decision,
    Observed,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up

from .followed_pipeline import (
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


OLD = make_run(takes_questions=False)
DEAF = replace(make_run(), deaf=True)
EXPORTING = make_run(
    tables=[make_caught_up(TABLES[0]), make_caught_up(TABLES[1], state=TableState.EXPORTING)],
)
"""Re-exports a table, which may take hours: the run can be stopped between two chunks."""


def make_reporting(ask: Ask, run: RunSeen) -> Observed:
    """Return a pipeline that is asked, and whose status has what the run reports."""
    world = make_followed(ask)
    tables = world.status.tables if run.report is None else run.report.tables
    return replace(world, runs=(run,), status=world.status.model_copy(update={"tables": tables}))


@pytest.mark.parametrize(
    ("ask", "run"),
    [
        (Ask(id="q1", mode=RunKind.DEAD_LETTERS, documents=True), make_run()),
        (VERIFY, EXPORTING),
        (Ask(id="q1", mode=RunKind.REPLAY, tables=(TABLES[1],)), EXPORTING),
        (VERIFY, OLD),
        (VERIFY, DEAF),
        (VERIFY, replace(make_run(), report=None)),
    ],
    ids=["documents", "exporting", "its table", "older driver", "refused", "not reporting"],
)
def test_what_the_run_cannot_answer_is_answered_by_a_run_of_its_own(ask: Ask, run: RunSeen) -> None:
    assert decide(make_reporting(ask, run), NOW).actions == (StopRun(RUN.name, graceful=True),)


@pytest.mark.parametrize("run", [OLD, DEAF, replace(make_run(), report=None)])
def test_a_comparison_ends_a_run_that_takes_no_questions(run: RunSeen) -> None:
    decision = decide(replace(resync(), runs=(run,)), NOW)
    assert decision.actions == (StopRun(RUN.name, graceful=True),)


def test_a_run_that_was_adopted_for_a_comparison_and_cannot_be_asked_makes_room() -> None:
    first = decide(resync(), NOW)
    assert get_question(first) is not None
    second = decide(apply(resync(), first, runs=(DEAF,)), NOW)
    assert second.actions == (StopRun(RUN.name, graceful=True),)


def test_a_question_about_tables_that_are_not_exported_now_leaves_the_run() -> None:
    ask = Ask(id="q1", mode=RunKind.REPLAY, tables=(TABLES[0],))
    assert get_question(decide(make_reporting(ask, EXPORTING), NOW)) is not None


def test_a_new_export_ends_the_run() -> None:
    decision = decide(resync("Export"), NOW)
    assert decision.actions == (StopRun(RUN.name, graceful=True),)


def test_a_change_of_what_runs_read_ends_the_run_although_it_asks_for_a_comparison() -> None:
    decision = decide(replace(resync(), spec_hash="other"), NOW)
    assert decision.actions == (StopRun(RUN.name, graceful=True),)


def test_a_change_of_what_runs_do_not_read_ends_no_run() -> None:
    world = replace(make_followed(history={"successful": 1}), generation=2)
    decision = decide(world, NOW)
    assert not decision.actions
    assert decision.status.current_run is not None
    assert decision.status.current_run.generation == 2
    ready = decision.status.find_condition(ConditionType.READY)
    assert ready is not None
    assert (ready.status, ready.observed_generation) == ("True", 2)


def test_a_run_that_ends_by_itself_is_followed_by_the_comparison() -> None:
    world = resync(changelog={"trigger": "OnCommit"})
    first = decide(replace(world, runs=(OLD,)), NOW)
    assert not first.actions
    ended = make_run(takes_questions=False, finished=True)
    over = replace(ended, phase=RunPhase.SUCCEEDED, writer_alive=False)
    second = decide(apply(world, first, runs=(over,)), NOW)
    assert second.status.current_run is not None
    assert second.status.current_run.kind is RunKind.VERIFY


def crash_driver(world: Observed, first: Decision) -> Observed:
    """Return the same after the driver was lost in the middle of it."""
    lost = Failure.of(errors.OutOfMemory("heap"))
    over = replace(make_run(), phase=RunPhase.FAILED, writer_alive=False, failure=lost)
    return apply(world, first, runs=(over,))


def test_a_question_during_which_the_driver_was_lost_is_asked_once_more_by_a_run_of_its_own() -> (
    None
):
    world = crash_driver(make_followed(VERIFY), decide(make_followed(VERIFY), NOW))
    run = decide(world, NOW).status.current_run
    assert run is not None
    assert (run.kind, run.ask) == (RunKind.VERIFY, "q1")


def test_a_comparison_during_which_the_driver_was_lost_is_repeated_by_a_run_of_its_own() -> None:
    world = crash_driver(resync(), decide(resync(), NOW))
    ended = decide(world, NOW)
    assert ended.status.last_run is not None
    assert ended.status.last_run.spec_hash is None
    later = NOW + timedelta(hours=1)
    world = apply(world, ended)
    planned = decide(world, later)
    created = decide(apply(world, planned), later)
    (create,) = [action for action in created.actions if isinstance(action, CreateRun)]
    assert not create.continuous, "the comparison follows it, with attempts of its own"
    run = create.run
    reported = RunReport(
        run_id=run.run_id or "",
        started_at=NOW,
        updated_at=later,
        finished=True,
        tables=[make_caught_up(name) for name in TABLES],
    )
    over = RunSeen(run.name, run.epoch, RunPhase.SUCCEEDED, False, report=reported)
    then = decide(apply(world, created, runs=(over,)), later).status.current_run
    assert then is not None
    assert then.kind is RunKind.VERIFY


def test_a_question_that_the_run_before_did_not_answer_is_not_asked_of_the_next() -> None:
    world = make_followed(VERIFY)
    first = decide(world, NOW)
    assert first.status.observed_ask is not None
    before = first.status.observed_ask.model_copy(update={"run": "shop-c1-1"})
    status = world.status.model_copy(update={"observed_ask": before})
    decision = decide(replace(world, status=status), NOW)
    assert decision.actions == (StopRun(RUN.name, graceful=True),)


def test_a_suspended_pipeline_asks_no_run() -> None:
    decision = decide(replace(resync(suspend=True), spec_hash="other"), NOW)
    assert decision.actions == (StopRun(RUN.name, graceful=True),)
