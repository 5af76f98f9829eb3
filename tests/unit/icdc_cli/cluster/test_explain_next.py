"""What the operator does next, in one line, from what it left in the status."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icdc_api import errors
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState
from icdc_api.status.runs import Failure, RunKind, RunState
from icdc_cli.cluster.explain_next import MAX_LINE, explain_next_step
from icdc_operator.core import retry
from icdc_operator.core.conditions import summary as core
from icdc_operator.core.observed import Queued
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_spec,
    make_stalled,
    run_record,
)

pytestmark = pytest.mark.unit

GOOD = run_record(state=RunState.SUCCEEDED, finished_at=NOW, run_id=None)
DOWN = Failure.of(errors.TargetUnavailable("search refuses connections"))
FAILED = run_record(state=RunState.FAILED, finished_at=NOW, failure=DOWN)
SOON = NOW + timedelta(seconds=40)
LATER = NOW + timedelta(minutes=10)


def build_line(
    spec: PipelineSpec | None = None,
    *,
    generation: int = 1,
    queued: Queued | None = None,
    uncreated: Failure | None = None,
    **fields: Any,
) -> str:
    """Return the line for a status with these fields, as the operator would have written it."""
    spec_or_default = spec or make_spec()
    value = PipelineStatus(**{"observed_generation": 1, **fields})
    observed = replace(make_observed(spec_or_default), queued=queued, uncreated=uncreated)
    conditions = core.build_conditions(value, observed, now=NOW)
    value = value.model_copy(update={"conditions": conditions})
    metadata = {"name": "shop", "namespace": "default", "generation": generation}
    return explain_next_step({"metadata": metadata}, value, spec_or_default, now=NOW)


RUN = run_record(state=RunState.RUNNING)
GAP = make_stalled(TableReason.GAP).model_copy(update={"message": "expired"})
AUTH = Failure.of(errors.Unauthorized("the Secret x"))
COMPLETE = make_caught_up().model_copy(update={"state": TableState.COMPLETE})

CASES: list[tuple[dict[str, Any], str]] = [
    ({"observed_generation": None}, "unknown: no operator has seen the pipeline yet"),
    ({"generation": 2}, "reads generation 2 of the spec, which no operator has seen yet"),
    ({}, "starts the next run now"),
    (
        {"queued": Queued(5.0, "--max-active-runs", 4, position=2, waiting=3)},
        "starts the next run when it is its turn: queue position 2 of 3: the limit --max-active",
    ),
    (
        {"current_run": run_record(state=RunState.PLANNED)},
        "creates the run shop-e1-1 (Export, attempt 1) now",
    ),
    ({"current_run": RUN}, "follows the run shop-e1-1 (Export, attempt 1), which runs now"),
    ({"current_run": RUN, "uncreated": DOWN}, "which runs now: search refuses connections"),
    (
        {"current_run": run_record(state=RunState.STOPPING), "spec": make_spec(suspend=True)},
        "which is asked to end; it ends after its batch, as the pipeline is suspended",
    ),
    ({"spec": make_spec(suspend=True)}, "nothing: suspended until somebody sets spec.suspend"),
    (
        {"tables": (GAP,), "last_run": GOOD},
        "stalled: TableStalled: shop.orders: Gap: expired; "
        "action required: the author of the pipeline",
    ),
    (
        {"tables": (GAP,), "current_run": RUN},
        "which runs now; meanwhile stalled: TableStalled: shop.orders: Gap",
    ),
    (
        {"last_run": FAILED, "consecutive_failures": 2, "next_attempt_time": SOON},
        "waits 40s, until 12:00:40 UTC, and starts a run (attempt after failure 2)",
    ),
    (
        {"last_run": FAILED, "consecutive_failures": 8, "next_attempt_time": SOON},
        "stalled: TargetUnavailable: failed 8 times in a row: TargetUnavailable: search refuses "
        "connections; retried about every 600 s; resumes by itself; waits 40s, until",
    ),
    (
        {
            "last_run": run_record(state=RunState.FAILED, finished_at=NOW, failure=AUTH),
            "next_attempt_time": LATER,
        },
        "stalled: Unauthorized: Auth: the Secret x; "
        "action required: the platform engineer; retried",
    ),
    (
        {"tables": (make_caught_up(),), "last_run": GOOD},
        "polls for a new snapshot every 10 s, and then starts a run",
    ),
    (
        {
            "tables": (make_caught_up(),),
            "last_run": GOOD,
            "spec": make_spec(changelog={"trigger": "Continuous"}),
        },
        "waits 10s, until 12:00:10 UTC, and starts a run",
    ),
    (
        {"tables": (COMPLETE,), "last_run": GOOD, "spec": make_spec(mode="ExportOnly")},
        "nothing: every table is complete",
    ),
]


@pytest.mark.parametrize(("world", "expected"), CASES, ids=[text[:40] for _, text in CASES])
def test_the_next_step_is_said(world: dict[str, Any], expected: str) -> None:
    assert expected in build_line(**world)


def test_a_run_that_answers_a_question_does_not_end_for_a_suspend() -> None:
    run = run_record(state=RunState.RUNNING, kind=RunKind.PLAN, ask="a1")
    step = build_line(current_run=run, spec=make_spec(suspend=True))
    assert step == "follows the run shop-e1-1 (Plan, attempt 1), which runs now"


def test_a_line_is_one_line_and_bounded() -> None:
    long = make_stalled(TableReason.GAP).model_copy(update={"message": "a\nb " * 500})
    step = build_line(tables=(long,), last_run=GOOD)
    assert "\n" not in step
    assert len(step) <= MAX_LINE


def test_a_pipeline_that_is_being_deleted_gets_nothing_new() -> None:
    metadata = {"name": "shop", "namespace": "default", "deletionTimestamp": "2026-03-01T12:00:00Z"}
    step = explain_next_step({"metadata": metadata}, PipelineStatus(), make_spec(), now=NOW)
    assert step == "nothing new: the pipeline is being deleted"


def test_every_reason_of_a_stalled_table_says_who_acts() -> None:
    for reason in set(TableReason) - retry.PASSING_REASONS:
        step = build_line(tables=(make_stalled(reason),), last_run=GOOD)
        assert "; action required: " in step, reason
