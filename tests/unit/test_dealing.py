"""Which tests stay in one process, and which begin first."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from icdc_testing import ROOT, SOURCES
from icdc_testing.waiting import dealing

pytestmark = pytest.mark.unit

API, NODES, SECURE = "tests/api", "tests/spark/nodes", "tests/spark/secure"
RECORDED = """
import json, os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    with Path("order").open("a") as order:
        order.write(json.dumps([os.environ["PYTEST_XDIST_WORKER"], __file__]) + "\\n")
"""


def write_project(folder: Path) -> None:
    """Write a project of three files in each folder; its tests record their process."""
    for below in (API, NODES, SECURE):
        (folder / below).mkdir(parents=True)
        for number in range(3):
            (folder / below / f"test_{number}.py").write_text(RECORDED)
    (folder / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())


def list_runs(folder: Path) -> list[tuple[str, str]]:
    """Run the tests in two processes; return the process and the file of each, in order."""
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "-n", "2"]
    command += ["--dist", "loadfile", "--no-loadscope-reorder", "-p", "no:cacheprovider", "tests"]
    environment = {name: text for name, text in os.environ.items() if "PYTEST" not in name}
    environment["PYTHONPATH"] = SOURCES
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (folder / "order").read_text().splitlines()
    return [(worker, file) for worker, file in map(json.loads, lines)]


def test_a_folder_with_servers_stays_in_one_process_and_the_longest_begins(tmp_path: Path) -> None:
    write_project(tmp_path)
    runs = [(worker, str(Path(file).relative_to(tmp_path))) for worker, file in list_runs(tmp_path)]
    assert len(runs) == 36
    processes: dict[str, set[str]] = defaultdict(set)
    for worker, file in runs:
        for whole in (file, str(Path(file).parent)):
            processes[whole].add(worker)
    alone = {whole: len(workers) for whole, workers in processes.items() if whole != API}
    assert set(alone.values()) == {1}, alone
    first = next(file for worker, file in runs if worker in processes[NODES])
    assert first.startswith(NODES), runs
    first = next(file for worker, file in runs if worker in processes[SECURE])
    assert first.startswith(SECURE), runs


def test_every_folder_that_stays_together_exists() -> None:
    assert [one for one in dealing.TOGETHER if not list((ROOT / one).glob("test_*.py"))] == []
