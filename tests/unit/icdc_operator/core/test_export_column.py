"""What `kubectl get -o wide` shows of the exports of a pipeline."""

from datetime import UTC, datetime

import pytest

from icdc_api.status.pipeline_status import ExportProgress, PipelineStatus, TableState, TableStatus
from icdc_operator.core.conditions import summary
from icdc_testing.operator.deciding.pipelines import make_caught_up, run_record

pytestmark = pytest.mark.unit


def make_exporting(name: str, rate: int | None = None, end: datetime | None = None) -> TableStatus:
    """Return a table that has one of four chunks, and ends its export at `end`."""
    export = ExportProgress(
        chunks_total=4, chunks_done=1, rows=10, rows_per_second=rate, estimated_end=end
    )
    return TableStatus(name=name, index=name, state=TableState.EXPORTING, export=export)


SOON, LATE = (datetime(2026, 1, 2, hour, 30, tzinfo=UTC) for hour in (3, 4))


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ((make_caught_up(),), None),
        ((make_exporting("a"),), "1/4"),
        ((make_exporting("a", 20, SOON),), "1/4, 20 rows/s, until 2026-01-02T03:30Z"),
        (
            (make_exporting("a", 20, SOON), make_exporting("b", 5, LATE)),
            "2/8, 25 rows/s, until 2026-01-02T04:30Z",
        ),
        ((make_exporting("a", 20, SOON), make_exporting("b")), "2/8, 20 rows/s"),
        (
            (make_exporting("a", 20, SOON), make_caught_up("b")),
            "1/4, 20 rows/s, until 2026-01-02T03:30Z",
        ),
    ],
)
def test_the_progress_of_all_exports_is_one_column(
    tables: tuple[TableStatus, ...], text: str | None
) -> None:
    value = summary.summarise(PipelineStatus(tables=tables, current_run=run_record()))
    assert value.summary is not None
    assert value.summary.export == text


def test_no_end_is_promised_while_no_run_exports() -> None:
    value = summary.summarise(PipelineStatus(tables=(make_exporting("a", 20, SOON),)))
    assert value.summary is not None
    assert value.summary.export == "1/4"
