"""Host packages: nothing is done where all are there, and what is missing is named."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

PROGRAM = Path(__file__).parents[3] / "tools" / "images" / "host_packages.py"
PRESENT = "containerd"


def ensure(folder: Path, *names: str) -> "subprocess.CompletedProcess[str]":
    """Run it on a host that knows one package, and has no apt-get."""
    query = folder / "dpkg-query"
    query.write_text(f'#!/bin/sh\n[ "$3" = {PRESENT} ] && printf installed\n', encoding="utf-8")
    query.chmod(0o755)
    return subprocess.run(
        [sys.executable, str(PROGRAM), *names],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_nothing_is_done_where_all_are_there(tmp_path: Path) -> None:
    done = ensure(tmp_path, PRESENT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_missing_and_may_not_be_installed_is_named(tmp_path: Path) -> None:
    done = ensure(tmp_path, PRESENT, "runc", "iptables")
    assert done.returncode == 1
    assert "missing: runc iptables." in done.stderr
    assert PRESENT not in done.stderr
