"""What the tests that kill share: child runs, and a list of the kills at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support_kills import KillList
from support_runs import ChildRuns

_LIST = pytest.StashKey[KillList]()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[ChildRuns]:
    """Starts runs as child processes, none of which outlives the test."""
    with ChildRuns(tmp_path) as started:
        yield started


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> KillList:
    """The kills of this test run, printed at its end."""
    return request.config.stash.setdefault(_LIST, KillList())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints every kill with its seed."""
    made = terminalreporter.config.stash.get(_LIST, KillList()).kills
    if made:
        batches = sum(len(kill.places) for kill in made)
        terminalreporter.section(f"{len(made)} kills, which hit {batches} batches")
        for number, kill in enumerate(made, 1):
            terminalreporter.write_line(f"{number:3} {kill}")
