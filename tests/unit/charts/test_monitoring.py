"""What alerts and dashboards ask for is what the operator has."""

import json
import re
from pathlib import Path

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_cli.explanations import metrics as explained
from icdc_operator.cluster import operator_process
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import WorkQueue
from icdc_testing.kube.charts.files import OPERATOR

pytestmark = pytest.mark.unit

ALERTS = OPERATOR / "templates" / "alerts.yaml"
DASHBOARDS = sorted((OPERATOR / "files" / "dashboards").glob("*.json"))
_METRIC = r"\bicdc_[a-z_]+"
_ENDINGS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def list_sample_names() -> set[str]:
    """Return the names of all samples that the operator may show."""
    metrics = Metrics()
    metrics.follow_queue(WorkQueue(lambda: 0.0))
    names = {
        f"{family.name}{ending}"
        for family in metrics.registry.collect()
        for ending in _ENDINGS[family.type]
    }
    # Those that show a part of the process are known to it alone.
    text = Path(operator_process.__file__).read_text(encoding="utf-8")
    return names | set(re.findall(rf'"({_METRIC})"', text))


@pytest.mark.parametrize("path", [ALERTS, *DASHBOARDS], ids=lambda path: path.name)
def test_every_metric_that_is_asked_for_exists(path: Path) -> None:
    asked = set(re.findall(_METRIC, path.read_text(encoding="utf-8")))
    assert asked
    assert asked <= list_sample_names()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_query_selects_and_groups_by_labels_that_its_metrics_have(path: Path) -> None:
    labels = {name: set(names) for name, (_, _, names) in explained.read_metrics().items()}
    panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(queries) > 20
    for query in queries:
        known: set[str] = {"le"}
        for name, selector in re.findall(rf"({_METRIC})(?:{{([^}}]*)}})?", query):
            series = name if name in labels else re.sub(r"_(bucket|sum|count)$", "", name)
            chosen = dict(re.findall(r'(\w+)[=!]~?"([^"]*)"', selector))
            assert chosen.keys() <= labels[series], query
            assert chosen.get("type", "Ready") in list(ConditionType), query
            assert chosen.get("status", "True") in ("True", "False", "Unknown"), query
            known |= labels[series]
        for grouped in re.findall(r"by \(([^)]*)\)", query):
            assert set(re.split(r",\s*", grouped)) <= known, query


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
