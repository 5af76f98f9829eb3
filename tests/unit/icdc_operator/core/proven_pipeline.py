"""A pipeline whose tables are compared again and again, while no run of it is active."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from icdc_api.status.pipeline_status import PipelineStatus, TableStatus, Verification
from icdc_api.status.runs import RunKind
from icdc_api.status.triggers import ObservedTriggers
from icdc_operator.core.observed import Decision, Observed
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up, make_observed, make_spec

from .followed_pipeline import LAST

EVERY: dict[str, Any] = {"verify": {"every": "10h"}}


def make_hours(number: float) -> timedelta:
    return timedelta(hours=number)


def make_compared(
    name: str, age: float, *, equal: bool | None = True, reason: str | None = None, **more: Any
) -> TableStatus:
    """Return a table that was compared `age` hours ago."""
    result = Verification(at=NOW - make_hours(age), equal=equal, reason=reason)
    return make_caught_up(name, verification=result, **more)


def make_idle(*tables: TableStatus, head: str = "7", **spec: Any) -> Observed:
    """Return a pipeline of which no run is active."""
    names = [table.name for table in tables]
    last = LAST.model_copy(update={"finished_at": NOW - timedelta(minutes=5)})
    status = PipelineStatus(
        observed_generation=1,
        tables=tables,
        last_run=last,
        recent_runs=(last,),
        observed_triggers=ObservedTriggers(),
    )
    world = make_observed(make_spec(*names, **(EVERY | spec)), status)
    return replace(world, heads=dict.fromkeys(names, head), heads_watched=True)


def get_planned_kind(decision: Decision) -> RunKind | None:
    run = decision.status.current_run
    return None if run is None else run.kind
