"""Whole worlds in one process: the operator's core and runs, whatever befalls them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from icdc_testing.waiting.seeds import SEED_VARIABLE

pytestmark = pytest.mark.unit

SUPPORT = Path(__file__).resolve().parents[2] / "support"
WORLDS = 300
"""Always the same, unless ICDC_TEST_SEED names others; `make soak-simulation` plays new ones."""
SEEDS_APART = 100_000_000


def play(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Play worlds in a process of their own: there, time itself is replaced."""
    return subprocess.run(
        [sys.executable, "-m", "simulation.command", *arguments],
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


@pytest.mark.timeout(1800)
def test_in_every_world_the_index_equals_the_table_or_the_recorded_batch_says_why_not() -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or 0)
    played = play("--worlds", str(WORLDS), "--seed", str(seed * SEEDS_APART))
    assert played.returncode == 0, played.stdout[-20_000:] + played.stderr[-3000:]


def test_a_world_is_the_same_each_time_that_its_seed_is_played() -> None:
    stories = [play("--story", "--seed", "7").stdout for _ in range(2)]
    assert "broken: None" in stories[0]
    assert stories[0] == stories[1]
