"""Plays worlds in a process of their own: there, time itself is replaced."""

import os
import subprocess
import sys
from collections.abc import Mapping

from icdc_testing import SOURCES
from icdc_testing.waiting.seeds import SEED_VARIABLE

WORLDS = int(os.environ.get("ICDC_WORLDS") or 10_000)
"""How many are played by the two processes together."""
SEEDS_APART = 100_000_000
"""The seeds between those of one ICDC_TEST_SEED and the next."""


def play(
    *arguments: str, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run `icdc_testing.simulation.command` and return its exit code and what it printed."""
    paths = [part for part in (environment.get("PYTHONPATH"), SOURCES) if part]
    return subprocess.run(
        [sys.executable, "-m", "icdc_testing.simulation.command", *arguments],
        env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def find_failure(seeds: range) -> str:
    """Play the worlds of `seeds`, moved by ICDC_TEST_SEED; return the first that fails, or ""."""
    first = seeds.start + SEEDS_APART * int(os.environ.get(SEED_VARIABLE) or 0)
    played = play("--worlds", str(len(seeds)), "--seed", str(first))
    return "" if played.returncode == 0 else played.stdout[-20_000:] + played.stderr[-3000:]
