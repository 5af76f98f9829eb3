"""`icdc status` on a terminal: a line of a table is a line, and says where the rest of it is."""

import os
import pty
import subprocess
import sys

import pytest

from icdc_testing.kube.api_stub import Object
from icdc_testing.kube.stored_pipelines import make_condition

pytestmark = pytest.mark.unit

PROGRAM = [sys.executable, "-m", "icdc_cli.main", "status", "shop"]
MESSAGE = "the changes are lost, " * 20
MAX_BYTES = 65536


@pytest.fixture(autouse=True)
def long_message(shop: Object) -> None:
    """What a pipeline that waits for a person has to say."""
    stalled = make_condition("Stalled", "True", reason="TableStalled", message=MESSAGE)
    shop["status"] = {"observedGeneration": 1, "conditions": [stalled]}


def show(*arguments: str, columns: int) -> list[str]:
    """Return the lines on a terminal of that width."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns)}
    command = [*PROGRAM, *arguments]
    subprocess.run(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment, check=False)
    os.close(theirs)
    text = os.read(ours, MAX_BYTES).decode()
    os.close(ours)
    return text.splitlines()


def test_lines_end_at_the_edge_of_the_terminal_and_a_hint_says_so() -> None:
    *lines, hint = show(columns=72)
    assert hint == "Lines are cut at the edge of the terminal: -o wide shows all of them."
    assert max(map(len, lines)) == 72
    (cut,) = (line for line in lines if line.endswith("\N{HORIZONTAL ELLIPSIS}"))
    assert cut.startswith("Stalled")


@pytest.mark.parametrize(("arguments", "columns"), [((), 1000), (("-o", "wide"), 72)])
def test_all_is_shown_where_there_is_room_or_if_it_is_asked_for(
    arguments: tuple[str, ...], columns: int
) -> None:
    assert show(*arguments, columns=columns)[-1].endswith(MESSAGE.strip())


def test_what_goes_to_a_file_or_a_pipe_is_not_cut() -> None:
    environment = {**os.environ, "COLUMNS": "72"}
    written = subprocess.run(
        PROGRAM, capture_output=True, text=True, env=environment, check=False
    ).stdout
    assert written.splitlines()[-1].endswith(MESSAGE.strip())
