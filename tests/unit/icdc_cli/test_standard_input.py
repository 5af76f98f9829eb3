"""`-f -` takes the pipeline from standard input, as kubectl does."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_cli import main

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("scripted")]


def pipe(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let the content be what standard input has."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("command", ["plan", "verify"])
def test_a_pipeline_that_is_piped_is_answered_like_one_in_a_file(
    command: str,
    pipeline_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = pipeline_file()
    code = main.main([command, "-f", str(path)])
    answered = capsys.readouterr()
    pipe(monkeypatch, path.read_bytes())
    assert main.main([command, "-f", "-"]) == code
    assert capsys.readouterr() == answered
    assert answered.out


@pytest.mark.parametrize("command", ["run", "plan", "verify", "preview", "doctor"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"{", "not YAML: line 1, column 2: "),
        (b"\xff", "not UTF-8 text: byte 0"),
        (b"#" * (1 << 20) + b"#", "larger than 1048576 bytes"),
    ],
    ids=["nothing", "not YAML", "not text", "too large"],
)
def test_what_is_wrong_with_it_is_said_of_standard_input(
    command: str,
    content: bytes,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipe(monkeypatch, content)
    assert main.main([command, "-f", "-"]) in (1, 2)
    output = capsys.readouterr()
    assert f"standard input: {said}" in output.out + output.err
