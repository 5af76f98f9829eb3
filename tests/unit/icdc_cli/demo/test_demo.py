"""`icdc demo`: what it leaves behind. The demo itself is played by the tests with Spark."""

import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from icdc_api.errors import Bug
from icdc_cli import main
from icdc_cli.demo import command
from icdc_cli.local import application

pytestmark = pytest.mark.unit


def fail() -> None:
    raise Bug("b")


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (partial(signal.raise_signal, signal.SIGINT), 130, "interrupted"),
        (partial(signal.raise_signal, signal.SIGTERM), 143, "ended by SIGTERM"),
        (fail, 1, "b"),
    ],
)
def test_the_folder_of_a_demo_that_is_not_played_to_its_end_stays_and_is_named(
    end: Callable[[], None],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def play(_demo: command._Demo) -> bool:
        end()
        return True

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(application, "require_spark", lambda: None)
    monkeypatch.setattr(command._Demo, "play", play)
    assert main.main(["demo"]) == code
    (folder,) = tmp_path.iterdir()
    assert capsys.readouterr().err.splitlines() == [
        f"icdc: what the demo made stays in {folder}",
        f"icdc: {said}",
    ]
