"""The tables of values in the READMEs of the charts, and the comments that they are made from."""

import subprocess
import sys
from pathlib import Path

import pytest

from icdc_testing.kube.charts import files
from icdc_testing.kube.charts.files import ALL, CHARTS

pytestmark = pytest.mark.unit

TOOLS = CHARTS.parent / "tools" / "generated"


def run(tool: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(TOOLS / tool), *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("tool", ["chart_readme.py", "chart_schema.py"])
def test_what_is_made_for_the_charts_is_up_to_date(tool: str) -> None:
    done = run(tool, "--check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_every_value_has_a_row_with_a_description(chart: Path) -> None:
    rows = [
        line.strip("| ").split(" | ")
        for line in (chart / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    described = {row[0].strip("`") for row in rows if row[-1]}
    assert set(files.list_leaves(files.read_values(chart))) <= described
