"""Dashboards as Grafana's sidecar finds them: the files of all charts are in one folder."""

import json

import pytest

from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm, nest_values

pytestmark = pytest.mark.api


def test_the_file_of_a_dashboard_names_the_product(helm: Helm) -> None:
    values = nest_values({"crds.install": False, "metrics.dashboards.enabled": True})
    objects = helm.render(OPERATOR, values, "icdc", "lake")
    files = [item["data"] for item in objects if item["kind"] == "ConfigMap"]
    assert [list(data) for data in files] == [["iceberg-cdc-pipelines.json"]]
    (source,) = (OPERATOR / "files" / "dashboards").iterdir()
    assert json.loads(files[0]["iceberg-cdc-pipelines.json"]) == json.loads(source.read_text())
