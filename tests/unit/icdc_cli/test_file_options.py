"""`-f`: options that choose a cluster are refused with it."""

from collections.abc import Callable
from pathlib import Path

import pytest

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
