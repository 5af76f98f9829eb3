"""Our charts as dependencies of a chart of somebody else."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from icdc_testing.kube.charts.files import ALL
from icdc_testing.kube.charts.helm import Helm

pytestmark = pytest.mark.api


@pytest.fixture
def umbrella(tmp_path: Path) -> Path:
    """A chart that includes each of ours under its condition."""
    abouts = [yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8")) for chart in ALL]
    dependencies = [
        {key: about[key] for key in ("name", "version")}
        | {"condition": f"{about['name']}.enabled", "tags": ["cdc"]}
        for about in abouts
    ]
    about = {"apiVersion": "v2", "name": "umbrella", "version": "1.0.0"}
    about_text = json.dumps({**about, "dependencies": dependencies})
    (tmp_path / "Chart.yaml").write_text(about_text, encoding="utf-8")
    for chart in ALL:
        shutil.copytree(chart, tmp_path / "charts" / chart.name)
    return tmp_path


def list_included(helm: Helm, umbrella: Path, values: dict[str, object]) -> set[str]:
    text = helm.run_ok("template", "x", str(umbrella), values=values)
    return {chart.name for chart in ALL if f"umbrella/charts/{chart.name}/" in text}


def test_a_chart_above_includes_ours_by_a_condition(helm: Helm, umbrella: Path) -> None:
    shop = {"tables": [{"name": "a.b"}], "sink": {"opensearch": {"hosts": ["http://a"]}}}
    values = {
        "global": {"a": "b"},
        "tags": {"cdc": False},
        "iceberg-cdc-operator": {"enabled": True, "tags": {"cdc": True}},
        "iceberg-cdc-pipelines": {"enabled": True, "pipelines": {"shop": shop}},
        "iceberg-cdc-demo": {"enabled": False},
    }
    included = list_included(helm, umbrella, values)
    assert included == {"iceberg-cdc-operator", "iceberg-cdc-pipelines"}
