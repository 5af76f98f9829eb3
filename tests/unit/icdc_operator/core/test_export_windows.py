"""No run starts only to wait for the time of the day in which exports may write."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import (
    ExportProgress,
    PipelineStatus,
    TableReason,
    TableState,
    TableStatus,
)
from icdc_api.status.runs import ResyncMode, RunKind, RunState
from icdc_api.status.triggers import ObservedResync, ObservedTriggers
from icdc_operator.core import events, export_windows, schedule
from icdc_operator.core.conditions.summary import summarise
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import CreateRun, Observed
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_spec,
    run_record,
)

pytestmark = pytest.mark.unit

ORDERS, ITEMS = "shop.orders", "shop.items"
OPEN, CLOSED = "11:00-13:00", "22:00-06:00"
# NOW is 12:00.
OPENING = NOW + timedelta(hours=10)
TEXT = "waiting for the export window 22:00-06:00 UTC"


def make_waiting(name: str = ORDERS, **more: Any) -> TableStatus:
    """Return a table as a run reports it whose export waits."""
    fields = {"state": TableState.EXPORTING, "export_waits": True, "message": TEXT}
    return TableStatus(name=name, index=name, **(fields | more))


def make_pending(name: str = ORDERS) -> TableStatus:
    return TableStatus(name=name, index=name)


def make_idle(window: str, *tables: TableStatus, **more: Any) -> Observed:
    """Return a pipeline whose last run has ended well a minute ago."""
    ended = NOW - timedelta(minutes=1)
    run = run_record(state=RunState.SUCCEEDED, finished_at=ended)
    status = PipelineStatus(
        observed_generation=1,
        last_run=run,
        recent_runs=(run,),
        tables=tables,
        observed_triggers=ObservedTriggers(),
    )
    sink = {"opensearch": {"hosts": ["http://s:1"], "limits": {"exportWindow": window}}}
    spec = make_spec(*(table.name for table in tables), sink=sink, **more)
    heads = {table.name: "7" for table in tables}
    return replace(make_observed(spec, status), heads=heads, heads_watched=True)


@pytest.mark.parametrize(
    "tables",
    [
        (),
        (make_pending(),),
        (make_waiting(), make_pending(ITEMS)),
        (make_waiting(applied_snapshot_id="3"),),
    ],
    ids=["before the first run", "never exported", "under way", "a gap"],
)
def test_where_only_exports_are_due_no_run_starts_before_the_window(
    tables: tuple[TableStatus, ...],
) -> None:
    world = make_idle(CLOSED, *(tables or (make_pending(),)))
    if not tables:
        world = replace(world, status=PipelineStatus())
    for minutes in (0, 1, 599):
        decision = decide(world, NOW + timedelta(minutes=minutes))
        status = decision.status
        # The backoff of failures, 10 minutes at most, does not shorten it.
        assert (status.current_run, status.next_attempt_time) == (None, OPENING)
        assert decision.requeue_after == min(3600, 36_000 - 60 * minutes)
        # So `icdc run --once` ends.
        assert decision.settled
        active = status.find_condition(ConditionType.RUN_ACTIVE)
        assert active is not None
        assert (active.reason, active.message) == ("ExportWindow", TEXT)
        world = replace(world, status=status)
    run = decide(world, OPENING).status.current_run
    assert run is not None
    # A table with an index is exported anew by any run.
    exported = any(table.applied_snapshot_id for table in tables)
    assert run.kind is (RunKind.CHANGELOG if exported else RunKind.EXPORT)


@pytest.mark.parametrize(
    ("mode", "honoured", "runs"),
    [
        ("Rollback", None, True),
        ("Export", None, False),
        # The run that was asked for it, of epoch 1, has failed; or it has succeeded.
        ("Rollback", RunState.FAILED, True),
        ("Rollback", RunState.SUCCEEDED, False),
    ],
)
def test_a_rollback_does_not_wait_for_the_window(
    mode: str, honoured: RunState | None, runs: bool
) -> None:
    resync = {"nonce": 1, "mode": mode}
    world = make_idle(CLOSED, make_waiting(applied_snapshot_id="3"), resync=resync)
    if honoured is not None:
        last = world.status.last_run
        assert last is not None
        run = last.model_copy(update={"state": honoured})
        asked = ObservedResync(nonce=1, mode=ResyncMode(mode), id=run.epoch)
        changes = {
            "observed_triggers": ObservedTriggers(resync_nonce=1, resync=asked),
            "last_run": run,
            "recent_runs": (run,),
        }
        world = replace(world, status=world.status.model_copy(update=changes))
    # Long after the backoff of the failure.
    decision = decide(world, NOW + timedelta(hours=1))
    assert (decision.status.current_run is not None) == runs


@pytest.mark.parametrize(
    ("state", "waits"), [(TableState.EXPORTING, True), (TableState.STALLED, False)]
)
def test_a_table_that_waits_for_a_person_is_not_tried_with_each_poll_of_an_open_window(
    state: TableState, waits: bool
) -> None:
    reason = TableReason.NO_IDENTIFIER if state is TableState.STALLED else None
    table = make_pending().model_copy(update={"state": state, "reason": reason})
    world = make_idle(OPEN, table)
    assert world.spec is not None
    due = export_windows.find_next_run(world.status, NOW, world.spec, now=NOW)
    assert (due is not None) == waits


def test_it_is_said_once_and_in_the_conditions() -> None:
    world = make_idle(CLOSED, make_pending())
    first = decide(world, NOW).status
    assert [event.reason for event in events.derive_events(world.status, first)] == ["ExportWaits"]
    again = decide(replace(world, status=first), NOW + timedelta(minutes=5)).status
    assert events.derive_events(first, again) == []
    reconciling = first.find_condition(ConditionType.RECONCILING)
    assert reconciling is not None
    assert reconciling.message == f"the first export is not finished: {TEXT}"


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        (make_pending(), make_waiting(), []),
        (make_waiting(), make_waiting(export_waits=None), ["ExportStarted"]),
        (make_waiting(export_waits=None), make_waiting(), []),
        (make_caught_up(), make_waiting(applied_snapshot_id="7"), []),
        (make_caught_up(export_waits=True), make_waiting(export_waits=None), ["Reexporting"]),
    ],
)
def test_an_export_starts_when_it_writes(
    before: TableStatus, after: TableStatus, reasons: list[str]
) -> None:
    new_events = events.derive_events(
        PipelineStatus(tables=(before,)), PipelineStatus(tables=(after,))
    )
    assert [event.reason for event in new_events] == reasons


def test_an_export_that_waits_has_no_estimate() -> None:
    progress = ExportProgress(chunks_total=4, chunks_done=1, rows_per_second=9, estimated_end=NOW)
    running = PipelineStatus(tables=(make_waiting(export=progress),), current_run=run_record())
    summary = summarise(running).summary
    assert summary is not None
    assert summary.export == "1/4"


def test_a_table_that_is_exported_is_followed_while_another_waits() -> None:
    behind = make_caught_up(applied_snapshot_id="6")
    run = decide(make_idle(CLOSED, behind, make_pending(ITEMS)), NOW).status.current_run
    assert run is not None
    # It exports nothing.
    assert run.kind is RunKind.CHANGELOG


def test_with_nothing_new_the_next_run_is_when_the_window_opens() -> None:
    world = make_idle(CLOSED, make_caught_up(), make_waiting(ITEMS))
    decision = decide(world, NOW)
    assert decision.status.current_run is None
    ready = decision.status.find_condition(ConditionType.EXPORTED)
    assert ready is not None
    assert decide(replace(world, status=decision.status), OPENING).status.current_run is not None


@pytest.mark.parametrize("state", [TableState.STREAMING, TableState.COMPLETE])
def test_a_re_export_that_waits_is_due_when_the_window_opens(state: TableState) -> None:
    mode = "ExportOnly" if state is TableState.COMPLETE else "ExportAndStream"
    world = make_idle(CLOSED, make_caught_up(state=state, export_waits=True), mode=mode)
    due = schedule.find_next_due(world.status, world, _get_spec(world), now=NOW)
    assert due.at == OPENING
    ready = decide(world, NOW).status.find_condition(ConditionType.READY)
    assert ready is not None
    assert (ready.message, ready.status.value) == (TEXT, "True")


def test_in_the_window_one_that_still_waits_is_polled_and_not_at_once() -> None:
    """Such as by a driver whose clock is behind the operator's."""
    world = make_idle(OPEN, make_waiting(applied_snapshot_id="7"))
    due = schedule.find_next_due(world.status, world, _get_spec(world), now=NOW)
    assert due.at == NOW - timedelta(minutes=1) + timedelta(seconds=10)


