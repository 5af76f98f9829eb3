"""What the tests that kill share: child runs, and the list of kills."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icdc_testing.runs.kill_points import KillList
from icdc_testing.runs.own_names import TARGET, OwnNames
from icdc_testing.runs.processes import ChildRuns


@pytest.fixture(autouse=True, scope="module")
def quick_waits() -> None:
    """Wait as in production: a run that was killed leaves requests behind."""


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[ChildRuns]:
    """Start runs as child processes, none of which outlives the test."""
    with ChildRuns(tmp_path) as started:
        yield started


@pytest.fixture
def names(tmp_path: Path) -> OwnNames:
    """A name for OpenSearch's host, which `named_runs` know and nobody else."""
    return OwnNames(tmp_path / "names", TARGET)


@pytest.fixture
def named_runs(tmp_path: Path, names: OwnNames) -> Iterator[ChildRuns]:
    """Start runs that know these names alone."""
    with ChildRuns(tmp_path, python=names.python) as started:
        yield started


@pytest.fixture
def kills(record_property: Callable[[str, object], None]) -> KillList:
    """The kills of this test, printed at the end of the test run."""
    return KillList(lambda kill: record_property("kill", kill))
