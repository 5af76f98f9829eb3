"""The reconcile core against a world that crashes, loses, kills and edits at any moment."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from icdc_api import errors
from icdc_api.job.run_files import RunReport
from icdc_api.spec.changelog import Trigger
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import ResyncMode, RunKind, RunState
from icdc_api.status.triggers import Ask
from icdc_operator.core.observed import Queued, RunPhase
from icdc_testing.operator.deciding.world import QUEUED, TABLES, DecideWorld

FAILURES = (
    errors.TargetUnavailable("down"),
    errors.NodeLost("lost"),
    errors.Unauthorized("the Secret x"),
    errors.OutOfMemory("heap"),
    errors.Fenced("owned by another run.", epoch=4_070_908_800_000, run_id="elsewhere"),
)


class DecideMachine(RuleBasedStateMachine):
    """What may happen, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = DecideWorld()
        self.seen_applied = dict.fromkeys(TABLES, 0)
        self.older: dict[str, RunReport] = {}
        self.clock_is_right = True
        self.questions = 0

    @rule(
        crash=st.sampled_from(["", "", "", "before status", "before actions"]),
        queued=st.sampled_from([None, None, QUEUED]),
    )
    def reconcile(self, crash: str, queued: Queued | None) -> None:
        self.world.step(crash=crash, queued=queued)

    @rule(seconds=st.integers(1, 700))
    def pass_time(self, seconds: int) -> None:
        self.world.now += timedelta(seconds=seconds)

    # With the clock set back, the status lost and no trace left, nobody knows the last epoch but
    # the state document in the index, which no decision reads: the run is then Fenced. So it is
    # where others removed a run unseen, and the record that it is planned is dropped.
    @precondition(lambda self: self.world.remembers_last_epoch)
    @rule(seconds=st.integers(1, 3600))
    def set_clock_back(self, seconds: int) -> None:
        self.clock_is_right = False
        self.world.now -= timedelta(seconds=seconds)
        self.older.clear()  # which of two reports is the newer one is not to be told then

    @rule(table=st.sampled_from(TABLES))
    def commit(self, table: str) -> None:
        self.world.heads[table] += 1

    @rule(suspend=st.booleans())
    def edit_spec(self, suspend: bool) -> None:
        self.world.spec = self.world.spec.model_copy(update={"suspend": suspend})
        self.world.generation += 1

    @rule(mode=st.sampled_from(ResyncMode))
    def ask_for_resync(self, mode: ResyncMode) -> None:
        nonce = self.world.spec.resync.nonce + 1
        resync = self.world.spec.resync.model_copy(update={"nonce": nonce, "mode": mode})
        self.world.spec = self.world.spec.model_copy(update={"resync": resync})
        self.world.generation += 1

    @rule(mode=st.sampled_from([kind for kind in RunKind if kind.inspects]))
    def ask(self, mode: Any) -> None:
        self.questions += 1
        self.world.ask = Ask(id=f"q{self.questions}", mode=mode)

    @rule()
    def withdraw_question(self) -> None:
        self.world.ask = None

    @rule(which=st.sampled_from(["restart_nonce", "trigger"]))
    def change_trigger(self, which: str) -> None:
        spec = self.world.spec
        changes: dict[str, object] = {
            "restart_nonce": spec.restart_nonce + 1,
        }
        other = Trigger.ON_COMMIT if self._is_continuous else Trigger.CONTINUOUS
        changes["changelog"] = spec.changelog.model_copy(update={"trigger": other})
        name = "changelog" if which == "trigger" else which
        self.world.spec = spec.model_copy(update={name: changes[name]})
        self.world.generation += 1

    @property
    def _is_continuous(self) -> bool:
        return self.world.spec.changelog.trigger == Trigger.CONTINUOUS

    @rule(heads_known=st.booleans())
    def change_whether_heads_are_read(self, heads_known: bool) -> None:
        self.world.heads_known = heads_known

    @rule()
    def poll_without_a_right(self) -> None:
        self.world.blind = True
        self.world.step()
        assert self.world.status.holds(ConditionType.STALLED)
        self.world.blind = False

    @precondition(lambda self: self.world.live)
    @rule(report=st.sampled_from(["lost", "late"]))
    def show_older_report(self, report: str) -> None:
        """Let one poll see what the run had said before, or nothing, and the next one again."""
        run = self.world.live[0]
        older = self.older.get(run.name) if report == "late" else None
        self.world.runs[run.name] = replace(run, report=older)
        self.world.step()
        if self.world.runs.get(run.name) == replace(run, report=older):
            self.world.runs[run.name] = run

    @precondition(lambda self: self.world.live)
    @rule()
    def work(self) -> None:
        run = self.world.live[0]
        if run.report is not None and run.report.updated_at <= self.world.now:
            self.older[run.name] = run.report
        self.world.work(run.name)

    @precondition(lambda self: self.clock_is_right)
    @rule()
    def remove_ended_runs(self) -> None:
        self.world.runs = {run.name: run for run in self.world.live}

    @precondition(lambda self: self.world.live)
    @rule(error=st.sampled_from((None, *FAILURES)))
    def end_run(self, error: errors.IcdcError | None) -> None:
        self.world.end(self.world.live[0].name, finished=True, error=error)

    @precondition(lambda self: self.world.live)
    @rule(lingers=st.booleans())
    def kill_run(self, lingers: bool) -> None:
        run = self.world.live[0]
        missing = replace(run, phase=RunPhase.MISSING, writer_alive=lingers)
        self.world.runs[run.name] = missing

    @precondition(lambda self: self.world.status.current_run is None and not self.world.live)
    @precondition(lambda self: self.clock_is_right)
    @rule()
    def lose_status(self) -> None:
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
        if run is not None and run.kind.inspects and run.ask is None:
            assert last is not None
            assert last.generation == run.generation
            assert last.kind.inspects or last.state == RunState.SUCCEEDED

    @invariant()
    def the_history_is_bounded(self) -> None:
        assert len(self.world.status.recent_runs) <= 10

    @rule()
    def converge(self) -> None:
        world = self.world
        world.spec = world.spec.model_copy(update={"suspend": False})
        world.generation += 1
        world.heads_known = True
        for _ in range(14):
            decision = world.step()
            for run in world.live:
                world.work(run.name)
                world.end(run.name, finished=True)
            world.now += timedelta(seconds=min(decision.requeue_after or 1.0, 700.0))
        asked = world.status.observed_ask
        assert world.ask is None or (asked is not None and asked.finished)
        assert world.ask is None or asked is None or asked.id == world.ask.id
        assert world.applied == world.heads
        assert world.status.holds(ConditionType.READY)
        assert world.status.holds(ConditionType.CAUGHT_UP)
        verified = world.status.find_condition(ConditionType.VERIFIED)
        assert verified is not None
        assert verified.reason != "Pending"


DecideMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestMachine = pytest.mark.unit(DecideMachine.TestCase)


@pytest.mark.unit
def test_a_run_that_others_removed_unseen_is_created_again_as_it_was_recorded() -> None:
    world = DecideWorld()
    world.step()
    world.step()
    (run,) = world.live
    world.end(run.name, finished=True)
    world.runs.clear()
    world.step()
    assert [(run.name, run.epoch) for run in world.live] == [(run.name, run.epoch)]
    assert world.created_epochs == [run.epoch]


@pytest.mark.unit
def test_ready_does_not_flap_on_lag() -> None:
    world = DecideWorld()
    for _ in range(4):
        world.step()
        for run in world.live:
            world.work(run.name)
    assert world.status.holds(ConditionType.READY)
    for commits in range(1, 30):
        world.heads["shop.orders"] += commits
        for run in world.live:
            late = world.make_report(run, finished=False)
            world.runs[run.name] = replace(run, report=late)
        world.now += timedelta(seconds=90)
        before = world.status.find_condition(ConditionType.READY)
        world.step()
        assert world.status.find_condition(ConditionType.READY) == before
        assert not world.status.holds(ConditionType.CAUGHT_UP)
