"""Executors that are decommissioned and killed amid it: a drained node that is gone too early.

What an executor has handed over to another one when it dies, and which of it the driver knows,
differs each time. Whatever Spark makes of it, the run must come through.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from icdc_testing import SOURCES
from icdc_testing.runs.kill_points import BatchKind
from icdc_testing.waiting.seeds import choose_seed

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).with_name("executor_losses.py")
LOSSES = 20 if os.environ.get("ICDC_SOAK") else 1
"""In batches of each kind."""


@pytest.mark.timeout(3600)
def test_a_run_survives_executors_that_are_killed_while_they_hand_over_their_blocks(
    clean_indices: str, tmp_path: Path
) -> None:
    seed, _ = choose_seed("decommission")
    path = os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), clean_indices, str(tmp_path), str(seed), str(LOSSES)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    lost = [json.loads(line) for line in done.stdout.splitlines()]
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, f"{lost}\n{done.stderr[-6000:]}"
    assert [entry["kind"] for entry in lost] == [kind for kind in BatchKind for _ in range(LOSSES)]
