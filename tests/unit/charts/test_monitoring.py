"""Alerts say what a reader needs, and a dashboard has its panels in order.

What they ask for is evaluated in `tests/api/charts`.
"""

import json
import re
from pathlib import Path

import pytest

from icdc_testing.kube.charts.files import OPERATOR

pytestmark = pytest.mark.unit

ALERTS = OPERATOR / "templates" / "alerts.yaml"
DASHBOARDS = sorted((OPERATOR / "files" / "dashboards").glob("*.json"))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_has_panels_side_by_side_that_do_not_overlap(path: Path) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    cells = [
        (x, y)
        for panel in dashboard["panels"]
        for where in [panel["gridPos"]]
        for x in range(where["x"], where["x"] + where["w"])
        for y in range(where["y"], where["y"] + where["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    identities = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identities)) == len(identities)


def test_every_alert_says_what_it_means_and_how_bad_it_is() -> None:
    alerts = ALERTS.read_text(encoding="utf-8").split("- alert: ")[1:]
    assert len(alerts) >= 5
    for alert in alerts:
        assert "severity: " in alert
        assert "summary: " in alert
        assert "description: " in alert


def test_a_command_in_an_alert_names_the_pipeline_and_its_namespace() -> None:
    commands = re.findall(r"kubectl [^`\"\n]*", ALERTS.read_text(encoding="utf-8"))
    assert commands
    for command in commands:
        assert command.endswith(" -n {{ $labels.namespace }} {{ $labels.name }}")
