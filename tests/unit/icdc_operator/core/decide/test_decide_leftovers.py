"""What an attempt or a wrong clock has left behind, found by random states."""

from dataclasses import replace
from datetime import timedelta

import pytest

from icdc_api import errors
from icdc_api.status.pipeline_status import (
    ExportProgress,
    LastBatch,
    PipelineStatus,
    TableState,
)
from icdc_api.status.runs import Failure, RunState, RunStatus
from icdc_api.status.triggers import ObservedAsk
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import ForgetRun, RunPhase, RunSeen, StopRun
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_active,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    run_record,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("last_report", "reported", "shown"),
    [
        (3600, 0, "7"),  # the clock of the run before was an hour ahead
        (-5, -10, "6"),  # the same run's report, read late
        (-5, 0, "7"),
        (-3600, -4000, "7"),  # another run, whose clock may differ
    ],
)
def test_only_a_report_that_is_older_by_a_clock_that_was_right_is_late(
    last_report: int, reported: int, shown: str
) -> None:
    run = make_report(
        make_caught_up(applied_snapshot_id="7", applied_at=NOW + timedelta(seconds=reported))
    )
    world = make_active(make_spec(), make_seen(RunPhase.RUNNING, report=run))
    before = make_caught_up(
        applied_snapshot_id="6", applied_at=NOW + timedelta(seconds=last_report)
    )
    status = PipelineStatus(observed_generation=1, current_run=run_record(), tables=(before,))
    decision = decide(replace(world, status=status), NOW)
    assert decision.status.tables[0].applied_snapshot_id == shown


@pytest.mark.parametrize(
    ("snapshot", "repeats", "shown"),
    [
        ("7", None, 4),  # the same export, read late
        ("7", 1, 0),  # the same export, repeated
        ("8", None, 0),
    ],
)
def test_fewer_chunks_are_shown_once_they_are_of_another_index(
    snapshot: str, repeats: int | None, shown: int
) -> None:
    exporting = make_caught_up(state=TableState.EXPORTING, applied_at=None)
    before, reported = (
        exporting.model_copy(update={"export": export})
        for export in (
            ExportProgress(snapshot_id="7", chunks_total=4, chunks_done=4),
            ExportProgress(snapshot_id=snapshot, chunks_total=4, chunks_done=0, repeats=repeats),
        )
    )
    world = make_active(make_spec(), make_seen(RunPhase.RUNNING, report=make_report(reported)))
    status = PipelineStatus(observed_generation=1, current_run=run_record(), tables=(before,))
    (table,) = decide(replace(world, status=status), NOW).status.tables
    assert table.export is not None
    assert table.export.chunks_done == shown


def test_what_is_left_of_an_attempt_is_not_removed_under_one_that_lives() -> None:
    runs = (
        RunSeen("shop-e1-1", 1, RunPhase.FAILED, writer_alive=False),
        RunSeen("shop-e1-1", 2, RunPhase.RUNNING, writer_alive=True),
    )
    decision = decide(replace(make_observed(make_spec()), runs=runs), NOW)
    assert decision.actions == (StopRun("shop-e1-1", graceful=False),)


@pytest.mark.parametrize(
    ("tagged", "shown"), [(None, (False, "it may only be read")), (True, (True, None))]
)
def test_what_is_known_of_a_tag_holds_until_a_run_has_tried_again(
    tagged: bool | None, shown: tuple[bool, str | None]
) -> None:
    run = make_report(make_caught_up(snapshot_pinned=tagged, applied_at=NOW))
    world = make_active(make_spec(), make_seen(RunPhase.RUNNING, report=run))
    before = make_caught_up(snapshot_pinned=False, pin_message="it may only be read")
    status = PipelineStatus(observed_generation=1, current_run=run_record(), tables=(before,))
    (table,) = decide(replace(world, status=status), NOW).status.tables
    assert (table.snapshot_pinned, table.pin_message) == shown


@pytest.mark.parametrize("written", [None, LastBatch(at=NOW, requests=2)])
def test_the_cost_of_the_last_batch_is_shown_until_a_run_has_written_one(
    written: LastBatch | None,
) -> None:
    run = make_report(make_caught_up(last_batch=written, applied_at=NOW))
    world = make_active(make_spec(), make_seen(RunPhase.RUNNING, report=run))
    before = LastBatch(at=NOW, requests=1)
    tables = (make_caught_up(last_batch=before),)
    status = PipelineStatus(observed_generation=1, current_run=run_record(), tables=tables)
    (table,) = decide(replace(world, status=status), NOW).status.tables
    assert table.last_batch == (written or before)


NODE = Failure.of(errors.NodeLost("lost"))


def make_ended(number: int, failure: Failure | None = None) -> RunStatus:
    state = RunState.SUCCEEDED if failure is None else RunState.FAILED
    ended = {"state": state, "failure": failure, "finished_at": NOW}
    return run_record(name=f"shop-c{number}-1", sequence=number, epoch=number, **ended)


@pytest.mark.parametrize(
    ("newest", "waits", "asked", "freed"),
    [
        (None, True, "", {3, 2, 1}),
        # Its log says why, until the next attempt needs its disks.
        (NODE, True, "", {2, 1}),
        (NODE, False, "", {3, 2, 1}),
        # Its pod has the answer.
        (None, True, "shop-c2-1", {3, 1}),
    ],
)
def test_a_pod_that_takes_disks_from_others_goes_before_the_record_of_its_run(
    newest: Failure | None, waits: bool, asked: str, freed: set[int]
) -> None:
    log = (make_ended(3, newest), make_ended(2, NODE), make_ended(1))
    status = PipelineStatus(
        observed_generation=1,
        tables=(make_caught_up(),),
        last_run=log[0],
        recent_runs=log,
        next_attempt_time=NOW + timedelta(seconds=10) if waits else NOW,
        observed_ask=ObservedAsk(id="a", run=asked, finished=True) if asked else None,
    )
    runs = tuple(
        RunSeen(run.name, run.epoch, RunPhase.SUCCEEDED, writer_alive=False, holds=True)
        for run in log
    )
    decision = decide(replace(make_observed(make_spec(), status), runs=runs), NOW)
    assert (decision.status.current_run is None) == waits
    wanted = {ForgetRun(f"shop-c{number}-1", pods_only=True) for number in freed}
    assert set(decision.actions) == wanted


@pytest.mark.parametrize(("seconds_ago", "stops"), [(30, False), (200, True), (-200, True)])
def test_a_driver_that_has_reported_its_end_and_lives_on_is_ended(
    seconds_ago: int, stops: bool
) -> None:
    reported_at = {"updated_at": NOW - timedelta(seconds=seconds_ago)}
    report = make_report(make_caught_up(), finished=True).model_copy(update=reported_at)
    world = make_active(make_spec(), make_seen(RunPhase.RUNNING, report=report))
    decision = decide(world, NOW)
    assert decision.actions == ((StopRun("shop-e1-1", graceful=True),) if stops else ())
    ended = make_seen(RunPhase.SUCCEEDED, report=report)
    after = decide(replace(world, status=decision.status, runs=(ended,)), NOW).status
    assert after.last_run is not None
    assert after.last_run.state == RunState.SUCCEEDED
    assert after.current_run is None, "nothing was left undone"
