"""A pipeline whose continuous run follows two tables, and what it is asked meanwhile."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from icdc_api.job.run_files import RunQuestion, RunReport
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunKind, RunState
from icdc_api.status.triggers import Ask, ObservedTriggers
from icdc_operator.core.observed import AskRun, Decision, Observed, RunPhase, RunSeen
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_spec,
    run_record,
)

TABLES = ("shop.orders", "shop.users")
RUN = run_record(
    name="shop-c2-1",
    kind=RunKind.CHANGELOG,
    sequence=2,
    epoch=2000,
    run_id="shop-c2-1.2000",
    spec_hash="same",
)
LAST = run_record(state=RunState.SUCCEEDED, finished_at=NOW - timedelta(hours=1))
VERIFY = Ask(id="q1", mode=RunKind.VERIFY)
EQUAL = [{"name": name, "equal": True, "documents": 7} for name in TABLES]


def make_run(**report: Any) -> RunSeen:
    """Return the run that follows tables, with a driver that takes questions."""
    fields: dict[str, Any] = {"tables": [make_caught_up(name) for name in TABLES]}
    fields |= {"takes_questions": True} | report
    reported = RunReport(run_id="shop-c2-1.2000", started_at=NOW, updated_at=NOW, **fields)
    return RunSeen(RUN.name, RUN.epoch, RunPhase.RUNNING, writer_alive=True, report=reported)


def make_followed(ask: Ask | None = None, **spec: Any) -> Observed:
    """Return a pipeline whose continuous run follows two tables, and what it is asked."""
    whole = make_spec(*TABLES, **({"changelog": {"trigger": "Continuous"}} | spec))
    status = PipelineStatus(
        observed_generation=1,
        tables=tuple(make_caught_up(name) for name in TABLES),
        last_run=LAST,
        recent_runs=(LAST,),
        current_run=RUN,
        observed_triggers=ObservedTriggers(),
    )
    world = make_observed(whole, status)
    return replace(world, ask=ask, runs=(make_run(),), spec_hash="same")


def resync(mode: str = "Verify", *tables: str, nonce: int = 1, **more: Any) -> Observed:
    """Return the same after somebody has raised the nonce, which is a new generation."""
    asked = {"nonce": nonce, "mode": mode, "tables": list(tables)}
    return replace(make_followed(resync=asked, **more), generation=2)


def apply(world: Observed, decision: Decision, **more: Any) -> Observed:
    return replace(world, status=decision.status, **more)


def get_question(decision: Decision) -> RunQuestion | None:
    """Return the question that the run is asked; nothing else may be done with it."""
    assert [type(action) for action in decision.actions] == [AskRun], decision.actions
    (action,) = decision.actions
    assert isinstance(action, AskRun)
    assert action.run == decision.status.current_run
    return action.question
