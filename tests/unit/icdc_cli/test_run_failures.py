"""What `icdc run --once` says when it did not go well: why, who acts, and how to go on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_cli import main

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("scripted")]

PipelineFile = Callable[..., Path]


@pytest.mark.parametrize(
    ("fake", "code", "begin", "end"),
    [
        (
            "stall",
            1,
            "icdc: shop.orders: AliasTaken: it is taken",
            "action required: the author of the pipeline",
        ),
        (
            "crash",
            1,
            "icdc: Bug: the application ended with code 1 and reported no outcome ",
            "action required: the maintainers of iceberg-cdc-operator, then call icdc run again",
        ),
        (
            "fail_to_connect",
            3,
            "icdc: failed: TargetUnavailable: http://127.0.0.1:1 refuses connections",
            "not retried any more: call icdc run again",
        ),
    ],
)
def test_run_says_why_it_did_not_go_well(
    fake: str,
    code: int,
    begin: str,
    end: str,
    pipeline_file: PipelineFile,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = pipeline_file(fake, retry={"maxAttempts": 1})
    assert main.main(["run", "-f", str(path), "--once"]) == code
    said = capsys.readouterr().err
    assert said.startswith(begin)
    assert said.endswith(f"; {end}\n")
