"""A model of the world for `decide`: tables are counters, an index follows them, runs end.

Every decision is checked for what must hold of all of them: see `DecideWorld.step`.
"""

from dataclasses import dataclass, replace

from icdc_api import errors
from icdc_api.job.run_files import RunReport
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus, parse_status
from icdc_api.status.runs import Failure, RunState
from icdc_api.status.triggers import Ask
from icdc_operator.core import run_log
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import (
    AddFinalizer,
    CreateRun,
    Decision,
    ForgetRun,
    Observed,
    Queued,
    RemoveFinalizer,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_testing.operator.deciding.pipelines import NOW, make_spec

TABLES = ("shop.orders", "shop.customers")
QUEUED = Queued(60.0, "--max-active-runs", allowed=1, position=1, waiting=1)


@dataclass
class DecideWorld:
    """A pipeline whose tables are counters, an index that follows them, and what runs."""

    def __post_init__(self) -> None:
        self.now = NOW
        self.spec = make_spec(*TABLES, retry={"maxAttempts": 3})
        self.generation = 1
        self.status = PipelineStatus()
        self.runs: dict[str, RunSeen] = {}
        self.heads = dict.fromkeys(TABLES, 1)
        self.applied = dict.fromkeys(TABLES, 0)
        self.created_epochs: list[int] = []

        self.ask: Ask | None = None
        self.blind = False
        """True if runs cannot be read."""
        self.heads_known = True

    @property
    def live(self) -> list[RunSeen]:
        return [run for run in self.runs.values() if run.live]

    @property
    def remembers_last_epoch(self) -> bool:
        """True if the status has more of the newest run than its Planned record."""
        run = self.status.current_run
        epochs = {run.epoch for run in self.status.recent_runs}
        if run is not None and run.state != RunState.PLANNED:
            epochs.add(run.epoch)
        return bool(self.status.recent_runs) and self.created_epochs[-1] in epochs

    def observe(self, queued: Queued | None = None) -> Observed:
        return Observed(
            queued=queued,
            ask=self.ask,
            namespace="default",
            name="shop",
            generation=self.generation,
            spec=self.spec,
            status=self.status,
            runs=() if self.blind else tuple(self.runs.values()),
            heads={n: str(head) for n, head in self.heads.items()} if self.heads_known else None,
            blind=self.blind,
            denied=Failure.of(errors.Submission("no right")) if self.blind else None,
        )

    def step(self, *, crash: str = "", queued: Queued | None = None) -> Decision:
        """Play one round of an operator that may die before the status is durable, or before it
        acts."""
        observed = self.observe(queued)
        decision = decide(observed, self.now)
        assert decide(observed, self.now) == decision, "the same observation, the same decision"
        check(observed, decision)
        if queued is not None:
            planned = run_log.find_new_run(self.status, decision.status)
            assert planned is None, "no run is planned out of turn"
        if crash == "before status":
            return decision
        # What is durable is what was written and read back.
        self.status = parse_status(decision.status.to_resource())
        assert self.status == decision.status
        if crash == "before actions":
            return decision
        for action in decision.actions:
            match action:
                case CreateRun(run, _):
                    assert not self.live, "a run is created while another may write"
                    assert self.status.current_run == run, "the record is durable first"
                    # One that others removed before it was looked at is created once more: the
                    # record says no more than that it is planned, and nothing of it lives.
                    if run.epoch not in self.created_epochs[-1:]:
                        self.created_epochs.append(run.epoch)
                    seen = RunSeen(run.name, run.epoch, RunPhase.PENDING, writer_alive=True)
                    self.runs.setdefault(run.name, seen)
                case ForgetRun(name):
                    del self.runs[name]
                case StopRun(name, graceful):
                    self.end(name, finished=graceful)
                case AddFinalizer() | RemoveFinalizer():
                    raise AssertionError("nothing here has finalizers")
        return decision

    def end(self, name: str, *, finished: bool, error: errors.IcdcError | None = None) -> None:
        run = self.runs[name]
        report = self.make_report(run, finished=finished, error=error) if finished else run.report
        phase = RunPhase.SUCCEEDED if finished and error is None else RunPhase.MISSING
        self.runs[name] = replace(run, phase=phase, writer_alive=False, report=report)

    def make_report(
        self, run: RunSeen, *, finished: bool, error: errors.IcdcError | None = None
    ) -> RunReport:
        return RunReport(
            run_id=run.name,
            started_at=NOW,
            updated_at=self.now,
            finished=finished,
            tables=tuple(self.make_table(name, run) for name in TABLES),
            outcome=None if error is None else Failure.of(error),
            result=self.make_verdicts()
            if finished and error is None and compares(run.name)
            else None,
        )

    def make_verdicts(self) -> dict[str, list[dict[str, object]]]:
        return {"tables": [{"name": name, "equal": True} for name in TABLES]}

    def make_table(self, name: str, run: RunSeen) -> TableStatus:
        if compares(run.name):
            return TableStatus(name=name, index=name)
        applied, head = self.applied[name], self.heads[name]
        return TableStatus(
            name=name,
            index=name,
            state=TableState.STREAMING if applied else TableState.EXPORTING,
            applied_snapshot_id=str(applied) if applied else None,
            applied_sequence_number=applied or None,
            applied_at=self.now if applied else None,
            current_snapshot_id=str(head),
            snapshots_behind=head - applied,
            lag_seconds=head - applied,
        )

    def work(self, name: str) -> None:
        for table in () if compares(name) else TABLES:
            self.applied[table] = self.heads[table]
        run = self.runs[name]
        report = self.make_report(run, finished=False)
        self.runs[name] = replace(run, phase=RunPhase.RUNNING, report=report)


def compares(run: str) -> bool:
    """Return whether it compares, by the letter in the name of the run."""
    return run.split("-")[-2][0] in "pvr"


def check(observed: Observed, decision: Decision) -> None:
    """Assert what holds of every decision, whatever was observed."""
    before, after = observed.status, decision.status
    assert after.observed_generation == observed.generation
    assert sorted(condition.type for condition in after.conditions) == sorted(ConditionType)
    assert {condition.observed_generation for condition in after.conditions} == {
        observed.generation
    }
    assert parse_status(after.to_resource()) == after, "what is written is what is read"
    creates = [action for action in decision.actions if isinstance(action, CreateRun)]
    live = [run for run in observed.runs if run.live]
    if creates:
        assert [create.run for create in creates] == [before.current_run], (
            "the record is durable first"
        )
        assert not live, "a run is created while another may write"
    for action in decision.actions:
        if isinstance(action, ForgetRun):
            assert action.name not in {run.name for run in live}, "a live run is forgotten"
    if observed.blind:
        assert not decision.actions
        assert (after.current_run, after.last_run) == (before.current_run, before.last_run)
    wait = decision.requeue_after
    assert wait is None or wait >= 0
    assert wait != 0 or after != before, "a look that changes nothing asks for another at once"
    _check_no_reason_is_lost(observed, decision)


def _check_no_reason_is_lost(observed: Observed, decision: Decision) -> None:
    """Assert that why a run failed is in the record of its end, and in a condition while it
    matters."""
    run, last = observed.status.current_run, decision.status.last_run
    if run is None or last is None or last.epoch != run.epoch or last == observed.status.last_run:
        return
    seen = observed.find_run(run)
    report = None if seen is None else seen.report
    failure = run.failure or (None if report is None else report.outcome)
    unreported = run.state != RunState.STOPPING and (report is None or not report.finished)
    if failure is None and unreported:
        failure = None if seen is None else seen.failure
        assert last.failure is not None, "a run without a last word has not ended well"
    if failure is not None:
        assert last.failure == failure
    assert (last.state == RunState.FAILED) == (last.failure is not None)
