"""What a terminal shows of many tables while they are exported: no more than a screen."""

import io
import re

import pytest
from rich.console import Console

from icdc_api.base import MAX_TABLES
from icdc_api.status.pipeline_status import (
    ExportProgress,
    PipelineStatus,
    TableState,
    TableStatus,
)
from icdc_cli import live
from icdc_cli.local.runner import Update

pytestmark = pytest.mark.unit


def make_exporting(number: int) -> TableStatus:
    return TableStatus(
        name=f"shop.t{number}",
        index=f"t{number}",
        state=TableState.EXPORTING,
        export=ExportProgress(chunks_total=4, chunks_done=1, rows=500, rows_total=1000),
    )


def test_many_exports_are_counted_and_some_have_a_bar() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120, height=200, color_system=None)
    tables = tuple(map(make_exporting, range(MAX_TABLES)))
    with live.Terminal(console) as view:
        view.show(Update(PipelineStatus(tables=tables), ()))
        # Its bar goes to another one.
        done = tables[0].model_copy(update={"state": TableState.STREAMING})
        view.show(Update(PipelineStatus(tables=(done, *tables[1:])), ()))
    text = written.getvalue()
    assert "500 tables: 499 Exporting, 1 Streaming" in text
    bars = set(re.findall(r"(shop\.t\d+)\s+\S+\s+500/1000", text))
    assert bars == {f"shop.t{number}" for number in range(1, live.MAX_BARS + 1)}
