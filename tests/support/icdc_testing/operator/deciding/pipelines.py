"""Builders of specs, statuses and observations for tests of the reconcile core."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from icdc_api.errors import NodeLost
from icdc_api.job.run_files import RunReport
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import Decision, Observed, RunPhase, RunSeen

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def make_spec(*tables: str, **spec: Any) -> PipelineSpec:
    """Return a spec with these tables; further keys go over the rest of it."""
    names = tables or ("shop.orders",)
    document = {
        "catalog": {"properties": {"type": "hadoop", "warehouse": "/nowhere"}},
        "tables": [{"name": name, "identifierColumns": ["id"]} for name in names],
        "sink": {"opensearch": {"hosts": ["http://127.0.0.1:1"]}},
        **spec,
    }
    return PipelineSpec.model_validate(document, by_alias=True, by_name=False)


def make_caught_up(name: str = "shop.orders", **more: Any) -> TableStatus:
    fields = {"applied_snapshot_id": "7", "current_snapshot_id": "7", "snapshots_behind": 0}
    state = {
        "state": TableState.STREAMING,
        "lag_seconds": None if "snapshots_behind" in more else 0,
    }
    return TableStatus(name=name, index=name, **(state | fields | more))


def make_stalled(reason: TableReason) -> TableStatus:
    return TableStatus(
        name="shop.orders", index="shop.orders", state=TableState.STALLED, reason=reason
    )


def make_observed(spec: PipelineSpec | None, status: PipelineStatus | None = None) -> Observed:
    return Observed(
        namespace="default",
        name="shop",
        generation=1,
        spec=spec,
        status=status or PipelineStatus(),
    )


def run_record(**more: Any) -> RunStatus:
    fields = {
        "name": "shop-e1-1",
        "kind": RunKind.EXPORT,
        "sequence": 1,
        "epoch": 1000,
        "state": RunState.RUNNING,
        "run_id": "shop-e1-1.1000",
        "generation": 1,
        "planned_at": NOW - timedelta(seconds=20),
        "started_at": NOW - timedelta(seconds=20),
    }
    return RunStatus(**(fields | more))


def make_behind(snapshots: int) -> TableStatus:
    """Return the table so many snapshots behind."""
    return make_caught_up(snapshots_behind=snapshots)


def make_report(*tables: TableStatus, finished: bool = False, **more: Any) -> RunReport:
    return RunReport(
        run_id="shop-e1-1.1000",
        started_at=NOW,
        updated_at=NOW,
        finished=finished,
        tables=tables,
        **more,
    )


def make_seen(phase: RunPhase, *, alive: bool | None = None, **more: Any) -> RunSeen:
    writer_alive = not phase.ended if alive is None else alive
    return RunSeen("shop-e1-1", 1000, phase, writer_alive, **more)


def make_active(spec: PipelineSpec, run: RunSeen, **record: Any) -> Observed:
    status = PipelineStatus(observed_generation=1, current_run=run_record(**record))
    return replace(make_observed(spec, status), runs=(run,))


def make_unheard(spec: PipelineSpec, *tables: TableStatus) -> Observed:
    """Return a pipeline whose driver has reported these tables, and is frozen since."""
    frozen = Failure.of(NodeLost("the driver has not renewed its report since 11:53"))
    seen = make_seen(RunPhase.RUNNING, report=make_report(*tables), failure=frozen)
    return make_active(spec, seen)


def decide_after_failure(spec: PipelineSpec, failure: Failure, *, failures: int = 0) -> Decision:
    world = make_active(
        spec, make_seen(RunPhase.FAILED, report=make_report(finished=True, outcome=failure))
    )
    status = world.status.model_copy(update={"consecutive_failures": failures})
    return decide(replace(world, status=status), NOW)
