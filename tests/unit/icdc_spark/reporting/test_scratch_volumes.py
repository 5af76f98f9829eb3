"""How full the volumes are on which Spark stores shuffles and spills."""

import os
from pathlib import Path

import pytest

from icdc_api.job.resources import ResourceKind
from icdc_spark.container import scratch
from icdc_spark.reporting.scratch_volumes import VARIABLE, measure_scratch

pytestmark = pytest.mark.unit


def test_a_volume_is_as_full_as_its_file_system_says(tmp_path: Path) -> None:
    measured = measure_scratch({VARIABLE: f"{tmp_path}/missing,{tmp_path}"})
    (used, size) = measured[ResourceKind.SCRATCH_VOLUME]
    found = os.statvfs(tmp_path)
    assert 0 < used < size <= found.f_blocks * found.f_frsize


def test_nothing_is_measured_where_there_is_no_such_volume(tmp_path: Path) -> None:
    assert measure_scratch({}) == measure_scratch({VARIABLE: f"{tmp_path}/missing"}) == {}


def test_it_is_the_volume_on_which_the_container_has_its_directory(tmp_path: Path) -> None:
    environment = scratch.claim({VARIABLE: str(tmp_path)})
    assert Path(environment[VARIABLE]).parent == tmp_path
    assert measure_scratch(environment).keys() == {ResourceKind.SCRATCH_VOLUME}
