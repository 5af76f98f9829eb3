"""The demo is the first thing that anybody runs, so it is a test."""

import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_the_demo_ends_with_three_equal_tables_after_a_kill() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "icdc_cli.main", "demo"],
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert "SIGKILL" in shown
    assert "NodeLost" in shown
    verified = re.findall(r"shop\.\w+ +\w+ +\d+ +yes +(\d+) +(\d+) +0 +0 +0", shown)
    assert len(verified) == 3, shown
    assert all(rows == documents for rows, documents in verified), shown