@pytest.mark.parametrize("window", ["", OPEN])
def test_without_a_window_and_in_it_exports_begin(window: str) -> None:
    assert decide(make_idle(window, make_pending()), NOW).status.current_run is not None


def test_a_table_that_waits_for_a_person_is_no_reason_to_hold_the_others() -> None:
    stalled = make_waiting(
        ITEMS, state=TableState.STALLED, reason=TableReason.GAP, export_waits=None
    )
    behind = make_caught_up(applied_snapshot_id="6")
    assert decide(make_idle(CLOSED, behind, stalled), NOW).status.current_run is not None


@pytest.mark.parametrize(("waits", "stays"), [(True, True), (False, False)])
def test_no_run_ends_for_a_comparison_that_waits_for_the_window(waits: bool, stays: bool) -> None:
    """Another one would start after each pollInterval, until the window opens."""
    changelog, verify = {"trigger": "Continuous"}, {"nonce": 1, "mode": "Verify"}
    tables = (make_caught_up(), make_waiting(ITEMS) if waits else make_caught_up(ITEMS))
    world = make_idle(CLOSED, *tables, changelog=changelog, resync=verify)
    run = run_record(state=RunState.PLANNED, kind=RunKind.CHANGELOG)
    asked = ObservedTriggers(resync_nonce=1)
    begun = {"current_run": run, "observed_triggers": asked}
    world = replace(world, status=world.status.model_copy(update=begun))
    (create,) = decide(world, NOW).actions
    assert isinstance(create, CreateRun)
    assert create.continuous is stays


def _get_spec(world: Observed) -> Any:
    assert world.spec is not None
    return world.spec
