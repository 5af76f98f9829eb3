"""The reconcile core against a world that crashes, loses, kills and edits at any moment."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from icdc_api import errors
from icdc_api.conditions import ConditionType
from icdc_api.job import RunReport
from icdc_api.runs import Failure, RunState
from icdc_api.spec import ResyncMode
from icdc_api.status import PipelineStatus, TableState, TableStatus, parse_status
from icdc_operator import run_log
from icdc_operator.decide import decide
from icdc_operator.observed import (
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
from support_pipelines import NOW, make_spec

TABLES = ("shop.orders", "shop.customers")
QUEUED = Queued(60.0, "--max-active-runs", allowed=1, position=1, waiting=1)
FAILURES = (
    errors.TargetUnavailable("down"),
    errors.NodeLost("lost"),
    errors.Unauthorized("the Secret x"),
    errors.OutOfMemory("heap"),
)


@dataclass
class World:
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

    @property
    def live(self) -> list[RunSeen]:
        return [run for run in self.runs.values() if run.live]

    def observed(self, queued: Queued | None = None) -> Observed:
        return Observed(
            queued=queued,
            namespace="default",
            name="shop",
            generation=self.generation,
            spec=self.spec,
            status=self.status,
            runs=tuple(self.runs.values()),
            heads={name: str(head) for name, head in self.heads.items()},
        )

    def step(self, *, crash: str = "", queued: Queued | None = None) -> Decision:
        """One round of an operator that may die before the status is durable, or before it acts."""
        decision = decide(self.observed(queued), self.now)
        again = decide(self.observed(queued), self.now)
        assert again == decision, "the same observation gives the same decision"
        if queued is not None:
            planned = run_log.new(self.status, decision.status)
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
                    if run.name not in self.runs:
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
        report = self.report(run, finished=finished, error=error) if finished else run.report
        phase = RunPhase.SUCCEEDED if finished and error is None else RunPhase.GONE
        self.runs[name] = replace(run, phase=phase, writer_alive=False, report=report)

    def report(
        self, run: RunSeen, *, finished: bool, error: errors.IcdcError | None = None
    ) -> RunReport:
        return RunReport(
            run_id=run.name,
            started_at=NOW,
            updated_at=self.now,
            finished=finished,
            tables=tuple(self.table(name, run) for name in TABLES),
            outcome=None if error is None else Failure.of(error),
            result=self.verdicts() if finished and error is None and compares(run.name) else None,
        )

    def verdicts(self) -> dict[str, list[dict[str, object]]]:
        return {"tables": [{"name": name, "equal": True} for name in TABLES]}

    def table(self, name: str, run: RunSeen) -> TableStatus:
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
        report = self.report(run, finished=False)
        self.runs[name] = replace(run, phase=RunPhase.RUNNING, report=report)


def compares(run: str) -> bool:
    """By the letter in the name of the run."""
    return run.split("-")[-2][0] in "vr"


class Machine(RuleBasedStateMachine):
    """What may happen, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.seen_applied = dict.fromkeys(TABLES, 0)

    @rule(
        crash=st.sampled_from(["", "", "", "before status", "before actions"]),
        queued=st.sampled_from([None, None, QUEUED]),
    )
    def operator_looks(self, crash: str, queued: Queued | None) -> None:
        self.world.step(crash=crash, queued=queued)

    @rule(seconds=st.integers(1, 700))
    def time_passes(self, seconds: int) -> None:
        self.world.now += timedelta(seconds=seconds)

    @rule(table=st.sampled_from(TABLES))
    def somebody_commits(self, table: str) -> None:
        self.world.heads[table] += 1

    @rule(suspend=st.booleans())
    def spec_is_edited(self, suspend: bool) -> None:
        self.world.spec = self.world.spec.model_copy(update={"suspend": suspend})
        self.world.generation += 1

    @rule(mode=st.sampled_from(ResyncMode))
    def resync_is_asked_for(self, mode: ResyncMode) -> None:
        nonce = self.world.spec.resync.nonce + 1
        resync = self.world.spec.resync.model_copy(update={"nonce": nonce, "mode": mode})
        self.world.spec = self.world.spec.model_copy(update={"resync": resync})
        self.world.generation += 1

    @precondition(lambda self: self.world.live)
    @rule()
    def run_works(self) -> None:
        self.world.work(self.world.live[0].name)

    @precondition(lambda self: self.world.live)
    @rule(error=st.sampled_from((None, *FAILURES)))
    def run_ends(self, error: errors.IcdcError | None) -> None:
        self.world.end(self.world.live[0].name, finished=True, error=error)

    @precondition(lambda self: self.world.live)
    @rule(lingers=st.booleans())
    def run_is_killed(self, lingers: bool) -> None:
        run = self.world.live[0]
        gone = replace(run, phase=RunPhase.GONE, writer_alive=lingers)
        self.world.runs[run.name] = gone

    @precondition(lambda self: self.world.status.current_run is None and not self.world.live)
    @rule()
    def status_is_lost(self) -> None:
        self.world.status = PipelineStatus()
        self.seen_applied = dict.fromkeys(TABLES, 0)

    @invariant()
    def at_most_one_run_may_write(self) -> None:
        assert len(self.world.live) <= 1

    @invariant()
    def each_run_has_a_higher_epoch_than_all_before_it(self) -> None:
        created = self.world.created_epochs
        assert created == sorted(set(created))

    @invariant()
    def applied_progress_never_goes_back(self) -> None:
        for table in self.world.status.tables:
            number = table.applied_sequence_number or 0
            assert number >= self.seen_applied[table.name]
            self.seen_applied[table.name] = number

    @invariant()
    def every_condition_says_which_generation_it_is_about(self) -> None:
        status = self.world.status
        if status.observed_generation is None:
            return
        assert {condition.type for condition in status.conditions} == set(ConditionType)
        for condition in status.conditions:
            assert condition.observed_generation == status.observed_generation

    @invariant()
    def a_comparison_is_never_the_first_run_of_a_generation(self) -> None:
        run, last = self.world.status.current_run, self.world.status.last_run
        if run is not None and run.kind.compares:
            assert last is not None
            assert last.generation == run.generation
            assert last.kind.compares or last.state == RunState.SUCCEEDED

    @invariant()
    def the_history_is_bounded(self) -> None:
        assert len(self.world.status.recent_runs) <= 10

    @rule()
    def it_converges_when_the_world_is_kind(self) -> None:
        world = self.world
        world.spec = world.spec.model_copy(update={"suspend": False})
        world.generation += 1
        for _ in range(12):
            decision = world.step()
            for run in world.live:
                world.work(run.name)
                world.end(run.name, finished=True)
            world.now += timedelta(seconds=min(decision.requeue_after or 1.0, 700.0))
        assert world.applied == world.heads
        assert world.status.holds(ConditionType.READY)
        assert world.status.holds(ConditionType.CAUGHT_UP)
        verified = world.status.condition(ConditionType.VERIFIED)
        assert verified is not None
        assert verified.reason != "Pending"


Machine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestMachine = pytest.mark.unit(Machine.TestCase)


@pytest.mark.unit
def test_ready_does_not_flap_on_lag() -> None:
    world = World()
    for _ in range(4):
        world.step()
        for run in world.live:
            world.work(run.name)
    assert world.status.holds(ConditionType.READY)
    for commits in range(1, 30):
        world.heads["shop.orders"] += commits
        for run in world.live:
            late = world.report(run, finished=False)
            world.runs[run.name] = replace(run, report=late)
        world.now += timedelta(seconds=90)
        before = world.status.condition(ConditionType.READY)
        world.step()
        assert world.status.condition(ConditionType.READY) == before
        assert not world.status.holds(ConditionType.CAUGHT_UP)
