"""Pipelines and their definition when a release is upgraded: nothing is lost."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.kube.charts.site import RELEASE, ChartSite
from icdc_testing.kube.stored_pipelines import Pipelines, make_minimal
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

NEWER = "timeouts"
"""A part of the spec that the older definition does not have."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The chart as it was before that part came."""
    chart = tmp_path / OPERATOR.name
    shutil.copytree(OPERATOR, chart)
    (file,) = (chart / "files").glob("icebergcdcpipelines.*.yaml")
    definition: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][NEWER]
    file.write_text(yaml.safe_dump(definition), encoding="utf-8")
    return chart


def test_an_upgrade_brings_the_new_definition_and_keeps_the_pipelines(
    helm: Helm, older: Path
) -> None:
    with KubeApi(own=True) as kube, kube.create_namespace() as namespace:
        here, release = ("-n", namespace), helm.connect(kube.kubeconfig)
        site, pipelines = ChartSite(kube, release), Pipelines(kube.kubectl, namespace)
        release.run_ok("install", RELEASE, str(older), *here)
        wait.wait_until(lambda: site.serves(namespace), "the kind is served")
        before = pipelines.apply(make_minimal())
        wanted = make_minimal("later", **{NEWER: {"startSeconds": 300}})
        refused = pipelines.try_to_apply(wanted)
        assert f".spec.{NEWER}: field not declared in schema" in refused.err

        release.run_ok("upgrade", RELEASE, str(OPERATOR), *here)
        wait.wait_until(lambda: pipelines.try_to_apply(wanted).code == 0, "the new part is taken")
        assert pipelines.get("later")["spec"][NEWER]["startSeconds"] == 300
        retained = pipelines.get()
        assert retained["metadata"]["uid"] == before["metadata"]["uid"]
        assert retained["metadata"]["generation"] == before["metadata"]["generation"]
