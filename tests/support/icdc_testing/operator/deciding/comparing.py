"""A pipeline of two tables that is asked for comparisons: its runs are played."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from icdc_api.job.run_files import RunReport
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.conditions import Condition, ConditionType
from icdc_api.status.pipeline_status import (
    PipelineStatus,
    TableState,
    TableStatus,
    Verification,
    parse_status,
)
from icdc_api.status.runs import Failure, RunStatus
from icdc_operator.core import events
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import CreateRun, Decision, Observed, RunPhase, RunSeen, StopRun
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up, make_spec

ORDERS, ITEMS = "shop.orders", "shop.items"
NONE = {"count": 0, "samples": []}


def make_ask(mode: str = "Verify", nonce: int = 1, tables: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"resync": {"nonce": nonce, "mode": mode, "tables": list(tables)}}


def make_verdict(name: str, *missing: str, **more: Any) -> dict[str, Any]:
    """Return one table's entry in the answer of the application."""
    differing = {"count": len(missing), "samples": list(missing)}
    return {
        "name": name,
        "index": name,
        "snapshotId": "7",
        "documents": 10,
        "rows": 10 + len(missing),
        "equal": not missing,
        "missing": differing,
        "extra": NONE,
        "different": NONE,
        "repaired": None,
        **more,
    }


@dataclass
class ComparingWorld:
    """A pipeline of two tables that are followed well, and what its runs do."""

    spec: PipelineSpec
    generation: int = 1
    status: PipelineStatus = field(default_factory=PipelineStatus)
    now: datetime = NOW
    run: RunSeen | None = None
    created: list[CreateRun] = field(default_factory=list)
    recorded: list[events.Event] = field(default_factory=list)

    def reconcile(self, *, closing: bool = False) -> Decision:
        """Play one round of the operator."""
        decision = decide(replace(self.observe(), closing=closing), self.now)
        self.recorded += events.derive_events(self.status, decision.status)
        self.status = parse_status(decision.status.to_resource())
        for action in decision.actions:
            if isinstance(action, CreateRun):
                self.created.append(action)
                run = action.run
                self.run = RunSeen(run.name, run.epoch, RunPhase.PENDING, writer_alive=True)
            elif isinstance(action, StopRun):
                self.end(None)
        return decision

    def observe(self) -> Observed:
        return Observed(
            namespace="default",
            name="shop",
            generation=self.generation,
            spec=self.spec,
            status=self.status,
            runs=() if self.run is None else (self.run,),
            heads={ORDERS: "7", ITEMS: "7"},
        )

    def edit(self, **spec: Any) -> None:
        self.spec = make_spec(ORDERS, ITEMS, **spec)
        self.generation += 1

    def start(self) -> str:
        """Reconcile until the next run is created; return its name without the pipeline's."""
        before = len(self.created)
        for _ in range(6):
            decision = self.reconcile()
            if len(self.created) > before:
                return self.created[-1].run.name.removeprefix("shop-")
            self.now += timedelta(seconds=decision.requeue_after or 0)
        raise AssertionError(f"no run is started: {self.status}")

    def end(self, report: RunReport | None) -> None:
        assert self.run is not None
        self.run = replace(self.run, phase=RunPhase.MISSING, writer_alive=False, report=report)

    def follow(self, state: TableState = TableState.STREAMING) -> None:
        """Let the run bring both tables up to date and end well."""
        applied = "7" if state == TableState.STREAMING else None
        change = {"state": state, "applied_snapshot_id": applied}
        tables = tuple(make_caught_up(n).model_copy(update=change) for n in (ORDERS, ITEMS))
        self.end(self.make_report(tables))

    def answer(self, *entries: dict[str, Any], outcome: Failure | None = None) -> None:
        """Let the run compare, and end."""
        tables = tuple(TableStatus(name=name, index=name) for name in (ORDERS, ITEMS))
        result = {"tables": list(entries)} if entries else None
        self.end(self.make_report(tables, result=result, outcome=outcome))

    def make_report(self, tables: tuple[TableStatus, ...], **more: Any) -> RunReport:
        return RunReport(
            run_id="r",
            started_at=NOW,
            updated_at=self.now,
            finished=True,
            tables=tables,
            **more,
        )

    @property
    def verified(self) -> tuple[str, str, str]:
        verified = self.find_condition(ConditionType.VERIFIED)
        return verified.status.value, verified.reason, verified.message

    def find_condition(self, kind: ConditionType) -> Condition:
        condition = self.status.find_condition(kind)
        assert condition is not None
        return condition

    def get_last_run(self) -> RunStatus:
        assert self.status.last_run is not None
        return self.status.last_run

    def find_verification(self, name: str = ORDERS) -> Verification:
        (table,) = (table for table in self.status.tables if table.name == name)
        assert table.verification is not None
        return table.verification

    def list_reasons(self) -> list[str]:
        return [event.reason for event in self.recorded]


def make_exported() -> ComparingWorld:
    """Return two tables that a run has exported."""
    world = ComparingWorld(make_spec(ORDERS, ITEMS))
    assert world.start() == "e1-1"
    world.follow()
    world.reconcile()
    world.recorded.clear()
    return world


def begin_comparison(world: ComparingWorld, mode: str = "Verify", **spec: Any) -> None:
    """Ask for a comparison, and let it be at work."""
    world.edit(**make_ask(mode), **spec)
    assert world.start() == "c2-1"
    world.follow()
    assert world.start() == f"{mode[0].lower()}3-1"
