"""Lines of the driver's log: as JSON where the operator says so."""

import json
import logging
from pathlib import Path

import pytest

from icdc_api.job.log_lines import FORMAT_VARIABLE, label_lines
from icdc_api.job.run_files import RunRequest
from icdc_spark.process.main import build_formatter

pytestmark = pytest.mark.unit

REQUEST = RunRequest(
    run_id="shop-c7-1.1000", pipeline={}, owner="team/shop", epoch=1000, report_path="report.json"
)


def make_record() -> logging.LogRecord:
    return logging.LogRecord(
        "icdc_spark.x", logging.INFO, str(Path(__file__)), 1, 'says "%s"', ("it",), None
    )


def test_a_line_names_pipeline_run_and_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    formatter = build_formatter(REQUEST)
    with label_lines(table="shop.orders"):
        line = json.loads(formatter.format(make_record()))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "icdc_spark.x",
        "message": 'says "it"',
        "pipeline": "team/shop",
        "run": "shop-c7-1",
        "table": "shop.orders",
    }


def test_before_the_request_is_read_a_line_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    line = json.loads(build_formatter().format(make_record()))
    assert not {"pipeline", "run", "table"} & set(line)


@pytest.mark.parametrize("log_format", [None, "text"])
def test_a_line_is_text_unless_json_is_asked_for(
    log_format: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FORMAT_VARIABLE, raising=False)
    if log_format is not None:
        monkeypatch.setenv(FORMAT_VARIABLE, log_format)
    with label_lines(table="shop.orders"):
        assert build_formatter(REQUEST).format(make_record()).endswith(' INFO says "it"')
