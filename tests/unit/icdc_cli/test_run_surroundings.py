"""What is around `icdc run` on a host: its folders, and the variables of its shell."""

from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_cli import main

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("scripted")]

PipelineFile = Callable[..., Path]


def test_a_state_directory_that_is_removed_during_a_run_is_no_defect(
    pipeline_file: PipelineFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["run", "--once", "-f", str(pipeline_file("remove_state_dir"))]) == 2
    said = capsys.readouterr().err
    assert f"icdc: --state-dir {tmp_path}/.icdc/default-shop cannot be used: No such file" in said


def test_variables_of_another_spark_on_the_host_change_no_run(
    pipeline_file: PipelineFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_LOCAL_DIRS", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "sc://elsewhere")
    # What somebody gives the JVM is meant for ours, too.
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    assert main.main(["run", "--once", "-f", str(pipeline_file("need_own_spark"))]) == 0


def test_a_file_of_the_working_directory_stands_in_for_no_module_of_python(
    pipeline_file: PipelineFile, tmp_path: Path
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('the queue of somebody else')")
    assert main.main(["run", "--once", "-f", str(pipeline_file("start_worker"))]) == 0
