"""A driver shows the series of the recording with which the dashboard is tested."""

from pathlib import Path

import pytest

from icdc_testing.runs.driver_metrics import RECORDING, list_series, read_driver

pytestmark = pytest.mark.spark


def test_a_driver_shows_every_series_of_the_recording(tmp_path: Path) -> None:
    recorded = list_series(RECORDING.read_text(encoding="utf-8"))
    assert len(recorded) > 30
    assert recorded <= list_series(read_driver(tmp_path))
