"""Progress alone is written seldom, and everything else at once."""

import asyncio

import pytest

from icdc_api.status.runs import RunState
from icdc_operator.cluster.loop.changes import PROGRESS_SECONDS, TABLES_PER_SECOND
from icdc_operator.core.observed import AskRun, RunPhase
from icdc_testing.operator.adapter.fakes.memory import SHOP, MemoryCluster
from icdc_testing.operator.deciding.pipelines import (
    make_active,
    make_behind,
    make_report,
    make_seen,
    make_spec,
)

pytestmark = pytest.mark.unit


def test_progress_alone_is_written_at_most_every_few_seconds(working: MemoryCluster) -> None:
    reconciler = working.make_reconciler()
    saves = []
    for second in range(31):
        working.see(report=make_report(make_behind(100 - second)))
        wait = asyncio.run(reconciler.reconcile(SHOP))
        assert wait is not None
        if working.take_steps("save"):
            saves.append(second)
        else:
            assert 0 < wait <= PROGRESS_SECONDS
        working.pass_time(1)
    assert saves == list(range(0, 31, int(PROGRESS_SECONDS)))


def test_progress_of_a_run_that_is_asked_something_is_written_no_more_often(
    working: MemoryCluster,
) -> None:
    reconciler = working.make_reconciler()
    held = {"question": "q1", "complete": False, "tables": []}
    saves, asked = [], 0
    for second in range(11):
        reported = make_report(make_behind(100 - second), takes_questions=True, result=held)
        working.see(report=reported)
        asyncio.run(reconciler.reconcile(SHOP))
        steps = working.take_steps()
        saves += [second for step in steps if step.what == "save"]
        asked += sum(isinstance(step.detail, AskRun) for step in steps)
        working.pass_time(1)
    assert saves == list(range(0, 11, int(PROGRESS_SECONDS)))
    assert asked == 11


def test_a_run_is_asked_by_no_pipeline_that_was_written_since_while_progress_is_held_back(
    working: MemoryCluster,
) -> None:
    reconciler, requests = working.make_reconciler(), list[str]()
    held = {"question": "q1", "complete": False, "tables": []}
    working.see(report=make_report(make_behind(8), takes_questions=True, result=held))
    asyncio.run(reconciler.reconcile(SHOP))
    working.see(report=make_report(make_behind(7), takes_questions=True, result=held))

    def write_meanwhile(what: str) -> None:
        requests.append(what)
        if requests == ["observe", "confirm"]:
            working.touch()

    working.before = write_meanwhile
    asyncio.run(reconciler.reconcile(SHOP))
    assert requests == ["observe", "confirm", "observe", "confirm", "act"]


def test_what_was_held_back_is_written_when_its_time_has_come(working: MemoryCluster) -> None:
    reconciler = working.make_reconciler()
    working.see(report=make_report(make_behind(8)))
    asyncio.run(reconciler.reconcile(SHOP))
    working.pass_time(1)
    working.see(report=make_report(make_behind(7)))
    wait = asyncio.run(reconciler.reconcile(SHOP))
    assert wait == PROGRESS_SECONDS - 1
    working.take_steps()
    working.pass_time(wait)
    asyncio.run(reconciler.reconcile(SHOP))
    assert len(working.take_steps("save")) == 1
    assert working.observed is not None
    assert working.observed.status.tables[0].snapshots_behind == 7


def test_progress_of_many_tables_waits_longer() -> None:
    names = ("shop.orders", *(f"shop.t{number}" for number in range(299)))
    seen = make_seen(RunPhase.RUNNING, report=make_report(make_behind(9)))
    cluster = MemoryCluster(make_active(make_spec(*names), seen, run_id="r"))
    reconciler = cluster.make_reconciler()
    asyncio.run(reconciler.reconcile(SHOP))
    cluster.pass_time(1)
    cluster.see(report=make_report(make_behind(8)))
    assert asyncio.run(reconciler.reconcile(SHOP)) == 300 / TABLES_PER_SECOND - 1


def test_a_change_of_the_run_is_written_at_once(working: MemoryCluster) -> None:
    reconciler = working.make_reconciler()
    working.see(report=make_report(make_behind(8)))
    asyncio.run(reconciler.reconcile(SHOP))
    working.see(phase=RunPhase.SUCCEEDED, writer_alive=False, report=make_report(finished=True))
    asyncio.run(reconciler.reconcile(SHOP))
    assert len(working.take_steps("save")) == 2
    assert working.observed is not None
    assert working.observed.status.last_run is not None
    assert working.observed.status.last_run.state == RunState.SUCCEEDED


def test_a_clock_that_is_set_back_holds_nothing_back_for_long(working: MemoryCluster) -> None:
    reconciler = working.make_reconciler()
    working.see(report=make_report(make_behind(8)))
    asyncio.run(reconciler.reconcile(SHOP))
    # Not to before the run, whose times would then change, and be written at once.
    working.pass_time(-10)
    working.see(report=make_report(make_behind(7)))
    wait = asyncio.run(reconciler.reconcile(SHOP))
    assert wait is not None
    assert wait <= PROGRESS_SECONDS
