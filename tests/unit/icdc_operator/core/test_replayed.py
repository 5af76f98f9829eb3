"""A run that sends dead letters again changes nothing of a table's status but how many are left."""

from datetime import UTC, datetime

import pytest

from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_api.status.runs import RunKind
from icdc_operator.core import progress
from icdc_testing.operator.deciding.pipelines import run_record

pytestmark = pytest.mark.unit

NOW = "2026-03-01T12:00:00Z"
TABLE = TableStatus(
    name="shop.orders",
    index="orders",
    state=TableState.STREAMING,
    applied_snapshot_id="7",
    dead_letters=3,
)


@pytest.mark.parametrize(
    ("applied", "index", "expected"),
    [
        pytest.param("7", "orders", 1, id="the state document was read"),
        pytest.param(None, "orders", 3, id="the run did not come so far"),
        pytest.param("7", "orders-2", 3, id="another index"),
    ],
)
def test_what_is_left_is_counted(applied: str | None, index: str, expected: int) -> None:
    reported = TableStatus(
        name="shop.orders", index=index, applied_snapshot_id=applied, dead_letters=1
    )
    report = RunReport(run_id="r", started_at=NOW, updated_at=NOW, tables=(reported,))
    run = run_record(name="shop-l2-1", kind=RunKind.REPLAY, run_id="r")
    (table,) = progress.apply_report([TABLE], report, run, now=datetime.now(UTC))
    assert table == TABLE.model_copy(update={"dead_letters": expected})
