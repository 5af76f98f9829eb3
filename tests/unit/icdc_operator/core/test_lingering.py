"""A run that has caught up stays for the next commit, until something else is due."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_api.status.runs import RunState
from icdc_api.status.triggers import Ask, ObservedTriggers
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import CreateRun, Observed, RunPhase, StopRun
from icdc_testing.operator.deciding.pipelines import NOW

from .followed_pipeline import RUN, TABLES, VERIFY, apply, make_followed, make_run

pytestmark = pytest.mark.unit

LINGERS: dict[str, Any] = {"changelog": {"lingerSeconds": 60}}


def make_lingering(ask: Ask | None = None, **spec: Any) -> Observed:
    """Return a pipeline whose run says that it stays only for later commits."""
    world = make_followed(ask, **(LINGERS | spec))
    return replace(world, runs=(make_run(takes_questions=False, lingers=True),))


def make_behind() -> tuple[TableStatus, ...]:
    """Return tables of which the second is a commit behind."""
    first, second = make_followed().status.tables
    return first, second.model_copy(update={"snapshots_behind": 1})


def make_empty() -> tuple[TableStatus, ...]:
    """Return tables of which the second has no snapshot yet."""
    first, second = make_followed().status.tables
    none = dict.fromkeys(("snapshots_behind", "current_snapshot_id", "applied_snapshot_id"))
    return first, second.model_copy(update=none)


DUE: dict[str, Observed] = {
    "another pipeline waits": replace(make_lingering(), others_wait=True),
    "somebody asks to compare": make_lingering(VERIFY),
    "a comparison is requested": replace(
        make_lingering(resync={"nonce": 1, "mode": "Verify"}), generation=2
    ),
    "a re-export is requested": replace(make_lingering(resync={"nonce": 1}), generation=2),
    "a new attempt is requested": replace(make_lingering(restartNonce=1), generation=2),
    "the pipeline is suspended": replace(make_lingering(suspend=True), generation=2),
    "somebody asks for a run": replace(make_lingering(), asked_at=NOW),
}


def test_a_run_that_lingers_goes_on() -> None:
    decision = decide(make_lingering(), NOW)
    assert decision.actions == ()
    assert decision.status.current_run is not None
    assert decision.status.current_run.state == RunState.RUNNING


@pytest.mark.parametrize("due", DUE)
def test_a_run_that_lingers_ends_when_something_else_is_due(due: str) -> None:
    decision = decide(DUE[due], NOW)
    if not decision.actions:  # a new generation is adopted first, and acted on then
        decision = decide(apply(DUE[due], decision), NOW)
    assert decision.actions == (StopRun(RUN.name, graceful=True),)


def test_a_run_that_lingers_goes_on_while_a_comparison_waits_for_an_export() -> None:
    world = make_lingering(resync={"nonce": 1, "mode": "Verify"})
    first, second = world.status.tables
    waits = second.model_copy(update={"state": TableState.EXPORTING, "export_waits": True})
    update = {"tables": (first, waits), "observed_triggers": ObservedTriggers(resync_nonce=1)}
    status = world.status.model_copy(update=update)
    report = make_run(takes_questions=False, lingers=True, tables=(first, waits))
    assert decide(replace(world, status=status, runs=(report,)), NOW).actions == ()


@pytest.mark.parametrize("due", DUE)
def test_a_run_that_lingers_ends_also_where_a_table_is_behind_at_that_moment(due: str) -> None:
    """One of many tables with many commits always is, and the stop loses nothing."""
    report = make_run(takes_questions=False, lingers=True, tables=make_behind())
    decision = decide(replace(DUE[due], runs=(report,)), NOW)
    if not decision.actions:
        decision = decide(replace(apply(DUE[due], decision), runs=(report,)), NOW)
    assert decision.actions == (StopRun(RUN.name, graceful=True),)


@pytest.mark.parametrize("due", ["another pipeline waits", "somebody asks to compare"])
def test_a_run_that_does_not_say_that_it_lingers_goes_on_whoever_waits(due: str) -> None:
    world = replace(DUE[due], runs=(make_run(takes_questions=False),))
    assert not any(isinstance(action, StopRun) for action in decide(world, NOW).actions)


@pytest.mark.parametrize(
    ("changelog", "resync", "continuous", "linger_seconds"),
    [
        ({"lingerSeconds": 60}, {}, False, 60),
        ({"lingerSeconds": 0}, {}, False, None),
        ({}, {}, False, None),
        ({"trigger": "Continuous", "lingerSeconds": 60}, {}, True, None),
        # A comparison starts when the run before it has ended.
        ({"lingerSeconds": 60}, {"nonce": 1, "mode": "Verify"}, False, None),
        (
            {"trigger": "Continuous", "lingerSeconds": 60},
            {"nonce": 1, "mode": "Verify"},
            *(False, None),
        ),
    ],
)
def test_which_runs_linger(
    changelog: dict[str, Any],
    resync: dict[str, Any],
    continuous: bool,
    linger_seconds: int | None,
) -> None:
    spec: dict[str, Any] = {"changelog": changelog} | ({"resync": resync} if resync else {})
    world = make_followed(**spec)
    triggers = ObservedTriggers(resync_nonce=1 if resync else 0)
    run = RUN.model_copy(update={"state": RunState.PLANNED})
    status = world.status.model_copy(update={"current_run": run, "observed_triggers": triggers})
    decision = decide(replace(world, status=status, runs=()), NOW)
    (create,) = decision.actions
    assert isinstance(create, CreateRun)
    assert (create.continuous, create.linger_seconds) == (continuous, linger_seconds)


@pytest.mark.parametrize("tables", [make_followed().status.tables, make_empty()])
def test_a_run_that_gave_way_is_not_started_again_before_the_next_commit(
    tables: tuple[TableStatus, ...],
) -> None:
    """Two pipelines that linger, and one place: else each would start in turn without end."""
    world = replace(make_lingering(), others_wait=True)
    stopping = decide(world, NOW)
    ended = replace(
        make_run(takes_questions=False, lingers=True, finished=True, tables=tables),
        phase=RunPhase.SUCCEEDED,
        writer_alive=False,
    )
    heads = {table.name: table.current_snapshot_id for table in tables}
    quiet = replace(apply(world, stopping, runs=(ended,)), heads=heads, others_wait=False)
    decision = decide(quiet, NOW)
    assert decision.status.last_run is not None
    assert decision.status.last_run.state == RunState.SUCCEEDED
    assert (decision.status.current_run, decision.status.next_attempt_time) == (None, None)
    commit = decide(apply(quiet, decision, heads=heads | {TABLES[0]: "77"}), NOW)
    assert commit.status.current_run is not None


def test_a_run_that_gave_way_while_a_table_was_behind_is_due_at_once() -> None:
    world = replace(make_lingering(), others_wait=True)
    stopping = decide(world, NOW)
    report = make_run(takes_questions=False, lingers=True, finished=True, tables=make_behind())
    ended = replace(report, phase=RunPhase.SUCCEEDED, writer_alive=False)
    decision = decide(apply(world, stopping, runs=(ended,), others_wait=False), NOW)
    assert decision.status.current_run is not None
