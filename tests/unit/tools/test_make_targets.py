"""What `make` without a name lists is complete."""

import os
import re
import subprocess

import pytest

from icdc_testing import ROOT

pytestmark = pytest.mark.unit

MAKEFILE = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
TARGETS = set(re.findall(r"(?m)^([a-z][a-z-]*):(?!=)", MAKEFILE))


def list_words(name: str) -> list[str]:
    """Return the words of a variable or a special target."""
    line = re.search(rf"(?m)^{re.escape(name)}\s*:=?\s(.*)$", MAKEFILE)
    assert line, f"the Makefile has no {name}"
    return line[1].split()


def test_make_bench_runs_every_benchmark() -> None:
    benchmarks = [name.removeprefix("bench-") for name in TARGETS if name.startswith("bench-")]
    assert sorted(list_words("BENCHMARKS")) == sorted(benchmarks)


def test_no_file_of_a_targets_name_stops_it() -> None:
    assert sorted(list_words(".PHONY")) == sorted(TARGETS)


def test_processes_of_python_keep_what_they_have_compiled() -> None:
    shown = subprocess.run(
        [
            "make",
            "--no-print-directory",
            "--eval",
            "shown: ; @echo [$$PYTHONDONTWRITEBYTECODE]",
            "shown",
        ],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert shown.stdout == "[]\n"
