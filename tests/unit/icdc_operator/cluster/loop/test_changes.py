"""What counts as progress, and what is written at once."""

from typing import Any

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import (
    Duplicates,
    ExportProgress,
    LastBatch,
    PipelineStatus,
    TableReason,
    TableState,
)
from icdc_operator.cluster.loop.changes import compute_progress_seconds, is_progress_only
from icdc_operator.core.decide import decide
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_spec,
    run_record,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def status() -> PipelineStatus:
    pipeline_status = PipelineStatus(
        observed_generation=1, tables=(make_caught_up(),), last_run=run_record()
    )
    return decide(make_observed(make_spec(), pipeline_status), NOW).status


def change_table(status: PipelineStatus, **changes: Any) -> PipelineStatus:
    table = status.tables[0].model_copy(update=changes)
    return status.model_copy(update={"tables": (table,)})


@pytest.mark.parametrize(
    "changes",
    [
        {"applied_snapshot_id": "8", "applied_at": NOW, "applied_sequence_number": 4},
        {"snapshots_behind": 3, "lag_seconds": 60, "current_snapshot_id": "9"},
        {"rows_upserted": 5, "rows_deleted": 6, "dead_letters": 7},
        {"last_batch": LastBatch(at=NOW, upserted=5)},
        {"export": ExportProgress(chunks_done=3)},
        {"duplicates": Duplicates(count=2)},
    ],
)
def test_how_far_a_table_is_may_wait(status: PipelineStatus, changes: dict[str, Any]) -> None:
    assert is_progress_only(status, change_table(status, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": TableState.STALLED},
        {"reason": TableReason.GAP},
        {"index": "other"},
        {"table_uuid": "u"},
    ],
)
def test_where_a_table_stands_is_written_at_once(
    status: PipelineStatus, changes: dict[str, Any]
) -> None:
    assert not is_progress_only(status, change_table(status, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"observed_generation": 2},
        {"current_run": run_record(epoch=2000)},
        {"consecutive_failures": 1},
        {"next_attempt_time": NOW},
    ],
)
def test_everything_else_is_written_at_once(
    status: PipelineStatus, changes: dict[str, Any]
) -> None:
    assert not is_progress_only(status, status.model_copy(update=changes))


@pytest.mark.parametrize("kind", list(ConditionType))
def test_a_condition_is_written_at_once_unless_it_tells_of_lag(
    status: PipelineStatus, kind: ConditionType
) -> None:
    turned = tuple(
        condition.model_copy(update={"reason": "Other"}) if condition.type == kind else condition
        for condition in status.conditions
    )
    after = status.model_copy(update={"conditions": turned})
    assert is_progress_only(status, after) == (kind == ConditionType.CAUGHT_UP)


def test_two_operators_of_different_versions_do_not_write_by_turns_without_a_pause(
    status: PipelineStatus,
) -> None:
    assert is_progress_only(status, status.model_copy(update={"operator_version": "9.9.9"}))


def test_the_text_of_a_condition_may_wait(status: PipelineStatus) -> None:
    reworded = tuple(
        condition.model_copy(update={"message": "3 left"}) for condition in status.conditions
    )
    assert is_progress_only(status, status.model_copy(update={"conditions": reworded}))


@pytest.mark.parametrize(("tables", "seconds"), [(1, 5), (100, 5), (200, 10), (500, 25)])
def test_progress_of_more_tables_is_written_less_often(tables: int, seconds: float) -> None:
    names = (f"shop.t{number}" for number in range(tables))
    assert (
        compute_progress_seconds(PipelineStatus(tables=tuple(map(make_caught_up, names))))
        == seconds
    )
