"""A run that has caught up stays for the next commit, until something else is due."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_api.status.runs import RunState
from icdc_api.status.triggers import Ask
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import Observed, RunPhase, StopRun
from icdc_testing.operator.deciding.pipelines import NOW

from .followed_pipeline import RUN, TABLES, VERIFY, after, following, seen

pytestmark = pytest.mark.unit

LINGERS: dict[str, Any] = {"changelog": {"lingerSeconds": 60}}


def lingering(ask: Ask | None = None, changes: Any = None, **spec: Any) -> Observed:
    """Return a pipeline whose run has caught up, or has reported `changes` of its tables."""
    world = following(ask, **(LINGERS | spec))
    report = {"takes_questions": False} | ({} if changes is None else {"tables": changes})
    return replace(world, runs=(seen(**report),))


def behind() -> tuple[TableStatus, ...]:
    """Return tables of which the second is not exported yet."""
    first, second = following().status.tables
    return first, second.model_copy(update={"state": TableState.EXPORTING})


DUE: dict[str, Observed] = {
    "another pipeline waits": replace(lingering(), others_wait=True),
    "somebody asks to compare": lingering(VERIFY),
    "a comparison is requested": replace(
        lingering(resync={"nonce": 1, "mode": "Verify"}), generation=2
    ),
    "a re-export is requested": replace(lingering(resync={"nonce": 1}), generation=2),
    "a new attempt is requested": replace(lingering(restartNonce=1), generation=2),
    "the pipeline is suspended": replace(lingering(suspend=True), generation=2),
    "somebody asks for a run": replace(lingering(), asked_at=NOW),
}


def test_a_run_that_lingers_goes_on() -> None:
    decision = decide(lingering(), NOW)
    assert decision.actions == ()
    assert decision.status.current_run is not None
    assert decision.status.current_run.state == RunState.RUNNING


@pytest.mark.parametrize("due", DUE)
def test_a_run_that_lingers_ends_when_something_else_is_due(due: str) -> None:
    decision = decide(DUE[due], NOW)
    if not decision.actions:  # a new generation is adopted first, and acted on then
        decision = decide(after(DUE[due], decision), NOW)
    assert decision.actions == (StopRun(RUN.name, graceful=True),)


@pytest.mark.parametrize("due", ["another pipeline waits", "somebody asks to compare"])
def test_a_run_that_is_still_at_work_goes_on_whoever_waits(due: str) -> None:
    report = seen(takes_questions=False, tables=behind())
    decision = decide(replace(DUE[due], runs=(report,)), NOW)
    assert not any(isinstance(action, StopRun) for action in decision.actions)


def test_a_run_that_has_reported_no_table_goes_on_whoever_waits() -> None:
    """What the status says is of the run before: this one may have found a new snapshot."""
    world = replace(lingering(changes=()), others_wait=True)
    assert decide(world, NOW).actions == ()


@pytest.mark.parametrize("changelog", [{}, {"trigger": "Continuous", "lingerSeconds": 60}])
def test_only_a_run_that_lingers_gives_way(changelog: dict[str, Any]) -> None:
    world = replace(lingering(changelog=changelog), others_wait=True)
    assert not any(isinstance(action, StopRun) for action in decide(world, NOW).actions)


def test_a_run_that_gave_way_is_not_started_again_before_the_next_commit() -> None:
    """Two pipelines that linger, and one place: else each would start in turn without end."""
    world = replace(lingering(), others_wait=True)
    stopping = decide(world, NOW)
    ended = replace(
        seen(takes_questions=False, finished=True), phase=RunPhase.SUCCEEDED, writer_alive=False
    )
    heads = {table.name: table.current_snapshot_id for table in world.status.tables}
    quiet = replace(after(world, stopping, runs=(ended,)), heads=heads, others_wait=False)
    decision = decide(quiet, NOW)
    assert decision.status.last_run is not None
    assert decision.status.last_run.state == RunState.SUCCEEDED
    assert (decision.status.current_run, decision.status.next_attempt_time) == (None, None)
    commit = decide(after(quiet, decision, heads=heads | {TABLES[0]: "77"}), NOW)
    assert commit.status.current_run is not None
