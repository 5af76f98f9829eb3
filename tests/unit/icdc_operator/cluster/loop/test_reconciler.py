"""One look at one pipeline: the order of steps, what is written when, and what a crash leaves."""

import asyncio
from dataclasses import replace

import pytest

from icdc_operator.cluster.kube.api_errors import Conflict, NotFound, Unavailable
from icdc_operator.cluster.loop.reconciler import TRIES, WATCHED_SECONDS
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.core.decide import OBSERVE_SECONDS
from icdc_operator.core.observed import CreateRun, RunPhase, StopRun
from icdc_testing.operator.adapter.fakes.memory import SHOP, MemoryCluster
from icdc_testing.operator.deciding.pipelines import (
    make_observed,
    make_seen,
    make_spec,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def fresh() -> MemoryCluster:
    """A pipeline that nobody has looked at yet."""
    return MemoryCluster(make_observed(make_spec()))


def count(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def test_a_run_is_made_durable_told_of_and_created_in_this_order(fresh: MemoryCluster) -> None:
    reconciler = fresh.make_reconciler()
    assert asyncio.run(reconciler.reconcile(SHOP)) == 0.0
    assert [step.what for step in fresh.take_steps()] == ["save", "events"]
    assert asyncio.run(reconciler.reconcile(SHOP)) == OBSERVE_SECONDS
    (created,) = fresh.take_steps("act")
    assert isinstance(created.detail, CreateRun)


def test_nothing_is_written_when_nothing_changed(working: MemoryCluster) -> None:
    reconciler = working.make_reconciler()
    for _ in range(5):
        asyncio.run(reconciler.reconcile(SHOP))
        working.pass_time(1)
    assert working.take_steps() == []


def test_a_run_that_works_is_looked_at_less_often_than_one_that_starts(
    working: MemoryCluster,
) -> None:
    assert asyncio.run(working.make_reconciler().reconcile(SHOP)) == WATCHED_SECONDS
    working.see(report=None, phase=RunPhase.PENDING)
    assert asyncio.run(working.make_reconciler().reconcile(SHOP)) == OBSERVE_SECONDS


def test_a_conflict_is_looked_at_again_at_once(fresh: MemoryCluster) -> None:
    writes = iter(range(1))

    def write_meanwhile(what: str) -> None:
        if what == "save" and next(writes, None) is not None:
            fresh.touch()

    fresh.before = write_meanwhile
    metrics = Metrics()
    assert asyncio.run(fresh.make_reconciler(metrics).reconcile(SHOP)) == 0.0
    assert len(fresh.take_steps("save")) == 1
    assert count(metrics, "icdc_reconciles_total", result="conflict") == 1


def test_one_who_keeps_writing_makes_the_look_fail_and_no_action_happens(
    fresh: MemoryCluster,
) -> None:
    polls = []

    def write_meanwhile(what: str) -> None:
        if what == "save":
            fresh.touch()
        polls.append(what)

    fresh.before = write_meanwhile
    with pytest.raises(Conflict):
        asyncio.run(fresh.make_reconciler().reconcile(SHOP))
    assert polls == ["observe", "save"] * TRIES
    assert fresh.take_steps() == []


def test_a_run_without_a_record_is_stopped_only_if_there_is_still_none() -> None:
    stray = make_seen(RunPhase.RUNNING)
    cluster = MemoryCluster(replace(make_observed(make_spec()), runs=(stray,)))
    asyncio.run(cluster.make_reconciler().reconcile(SHOP))
    stop = StopRun(stray.name, graceful=False)
    assert [step.detail for step in cluster.take_steps("act")] == [stop]
    asked: list[str] = []

    def record_meanwhile(what: str) -> None:
        if what == "confirm" and what not in asked:
            cluster.touch()
        asked.append(what)

    cluster.before = record_meanwhile
    asyncio.run(cluster.make_reconciler().reconcile(SHOP))
    assert asked == ["observe", "confirm", "observe", "confirm", "act"]
    assert [step.detail for step in cluster.take_steps()] == [stop]


@pytest.mark.parametrize("deleted_at", ["observe", "save"])
def test_a_pipeline_that_is_gone_needs_no_look_and_leaves_no_metrics(
    fresh: MemoryCluster, deleted_at: str
) -> None:
    metrics = Metrics()
    reconciler = fresh.make_reconciler(metrics)

    def vanish(what: str) -> None:
        if what == deleted_at == "save":
            raise NotFound("it is gone")

    fresh.before = vanish
    if deleted_at == "observe":
        fresh.observed = None
    assert asyncio.run(reconciler.reconcile(SHOP)) is None
    assert reconciler.get_last_versions() == {}
    assert b"shop" not in metrics.render()


def test_no_action_is_carried_out_when_the_status_could_not_be_written(
    working: MemoryCluster,
) -> None:
    def fail(what: str) -> None:
        if what == "save":
            raise Unavailable("no answer")

    assert working.observed is not None
    spec = make_spec(suspend=True)
    working.observed = replace(working.observed, spec=spec, generation=2)
    working.before = fail
    with pytest.raises(Unavailable):
        asyncio.run(working.make_reconciler().reconcile(SHOP))
    assert working.take_steps() == []


@pytest.mark.parametrize("lost", ["save", "act"])
def test_an_answer_that_is_lost_doubles_nothing(fresh: MemoryCluster, lost: str) -> None:
    faults = iter(range(1))

    def lose(what: str) -> None:
        if what == lost and next(faults, None) is not None:
            raise Unavailable("the answer was lost")

    fresh.after = lose
    for _ in range(6):
        try:
            asyncio.run(fresh.make_reconciler().reconcile(SHOP))
        except Unavailable:
            fresh.pass_time(1)
    created = [step.detail for step in fresh.take_steps("act")]
    assert len(created) == 1
    assert isinstance(created[0], CreateRun)


def test_a_look_is_remembered_by_the_version_that_it_left(fresh: MemoryCluster) -> None:
    reconciler = fresh.make_reconciler()
    asyncio.run(reconciler.reconcile(SHOP))
    assert reconciler.get_last_versions() == {SHOP: str(fresh.version)}
    assert reconciler.knows(SHOP, str(fresh.version))
    fresh.touch()
    assert not reconciler.knows(SHOP, str(fresh.version))


def test_a_look_that_failed_is_not_remembered(fresh: MemoryCluster) -> None:
    def fail(what: str) -> None:
        if what == "act":
            raise Unavailable("no answer")

    reconciler = fresh.make_reconciler()
    asyncio.run(reconciler.reconcile(SHOP))
    fresh.touch()
    fresh.before = fail
    with pytest.raises(Unavailable):
        asyncio.run(reconciler.reconcile(SHOP))
    assert not reconciler.knows(SHOP, str(fresh.version))


def test_a_crash_between_any_two_steps_leaves_what_the_next_operator_goes_on_with() -> None:
    def play(crash_at: int) -> tuple[list[str], int]:
        cluster = MemoryCluster(make_observed(make_spec()))
        asked: list[str] = []

        def crash(what: str) -> None:
            asked.append(what)
            if len(asked) == crash_at:
                raise KeyboardInterrupt

        cluster.before = cluster.after = crash
        for _ in range(5):
            try:
                asyncio.run(cluster.make_reconciler().reconcile(SHOP))
            except KeyboardInterrupt:
                cluster.pass_time(2)
        assert cluster.observed is not None
        created = cluster.take_steps("act")
        assert {type(step.detail) for step in created} == {CreateRun}
        return [run.name for run in cluster.observed.runs], len(asked)

    undisturbed, asked = play(0)
    for position in range(1, asked + 1):
        assert play(position)[0] == undisturbed == ["shop-e1-1"], position
