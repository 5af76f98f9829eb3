"""A pipeline that is deleted with its indices, played for the reconcile core: it and its runs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from icdc_api.job.run_files import RunReport
from icdc_api.spec.pipeline import DeletionPolicy
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_api.status.runs import Failure
from icdc_operator.core import deletion, events
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import (
    Action,
    AddFinalizer,
    CreateRun,
    Decision,
    ForgetRun,
    RemoveFinalizer,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up, make_observed, make_spec


class DeletedWorld:
    """A pipeline and its runs: what is decided is carried out at once, or only a part of it."""

    def __init__(self, **spec: Any) -> None:
        made = make_spec(**{"deletionPolicy": "DeleteIndices", **spec})
        self.seen = replace(make_observed(made), finalizer=False)
        self.now = NOW
        self.done: list[Action] = []
        self.recorded: list[events.Event] = []
        self.missing = False

    @property
    def status(self) -> PipelineStatus:
        return self.seen.status

    def step(self, *, seconds: float = 1.0, cut_off: int | None = None) -> Decision:
        """Return a decision; `cut_off` actions of it are carried out before the operator dies."""
        self.now += timedelta(seconds=seconds)
        decision = decide(self.seen, self.now)
        self.recorded += events.derive_events(self.status, decision.status)
        written = parse_status(decision.status.to_resource())
        self.seen = replace(self.seen, status=written)
        for action in decision.actions[:cut_off]:
            self._act(action)
        assert len([run for run in self.seen.runs if run.live]) <= 1
        return decision

    def delete(self) -> None:
        """Somebody deletes the pipeline, which raises its generation."""
        since = replace(self.seen, deleting_since=self.now, closing=True)
        self.seen = replace(since, generation=since.generation + 1)

    def edit(self, **changes: Any) -> None:
        """Somebody changes the spec."""
        assert self.seen.spec is not None
        spec = self.seen.spec.model_copy(update=changes)
        self.seen = replace(self.seen, spec=spec, generation=self.seen.generation + 1)

    def end(self, outcome: Failure | None = None) -> None:
        """End the only live run, which says how."""
        (run,) = [run for run in self.seen.runs if run.live]
        table = make_caught_up().model_copy(
            update={"message": "shop.orders: deleted shop.orders-1"}
        )
        report = RunReport(
            run_id=f"{run.name}.{run.epoch}",
            started_at=self.now,
            updated_at=self.now,
            finished=True,
            outcome=outcome,
            tables=(table,) if deletion.is_deletion_run("shop", run.name) else (make_caught_up(),),
        )
        phase = RunPhase.SUCCEEDED if outcome is None else RunPhase.FAILED
        self._see(replace(run, phase=phase, writer_alive=False, report=report))

    def find_live_run(self) -> str | None:
        return next((run.name for run in self.seen.runs if run.live), None)

    def get_reason(self, kind: ConditionType = ConditionType.READY) -> str:
        result = self.status.find_condition(kind)
        return "" if result is None else result.reason

    def get_message(self) -> str:
        result = self.status.find_condition(ConditionType.READY)
        return "" if result is None else result.message

    def _see(self, run: RunSeen) -> None:
        others = tuple(other for other in self.seen.runs if other.name != run.name)
        self.seen = replace(self.seen, runs=(*others, run))

    def _act(self, action: Action) -> None:
        self.done.append(action)
        named = {run.name: run for run in self.seen.runs}
        match action:
            case CreateRun(run):
                spec = self.seen.spec
                assert spec is not None
                retains = spec.deletion_policy == DeletionPolicy.RETAIN
                assert self.seen.finalizer or retains
                if run.name not in named:
                    self._see(RunSeen(run.name, run.epoch, RunPhase.PENDING, writer_alive=True))
            case StopRun(name, graceful):
                if graceful:
                    self.end()
                else:
                    self._see(replace(named[name], phase=RunPhase.MISSING, writer_alive=False))
            case ForgetRun(name):
                left = tuple(run for run in self.seen.runs if run.name != name)
                self.seen = replace(self.seen, runs=left)
            case AddFinalizer():
                self.seen = replace(self.seen, finalizer=True)
            case RemoveFinalizer():
                self.seen = replace(self.seen, finalizer=False)
                self.missing = self.seen.deleting_since is not None
