"""When an idle pipeline that runs on commits gets its next run, by what is known of its heads."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from icdc_api.errors import OutOfMemory
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunState
from icdc_api.status.triggers import ObservedTriggers
from icdc_operator.core import run_log, schedule
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import Observed, RunPhase
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_seen,
    make_spec,
    make_stalled,
    run_record,
)

pytestmark = pytest.mark.unit

ORDERS, ITEMS = "shop.orders", "shop.items"
Heads = Mapping[str, str | None] | None


def make_idle(*tables: TableStatus, heads: Heads = None, finished: datetime = NOW) -> Observed:
    """Return a pipeline whose run has ended well; the adapter tells of heads."""
    tables = tables or (make_quiet(20),)
    run = run_record(
        state=RunState.SUCCEEDED, finished_at=finished, planned_at=finished - timedelta(seconds=30)
    )
    status = PipelineStatus(observed_generation=1, last_run=run, recent_runs=(run,), tables=tables)
    spec = make_spec(*(table.name for table in tables))
    return replace(make_observed(spec, status), heads=heads, heads_watched=True)


def test_any_number_of_comparisons_starts_no_run_without_a_new_snapshot() -> None:
    world = make_idle(heads={ORDERS: make_quiet(20).applied_snapshot_id})
    log = world.status.recent_runs
    for number in range(12):
        proof = run_record(sequence=number + 2, kind=RunKind.VERIFY, state=RunState.SUCCEEDED)
        log = run_log.add_to_log(log, proof)
        status = world.status.model_copy(update={"last_run": proof, "recent_runs": log})
        assert decide(replace(world, status=status), NOW).status.current_run is None, number


def make_quiet(seconds: float, name: str = ORDERS) -> TableStatus:
    """Return a table that had been without a change for so long when the run ended."""
    return make_caught_up(name, applied_at=NOW - timedelta(seconds=seconds))


def measure_wait(world: Observed) -> float | None:
    """Seconds until a run is planned, with nothing new until then."""
    now = NOW
    while (now - NOW).total_seconds() < 7200:
        decision = decide(world, now)
        if decision.status.current_run is not None:
            return (now - NOW).total_seconds()
        if decision.requeue_after is None:
            return None
        world = replace(world, status=decision.status)
        now += timedelta(seconds=decision.requeue_after)
    return None


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ({ORDERS: "7"}, None),
        ({ORDERS: "8"}, 0.0),
        ({ORDERS: None}, 0.0),  # rolled back to before its first snapshot
        (None, None),  # the adapter tells as soon as it knows
    ],
)
def test_heads_that_are_known_decide_alone(heads: Heads, expected: float | None) -> None:
    assert measure_wait(make_idle(heads=heads)) == expected


def test_no_look_is_needed_for_heads_that_the_adapter_tells_of() -> None:
    decision = decide(make_idle(heads={ORDERS: "7"}), NOW)
    assert decision.requeue_after == schedule.LOST_SECONDS
    asked = decide(replace(make_idle(heads={ORDERS: "7"}), heads_watched=False), NOW)
    assert asked.requeue_after == 10.0


@pytest.mark.parametrize(("pinned", "renewed"), [(True, True), (False, False), (None, False)])
@pytest.mark.parametrize("heads", [{ORDERS: "7"}, None])
def test_an_idle_pipeline_gets_a_run_when_its_tags_are_to_be_renewed(
    heads: Heads, pinned: bool | None, renewed: bool
) -> None:
    world = make_idle(make_caught_up(ORDERS, snapshot_pinned=pinned), heads=heads)
    for days, expected in ((9.9, False), (10.1, renewed)):
        decision = decide(world, NOW + timedelta(days=days))
        assert (decision.status.current_run is not None) == expected


@pytest.mark.parametrize(
    ("quiet", "expected"),
    [(0, 10.0), (5, 10.0), (20, 20.0), (300, 300.0), (86400, schedule.BLIND_SECONDS)],
)
def test_a_table_without_a_head_is_looked_at_the_less_often_the_longer_it_is_quiet(
    quiet: float, expected: float
) -> None:
    assert measure_wait(make_idle(make_quiet(quiet), heads={})) == expected


def test_runs_that_find_nothing_double_the_wait_up_to_ten_minutes() -> None:
    waits, finished, applied = [], NOW, NOW - timedelta(seconds=10)
    for _ in range(9):
        world = make_idle(make_caught_up(ORDERS, applied_at=applied), heads={}, finished=finished)
        due = schedule.find_next_due(world.status, world, world.spec, now=finished)  # type: ignore[arg-type]
        assert due.at is not None
        waits.append((due.at - finished).total_seconds())
        finished = due.at
    assert waits == [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0, 600.0]


def test_a_table_that_was_never_applied_waits_as_long_as_its_runs_go_back() -> None:
    empty = make_caught_up(ORDERS, applied_snapshot_id=None, current_snapshot_id=None)
    assert measure_wait(make_idle(empty, heads={})) == 30.0


def test_one_table_without_a_head_does_not_hide_the_news_of_another() -> None:
    tables = (make_quiet(300), make_caught_up(ITEMS))
    assert measure_wait(make_idle(*tables, heads={ITEMS: "7"})) == 300.0
    assert measure_wait(make_idle(*tables, heads={ITEMS: "8"})) == 0.0


def test_a_head_that_the_last_run_did_not_take_in_starts_no_run_after_run() -> None:
    world = replace(make_idle(make_quiet(300), heads={ORDERS: "8"}), old_heads={ORDERS})
    assert measure_wait(world) == 300.0


def test_an_export_that_a_run_left_unfinished_goes_on_soon() -> None:
    table = make_quiet(86400).model_copy(update={"state": TableState.EXPORTING})
    assert measure_wait(make_idle(table, heads={})) == 10.0


@pytest.mark.parametrize(
    ("reason", "head", "old", "expected"),
    [
        (TableReason.TABLE_NOT_FOUND, "8", False, 0.0),
        (TableReason.BRANCH_NOT_FOUND, None, False, 0.0),
        (TableReason.ALIAS_TAKEN, "8", False, 0.0),
        # A run was there and stalls on: it is looked at again in retry.maxSeconds.
        (TableReason.TABLE_NOT_FOUND, "8", True, 600.0),
        (TableReason.UNAUTHORIZED, "8", True, 600.0),
    ],
)
def test_a_stalled_table_is_looked_at_when_something_new_is_there(
    reason: TableReason, head: str | None, old: bool, expected: float
) -> None:
    world = make_idle(make_stalled(reason), heads={ORDERS: head})
    world = replace(world, old_heads={ORDERS} if old else frozenset())
    assert measure_wait(world) == expected


def test_a_stalled_table_without_a_head_is_looked_at_after_retry_max_seconds() -> None:
    assert measure_wait(make_idle(make_stalled(TableReason.TABLE_NOT_FOUND), heads={})) == 600.0


def test_an_adapter_that_cannot_look_at_all_has_a_run_after_each_interval() -> None:
    assert measure_wait(replace(make_idle(), heads_watched=False)) == 10.0


def test_an_idle_pipeline_waits_for_heads() -> None:
    assert schedule.waits_for_heads(make_idle())


def fail_run(world: Observed) -> PipelineStatus:
    failure = Failure.of(OutOfMemory("x"))
    run = run_record(state=RunState.FAILED, finished_at=NOW, failure=failure)
    return world.status.model_copy(update={"last_run": run, "consecutive_failures": 1})


@pytest.mark.parametrize(
    "spec",
    [
        {"suspend": True},
        {"changelog": {"trigger": "Continuous"}},
        {"restartNonce": 1},
    ],
)
def test_another_spec_does_not_wait_for_heads(spec: dict[str, object]) -> None:
    world = make_idle()
    triggers = {"observed_triggers": ObservedTriggers(restart_nonce=0)}
    world = replace(world, status=world.status.model_copy(update=triggers))
    assert not schedule.waits_for_heads(replace(world, spec=make_spec(**spec)))


def test_what_runs_failed_or_is_asked_for_does_not_wait_for_heads() -> None:
    world = make_idle()
    live = make_seen(RunPhase.RUNNING)
    running = world.status.model_copy(update={"current_run": run_record()})
    for other in (
        replace(world, spec=None),
        replace(world, generation=2),
        replace(world, closing=True),
        replace(world, asked_at=NOW),
        replace(world, runs=(live,)),
        replace(world, status=running),
        replace(world, status=fail_run(world)),
        replace(world, status=PipelineStatus()),
    ):
        assert not schedule.waits_for_heads(other)


def test_a_table_that_is_done_needs_no_head() -> None:
    done = make_caught_up().model_copy(update={"state": TableState.COMPLETE})
    world = replace(make_idle(done), spec=make_spec(mode="ExportOnly"))
    assert not schedule.waits_for_heads(world)
    assert measure_wait(replace(world, heads={})) is None
