"""What Flux and Argo CD make of pipelines by docs/gitops.md: the same as kstatus makes of them."""

from typing import Any

import pytest

from icdc_api import errors, naming
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableStatus
from icdc_api.status.runs import Failure, RunState
from icdc_operator.core.decide import decide
from icdc_testing.kube.charts import gitops
from icdc_testing.kube.charts.helm import Object
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_spec,
    make_stalled,
    run_record,
)

pytestmark = pytest.mark.api


def make_resource(status: dict[str, Any], generation: int = 1) -> Object:
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.KIND,
        "metadata": {"name": "shop", "generation": generation},
        "spec": {},
        "status": status,
    }


def make_reconciled(
    table: TableStatus | None, spec: PipelineSpec | None = None, **more: Any
) -> Object:
    """Return the pipeline with this table and these fields of its status, after a reconcile."""
    pipeline_status = PipelineStatus(
        observed_generation=1, tables=() if table is None else (table,), **more
    )
    return make_resource(
        decide(make_observed(spec or make_spec(), pipeline_status), NOW).status.to_resource()
    )


GOOD = run_record(state=RunState.SUCCEEDED, finished_at=NOW)
LOST = Failure.of(errors.SourceUnavailable("the catalog does not answer"))
BAD = run_record(state=RunState.FAILED, finished_at=NOW, failure=LOST)
PIPELINES = {
    "just applied": (make_resource({"observedGeneration": -1}), Verdict.IN_PROGRESS),
    "first export": (make_reconciled(None), Verdict.IN_PROGRESS),
    "up": (make_reconciled(make_caught_up(), last_run=GOOD), Verdict.CURRENT),
    "behind": (
        make_reconciled(make_caught_up(current_snapshot_id="9", snapshots_behind=1), last_run=GOOD),
        Verdict.CURRENT,
    ),
    "changed since": (
        {
            **make_reconciled(make_caught_up(), last_run=GOOD),
            "metadata": {"name": "shop", "generation": 2},
        },
        Verdict.IN_PROGRESS,
    ),
    "tried again": (
        make_reconciled(
            make_caught_up(), last_run=BAD, consecutive_failures=1, next_attempt_time=NOW
        ),
        Verdict.IN_PROGRESS,
    ),
    "outlasted": (
        make_reconciled(
            make_caught_up(), last_run=BAD, consecutive_failures=8, next_attempt_time=NOW
        ),
        Verdict.FAILED,
    ),
    "a table stalled": (make_reconciled(make_stalled(TableReason.GAP)), Verdict.FAILED),
    "suspended": (
        {**make_reconciled(make_caught_up(), make_spec(suspend=True)), "spec": {"suspend": True}},
        Verdict.CURRENT,
    ),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, gitops.ToolHealth]:
    by_tool = gitops.ask_tools([object_ for object_, _ in PIPELINES.values()])
    return dict(zip(PIPELINES, by_tool, strict=True))


@pytest.mark.parametrize("name", PIPELINES)
def test_flux_and_argo_cd_agree_with_kstatus(
    name: str, answers: dict[str, gitops.ToolHealth]
) -> None:
    about, verdict = PIPELINES[name]
    assert gitops.check_agreement(about, answers[name]) == verdict
    assert (answers[name].argo == "Suspended") == (name == "suspended")


@pytest.mark.parametrize("name", ["tried again", "outlasted", "a table stalled"])
def test_argo_cd_shows_what_the_pipeline_says(
    name: str, answers: dict[str, gitops.ToolHealth]
) -> None:
    about, verdict = PIPELINES[name]
    shown = "Stalled" if verdict == Verdict.FAILED else "Reconciling"
    messages = {
        condition["type"]: condition["message"] for condition in about["status"]["conditions"]
    }
    assert answers[name].message == messages[shown]
