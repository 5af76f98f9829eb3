"""Output that is lost, streams that are closed, SIGTERM: no internal error, the codes of shells."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_cli import main
from icdc_cli.local import application
from icdc_cli.local.application import Application

pytestmark = pytest.mark.unit

ICDC = f"{sys.executable} -m icdc_cli.main"


@pytest.fixture
def asking(fake_application: Application, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let questions go to the fake application; return where their directories are made."""
    monkeypatch.setattr(application, "find_installed", lambda _spec: fake_application)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run_shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, in which $ICDC is the program."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "", "ICDC": ICDC, **variables}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], env=environment, text=True, capture_output=True
    )


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        # The reader has ended before the first word is written, so that a short output is lost too.
        ("(sleep 0.5; exec $ICDC crd) | true", 141, ""),
        ("(sleep 0.5; exec $ICDC explain --help) | true", 141, ""),
        ("(sleep 0.5; exec $ICDC explain 2>&1) | true", 141, ""),
        ("$ICDC crd > /dev/full", 3, "icdc: cannot write: No space left on device\n"),
        ("$ICDC explain Gap > /dev/full", 3, "icdc: cannot write: No space left on device\n"),
        ("$ICDC explain nonsense 2> /dev/full", 3, ""),
        ("$ICDC explain Gap > /dev/full 2>&1", 3, ""),
        ("$ICDC explain Gap >&-", 0, ""),
        ("$ICDC explain nonsense 2>&-", 2, ""),
        ("$ICDC explain Gap >&- 2>&- <&-", 0, ""),
        ("$ICDC plan -f - <&-", 2, "icdc: standard input: the file is empty"),
    ],
)
def test_lost_output_is_no_internal_error(line: str, code: int, said: str) -> None:
    ended = run_shell(line)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith(said) if said else not ended.stderr


def test_text_that_the_console_cannot_encode_is_escaped() -> None:
    ended = run_shell("$ICDC explain", PYTHONIOENCODING="ascii")
    assert ended.returncode == 0
    assert "\\u" in ended.stdout


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGTERM, 143, "icdc: ended by SIGTERM\n"),
        (signal.SIGINT, 130, "icdc: interrupted\n"),
    ],
)
def test_a_signal_to_a_question_leaves_no_request_on_disk(
    number: signal.Signals,
    code: int,
    said: str,
    asking: Path,
    pipeline_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    requests: list[Path] = []

    def interrupt(_seconds: float) -> None:
        # In place of the pause between two polls, once the application has been asked.
        requests.extend(asking.glob("icdc-*/*/request.json"))
        os.kill(os.getpid(), number)

    monkeypatch.setattr("icdc_cli.local.ask.time.sleep", interrupt)
    before = signal.getsignal(signal.SIGTERM)
    assert main.main(["plan", "-f", str(pipeline_file("wait_for_end_of_stdin"))]) == code
    assert capsys.readouterr().err == said
    assert len(requests) == 1
    assert not requests[0].exists()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("fake", ["fail_to_connect", "crash"])
def test_the_log_of_a_failed_question_stays_and_is_named_once(
    fake: str,
    asking: Path,
    pipeline_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["verify", "-f", str(pipeline_file(fake))]) != 0
    (log,) = asking.glob("icdc-*/*/application.log")
    assert capsys.readouterr().err.count(str(log)) == 1
    assert not list(asking.glob("icdc-*/*/request.json"))


def test_of_a_question_that_is_answered_nothing_stays(
    asking: Path, pipeline_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = pipeline_file("respect_future_fence")
    assert main.main(["verify", "-f", str(path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"]
    assert not list(asking.glob("icdc-*"))
