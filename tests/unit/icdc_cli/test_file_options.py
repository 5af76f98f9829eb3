"""`-f`: options that choose a cluster are refused with it; what kinds of files it takes."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from icdc_cli import main

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("scripted")]

PipelineFile = Callable[..., Path]


@pytest.mark.parametrize(
    ("flag", "commands"),
    [
        *((flag, "plan verify preview dead-letters doctor") for flag in ("-n", "--context")),
        ("--kubeconfig", "plan verify preview dead-letters doctor"),
        ("--wait", "plan verify dead-letters"),
    ],
)
def test_an_option_of_a_cluster_is_refused_with_a_file(
    flag: str, commands: str, pipeline_file: PipelineFile, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(pipeline_file())
    for command in commands.split():
        words = [command, "list"] if command == "dead-letters" else [command]
        assert main.main([*words, "-f", path, flag, "7"]) == 2
        assert capsys.readouterr().err.startswith(f"icdc: {flag} is not allowed with -f")


def test_a_status_in_a_file_is_passed_over_whatever_it_holds(pipeline_file: PipelineFile) -> None:
    path = pipeline_file()
    document = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(document | {"status": {"tables": 5, "of": "another version"}}))
    assert main.main(["plan", "-f", str(path)]) == 0


def test_doctor_reads_a_pipe(
    pipeline_file: PipelineFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = pipeline_file().read_text()
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert main.main(["doctor", "-f", str(pipe)]) == 3
    writer.join()
    assert "table shop.orders" in capsys.readouterr().out


def test_doctor_says_that_a_directory_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["doctor", "-f", str(tmp_path)]) == 2
    assert f"{tmp_path}: cannot be read: Is a directory" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "plan", "verify", "preview", "doctor"])
def test_a_second_file_is_refused_and_not_taken_for_the_first(
    command: str, pipeline_file: PipelineFile, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(pipeline_file())
    with pytest.raises(SystemExit) as ended:
        main.main([command, "-f", path, "--filename", path])
    assert ended.value.code == 2
    assert "one pipeline at a time: call icdc for each file" in capsys.readouterr().err
