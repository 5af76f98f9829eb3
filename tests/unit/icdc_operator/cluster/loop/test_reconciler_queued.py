"""A run that is due while others go first: what the status says and when, and what then happens."""

import asyncio
from dataclasses import replace

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunState
from icdc_operator.cluster.kube.api_errors import (
    ClusterError,
    Conflict,
    Denied,
    Invalid,
    Unavailable,
)
from icdc_operator.cluster.loop.admission import POSITION_SECONDS, Admission
from icdc_operator.cluster.loop.slots import Limits
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.fakes.memory import SHOP, MemoryCluster
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_active,
    make_caught_up,
    make_observed,
    make_seen,
    make_spec,
    run_record,
)

pytestmark = pytest.mark.unit

FIRST, NEXT = PipelineKey("default", "first"), PipelineKey("default", "next")


class WaitingLine:
    """One slot, which another pipeline holds, and the pipeline of a cluster that wants it."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.woken: list[PipelineKey] = []
        self.admission = Admission(Limits(total=1), self.woken.append, lambda: 0.0)
        self.admission.note_listed(())
        self.take(FIRST)
        self.reconciler = cluster.make_reconciler(admission=self.admission)

    def take(self, key: PipelineKey) -> None:
        """Let a reconcile find a run of that pipeline."""
        world = replace(make_active(make_spec(), make_seen(RunPhase.RUNNING)), name=key.name)
        self.admission.admit(key, world, decide(world, NOW), NOW)

    def want(self, key: PipelineKey) -> str | None:
        """Let a reconcile find that a run is due; return its position."""
        world = replace(make_observed(make_spec()), name=key.name)
        queued = self.admission.admit(key, world, decide(world, self.cluster.now), NOW)
        return None if queued is None else queued.text

    def poll(self) -> float | None:
        return asyncio.run(self.reconciler.reconcile(SHOP))

    @property
    def status(self) -> PipelineStatus:
        assert self.cluster.observed is not None
        return self.cluster.observed.status

    def summarize_condition(self, kind: ConditionType) -> tuple[str, str, str]:
        condition = self.status.find_condition(kind)
        assert condition is not None
        return condition.status.value, condition.reason, condition.message


@pytest.fixture
def line() -> WaitingLine:
    return WaitingLine(MemoryCluster(make_observed(make_spec())))


def describe_position(position: int, waiting: int) -> str:
    return f"queue position {position} of {waiting}: the limit --max-active-runs (1) is reached"


def test_no_run_is_planned_and_the_place_is_told_until_the_turn_comes(line: WaitingLine) -> None:
    assert line.poll() == POSITION_SECONDS
    assert line.status.current_run is None
    assert line.summarize_condition(ConditionType.RUN_ACTIVE) == (
        "False",
        "Queued",
        describe_position(1, 1),
    )
    exporting = f"the first export is not finished: {describe_position(1, 1)}"
    assert line.summarize_condition(ConditionType.RECONCILING) == ("True", "Exporting", exporting)
    assert line.status.next_attempt_time == line.cluster.now
    assert [step.what for step in line.cluster.take_steps()] == ["save", "events"]
    line.admission.forget(FIRST)
    assert line.woken == [SHOP]
    assert line.poll() == 0.0
    assert line.status.current_run is not None
    assert line.status.next_attempt_time is None
    steps = line.cluster.take_steps("events")
    assert [step.detail for step in steps] == [("RunPlanned",)]


def test_a_changed_place_is_written_at_most_once_a_minute(line: WaitingLine) -> None:
    line.want(NEXT)
    line.cluster.pass_time(1)
    line.poll()
    assert line.summarize_condition(ConditionType.RUN_ACTIVE)[2] == describe_position(2, 2)
    line.cluster.take_steps()
    line.admission.forget(NEXT)
    line.cluster.pass_time(10)
    assert line.poll() == POSITION_SECONDS - 10
    assert line.cluster.take_steps() == []
    line.cluster.pass_time(POSITION_SECONDS - 10)
    line.poll()
    assert line.summarize_condition(ConditionType.RUN_ACTIVE)[2] == describe_position(1, 1)
    assert line.cluster.take_steps("events") == []


def test_what_is_ready_stays_ready_while_its_next_run_waits() -> None:
    good = run_record(state=RunState.SUCCEEDED, finished_at=NOW)
    status = PipelineStatus(
        observed_generation=1, tables=(make_caught_up(),), last_run=good, recent_runs=(good,)
    )
    world = replace(make_observed(make_spec(), status), heads={"shop.orders": "7"})
    line = WaitingLine(MemoryCluster(world))
    line.poll()
    before = line.summarize_condition(ConditionType.READY), line.status.phase
    assert before[0] == ("True", "Streaming", "")
    assert line.cluster.observed is not None
    line.cluster.observed = replace(line.cluster.observed, heads={"shop.orders": "8"})
    line.cluster.pass_time(60)
    line.poll()
    assert line.summarize_condition(ConditionType.READY) == (
        "True",
        "Streaming",
        describe_position(1, 1),
    )
    assert line.status.phase == before[1]
    assert line.summarize_condition(ConditionType.RUN_ACTIVE) == (
        "False",
        "Queued",
        describe_position(1, 1),
    )
    # It has been due since then, whatever is known of the heads later.
    line.cluster.observed = replace(line.cluster.observed, heads=None)
    line.admission.forget(FIRST)
    line.poll()
    assert line.status.current_run is not None


def test_until_the_runs_at_work_are_counted_the_last_known_place_stays(line: WaitingLine) -> None:
    line.poll()
    line.admission = Admission(Limits(total=1), line.woken.append, lambda: 0.0)
    line.reconciler = line.cluster.make_reconciler(admission=line.admission)
    line.cluster.take_steps()
    line.poll()
    assert line.cluster.take_steps() == []
    line.admission.note_listed((SHOP, FIRST))
    line.take(FIRST)
    line.admission.note_reconciled(FIRST)
    line.poll()
    assert line.cluster.take_steps() == []


def test_a_look_that_fails_counts_as_a_look(line: WaitingLine) -> None:
    def fail(what: str) -> None:
        raise Unavailable(what)

    line.admission = Admission(Limits(total=1), line.woken.append, lambda: 0.0)
    line.admission.note_listed((SHOP,))
    line.reconciler = line.cluster.make_reconciler(admission=line.admission)
    line.cluster.before = fail
    with pytest.raises(Unavailable):
        line.poll()
    assert line.want(NEXT) is None
    assert line.admission.active == 1


def test_a_run_that_nothing_records_holds_a_slot_while_it_may_write(line: WaitingLine) -> None:
    line.admission.forget(FIRST)
    assert line.cluster.observed is not None
    stray = replace(make_seen(RunPhase.MISSING, alive=True), epoch=1)
    line.cluster.observed = replace(line.cluster.observed, runs=(stray,))
    line.poll()
    assert line.admission.active == 1
    assert line.want(NEXT) == describe_position(1, 1)


def test_one_who_has_no_place_yet_says_what_it_waits_for() -> None:
    line = WaitingLine(MemoryCluster(make_observed(make_spec())))
    line.admission = Admission(Limits(total=1), line.woken.append, lambda: 0.0)
    line.reconciler = line.cluster.make_reconciler(admission=line.admission)
    line.poll()
    text = "active runs are being counted first"
    assert line.summarize_condition(ConditionType.RUN_ACTIVE) == ("False", "Queued", text)


@pytest.mark.parametrize(
    ("error", "given_back"), [(Conflict, True), (Invalid, True), (Unavailable, False)]
)
def test_the_turn_of_a_plan_that_was_certainly_not_written_is_given_back(
    line: WaitingLine, error: type[ClusterError], given_back: bool
) -> None:
    def fail(what: str) -> None:
        if what == "save":
            raise error("no")

    line.poll()
    line.admission.forget(FIRST)
    line.cluster.before = fail
    with pytest.raises(error):
        line.poll()
    assert (line.want(NEXT) is None) == given_back
    line.cluster.before = lambda _: None
    line.poll()
    assert (line.status.current_run is None) == given_back


def test_a_suspended_pipeline_leaves_the_line(line: WaitingLine) -> None:
    line.poll()
    assert line.cluster.observed is not None
    line.cluster.observed = replace(
        line.cluster.observed, spec=make_spec(suspend=True), generation=2
    )
    line.poll()
    assert line.admission.waiting == 0
    assert line.summarize_condition(ConditionType.RUN_ACTIVE) == ("False", "NoRun", "")
    assert line.status.next_attempt_time is None


def test_a_pipeline_that_is_gone_gives_its_slot_to_the_next(line: WaitingLine) -> None:
    line.admission.forget(FIRST)
    line.poll()
    assert line.want(NEXT) == describe_position(1, 1)
    line.cluster.observed = None
    line.poll()
    assert line.woken == [NEXT]


def deny(what: str) -> None:
    raise Denied(what)


def test_what_cannot_be_read_any_more_keeps_its_slot(working: MemoryCluster) -> None:
    line = WaitingLine(working)
    line.admission.forget(FIRST)
    line.poll()
    # A pipeline of that name was deleted before, and made anew.
    line.reconciler.note_event(SHOP, deleted=True)
    line.poll()
    working.before = deny
    with pytest.raises(Denied):
        line.poll()
    assert line.admission.active == 1
    working.before = lambda _: None
    line.poll()
    assert line.admission.active == 1


def test_what_is_deleted_and_cannot_be_read_any_more_leaves_its_slot_to_others(
    working: MemoryCluster,
) -> None:
    line = WaitingLine(working)
    line.admission.forget(FIRST)
    line.poll()
    assert line.want(NEXT) == describe_position(1, 1)
    working.before = deny
    line.reconciler.note_event(SHOP, deleted=True)
    assert line.poll() is None
    assert line.woken == [NEXT]
    assert line.reconciler.get_last_versions() == {}
    assert working.forgotten == [SHOP]
    # Its pods are collected after it, and reported.
    assert line.poll() is None
    line.reconciler.note_event(SHOP, deleted=False)
    with pytest.raises(Denied):
        line.poll()
