"""How far an index is behind its table, while nobody reports it and whatever clocks say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from icdc_api import errors
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import Failure, RunState
from icdc_operator.core import lag, progress
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import Decision, Observed, RunPhase
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_active,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    make_unheard,
    run_record,
)

pytestmark = pytest.mark.unit

HOUR = timedelta(hours=1)
APPLIED_AT = NOW - 5 * HOUR
HEAD_8 = {"shop.orders": "8"}
LOST = Failure.of(errors.SourceUnavailable("no answer"))


def make_late(ago: timedelta = HOUR, **more: Any) -> TableStatus:
    """Return the table one commit behind, which was `ago` before NOW."""
    fields: dict[str, Any] = {
        "snapshots_behind": 1,
        "behind_since": NOW - ago,
        "current_snapshot_id": "8",
    }
    return make_caught_up(**(fields | more))


def make_waiting(*tables: TableStatus, **more: Any) -> Observed:
    """Return a pipeline whose run has failed, and is retried in a day."""
    ended = run_record(state=RunState.FAILED, finished_at=NOW, failure=LOST)
    status = PipelineStatus(
        observed_generation=1,
        tables=tables,
        last_run=ended,
        recent_runs=(ended,),
        next_attempt_time=NOW + timedelta(days=1),
        consecutive_failures=3,
    )
    return replace(make_observed(make_spec(), status), **more)


def read_lag(decision: Decision) -> tuple[int | None, int | None]:
    """Return the lag of the only table, and that of the pipeline."""
    summary = decision.status.summary
    assert summary is not None
    return decision.status.tables[0].lag_seconds, summary.lag_seconds


def test_the_lag_grows_while_the_next_attempt_waits() -> None:
    world = make_waiting(make_late())
    for passed in (timedelta(0), HOUR, 30 * HOUR):
        decision = decide(world, NOW + passed)
        expected = int((HOUR + passed).total_seconds())
        assert read_lag(decision) == (expected, expected)
        world = replace(world, status=decision.status)


def test_a_lag_of_zero_is_not_known_any_more_while_nothing_is_heard_of_the_driver() -> None:
    decision = decide(make_unheard(make_spec(), make_caught_up()), NOW)
    assert read_lag(decision) == (0, None)
    ready = decision.status.find_condition(ConditionType.READY)
    assert ready is not None
    assert ready.status is ConditionStatus.TRUE
    assert "as of the last report of the run: the driver has not renewed" in ready.message
    # What it is behind at least is known all the same.
    assert read_lag(decide(make_unheard(make_spec(), make_late()), NOW)) == (3600, 3600)


def test_the_lag_grows_while_a_run_says_nothing_new() -> None:
    reported = make_report(make_late())
    world = make_active(make_spec(), make_seen(RunPhase.RUNNING, report=reported))
    assert read_lag(decide(world, NOW + 2 * HOUR)) == (3 * 3600, 3 * 3600)


@pytest.mark.parametrize("reason", [TableReason.GAP, TableReason.SOURCE_UNAVAILABLE])
def test_the_lag_of_a_table_that_is_stalled_outlasts_a_run_that_cannot_read_it(
    reason: TableReason,
) -> None:
    stalled = TableStatus(
        name="shop.orders", index="shop.orders", state=TableState.STALLED, reason=reason
    )
    world = make_active(make_spec(), make_seen(RunPhase.RUNNING, report=make_report(stalled)))
    world = replace(world, status=world.status.model_copy(update={"tables": (make_late(),)}))
    decision = decide(world, NOW)
    assert decision.status.tables[0].state == TableState.STALLED
    assert decision.status.tables[0].snapshots_behind == 1
    assert read_lag(decision) == (3600, 3600)


def test_an_index_that_is_exported_anew_is_behind_meanwhile() -> None:
    exporting = TableStatus(
        name="shop.orders",
        index="shop.orders",
        state=TableState.EXPORTING,
        current_snapshot_id="8",
    )
    world = make_active(make_spec(), make_seen(RunPhase.RUNNING, report=make_report(exporting)))
    world = replace(world, status=world.status.model_copy(update={"tables": (make_caught_up(),)}))
    world = replace(world, status=decide(world, NOW).status)
    assert read_lag(decide(world, NOW + HOUR)) == (3600, 3600)


def test_a_commit_counts_from_when_it_is_first_seen_until_a_run_reports_its_time() -> None:
    world = make_waiting(make_caught_up(), heads=HEAD_8)
    seen = decide(world, NOW)
    assert read_lag(seen) == (0, 0)
    assert seen.status.tables[0].behind_since == NOW
    again = decide(replace(world, status=seen.status), NOW + HOUR)
    assert read_lag(again) == (3600, 3600)
    reported = make_late(timedelta(seconds=9))
    assert lag.follow(again.status.tables[0], reported, now=NOW).behind_since == (
        NOW - timedelta(seconds=9)
    )


def test_one_table_of_many_gives_the_lag_of_the_pipeline() -> None:
    spec = make_spec(tables=[{"name": name} for name in ("shop.orders", "shop.items", "shop.new")])
    late = make_late(name="shop.items")
    status = PipelineStatus(observed_generation=1, tables=(make_caught_up(), late))
    decision = decide(make_observed(spec, status), NOW)
    assert [table.lag_seconds for table in decision.status.tables] == [0, 3600, None]
    assert read_lag(decision)[1] == 3600


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {"behind_since": NOW - HOUR}, NOW - HOUR, id="a commit's time"),
        pytest.param({}, {"behind_since": None}, NOW, id="seen for the first time"),
        pytest.param({}, {"behind_since": NOW + HOUR}, NOW, id="dated in the future"),
        pytest.param({}, {"behind_since": datetime.fromtimestamp(1, UTC)}, NOW, id="dated 1970"),
        pytest.param(
            {"behind_since": NOW - 2 * HOUR, "snapshots_behind": 1},
            {"behind_since": datetime.fromtimestamp(1, UTC)},
            NOW - 2 * HOUR,
            id="dated 1970, and seen before",
        ),
        pytest.param(
            {}, {"behind_since": NOW - 9 * HOUR}, NOW, id="dated before the index was caught up"
        ),
        pytest.param(
            {"behind_since": NOW - 2 * HOUR, "snapshots_behind": 1},
            {"behind_since": NOW - 9 * HOUR},
            NOW - 2 * HOUR,
            id="dated before that, and seen before",
        ),
        pytest.param(
            {"behind_since": NOW - 2 * HOUR, "snapshots_behind": 1},
            {"behind_since": NOW},
            NOW - 2 * HOUR,
            id="seen before",
        ),
        pytest.param(
            {"applied_snapshot_id": "6", "behind_since": NOW - 50 * HOUR, "snapshots_behind": 9},
            {"behind_since": NOW - 40 * HOUR},
            NOW - 40 * HOUR,
            id="a backlog, oldest first",
        ),
        pytest.param(
            {"behind_since": NOW + 9 * HOUR, "snapshots_behind": 1},
            {"behind_since": None},
            NOW,
            id="recorded by a clock that was ahead",
        ),
        pytest.param(
            {},
            {"behind_since": None, "lag_seconds": 7200},
            NOW - 2 * HOUR,
            id="a report of an older image",
        ),
        pytest.param({}, {"snapshots_behind": 0}, None, id="caught up"),
        pytest.param({}, {"state": TableState.COMPLETE}, None, id="it will not follow the table"),
    ],
)
def test_a_commit_time_counts_only_where_it_is_plausible(
    old: dict[str, Any], new: dict[str, Any], expected: datetime | None
) -> None:
    fields: dict[str, Any] = {"applied_at": APPLIED_AT, "snapshots_behind": 0}
    before = make_caught_up(**(fields | old))
    after = lag.follow(before, make_late(**new), now=NOW)
    assert after.behind_since == expected


def test_a_lag_is_written_every_minute_at_first_and_then_by_the_tenth() -> None:
    world, moment, writes = make_waiting(make_late(timedelta(0))), NOW, 0
    world = replace(world, status=decide(world, moment).status)
    while moment < NOW + timedelta(days=1):
        decision = decide(world, moment)
        writes += decision.status != world.status
        shown, truth = read_lag(decision)[0], (moment - NOW).total_seconds()
        assert shown is not None
        assert truth - max(60, truth / 10) <= shown <= truth
        assert decision.requeue_after is not None
        world = replace(world, status=decision.status)
        moment += timedelta(seconds=decision.requeue_after)
    assert writes < 80


def test_the_lags_of_many_tables_are_written_together() -> None:
    tables = [make_late(timedelta(seconds=at), name=f"db.t{at}") for at in range(100)]
    shown, writes = progress.refresh_lags([], tables, now=NOW), 0
    for second in range(600):
        later = progress.refresh_lags(shown, shown, now=NOW + timedelta(seconds=second))
        writes += later != shown
        shown = later
    assert writes == 9


def test_what_is_complete_has_no_lag_whatever_a_comparison_reported() -> None:
    late = make_late(state=TableState.COMPLETE, lag_seconds=9)
    (table,) = progress.refresh_lags([late], [late], now=NOW)
    assert (table.behind_since, table.lag_seconds) == (None, None)


def test_a_lag_of_seconds_is_exact_where_another_commit_is_the_oldest() -> None:
    caught_up, late = make_caught_up(), make_late(timedelta(seconds=9))
    later = make_late(timedelta(seconds=4), applied_snapshot_id="8")
    for old, new, seconds in ((caught_up, late, 9), (late, later, 4)):
        assert lag.refresh(old, lag.follow(old, new, now=NOW), now=NOW).lag_seconds == seconds


def test_the_lag_of_a_pipeline_grows_that_waits_for_a_person() -> None:
    stalled = make_late(state=TableState.STALLED, reason=TableReason.GAP)
    world = make_waiting(stalled, heads=HEAD_8, heads_watched=True, old_heads=frozenset(HEAD_8))
    ended = run_record(state=RunState.SUCCEEDED, finished_at=NOW)
    fields: dict[str, Any] = {"last_run": ended, "recent_runs": (ended,)}
    well = fields | {"next_attempt_time": None, "consecutive_failures": 0}
    world = replace(world, status=world.status.model_copy(update=well))
    decision = decide(world, NOW)
    assert decision.status.current_run is None
    assert decision.requeue_after is not None
    later = NOW + timedelta(seconds=decision.requeue_after)
    assert read_lag(decide(replace(world, status=decision.status), later))[0] == 3960


def test_a_status_of_an_earlier_operator_grows_from_its_lag() -> None:
    table = make_late(behind_since=None, lag_seconds=60)
    world = make_waiting(table)
    world = replace(world, status=decide(world, NOW).status)
    assert read_lag(decide(world, NOW + HOUR)) == (3660, 3660)
