"""What each value of the operator's chart changes in its manifests, and nothing else."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_operator.cluster import options
from icdc_operator.cluster.heads.reader import process
from icdc_testing.kube.charts import files, helm
from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm, Object, nest_values

pytestmark = pytest.mark.api

RELEASE, NAMESPACE = "iceberg-cdc-operator", "lake"
PROJECT = Path(__file__).parents[3] / "pyproject.toml"
CASES = yaml.safe_load((Path(__file__).parent / "values.yaml").read_text(encoding="utf-8"))
SHORT = {
    "spec.template.spec.containers[operator]": "op",
    "spec.template.spec.containers[heads]": "heads",
    "spec.template.spec": "pod",
    tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]: "VERSION",
    RELEASE: "@",
    "@/": f"{RELEASE}/",  # of an image
}
"""How values.yaml beside this file writes what comes again and again."""

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

Render = Callable[[Mapping[str, Any]], list[Object]]


@pytest.fixture(scope="module")
def render(helm: Helm) -> Render:
    """Renders the chart; each set of values once. Without the definition, which takes long."""
    by_source: dict[str, list[Object]] = {}

    def render(flat: Mapping[str, Any]) -> list[Object]:
        key = repr(sorted(flat.items()))
        if key not in by_source:
            values = nest_values({"crds.install": False, **flat})
            by_source[key] = helm.render(OPERATOR, values, RELEASE, NAMESPACE)
        return by_source[key]

    return render


def shorten(change: str) -> str:
    for long, short in SHORT.items():
        change = change.replace(long, short)
    return change


@pytest.mark.parametrize("case", CASES, ids=lambda case: ",".join(case["values"]))
def test_a_value_changes_exactly_this(case: dict[str, Any], render: Render) -> None:
    beside = case.get("beside", {})
    changed_paths = helm.list_changes(render(beside), render({**beside, **case["values"]}))
    assert sorted(shorten(path) for path in changed_paths) == sorted(case["changes"])


def test_every_value_is_in_the_table() -> None:
    listed = {path for case in CASES for path in case["values"]}
    assert listed == set(files.list_leaves(files.read_values(OPERATOR)))


def test_large_numbers_are_printed_in_digits(render: Render) -> None:
    limits = ("activeRuns", "activeRunsPerNamespace", "activeRunsPerTarget")
    # By lag and by wait, and by failures.
    rules = ("lagSeconds", "lagSeconds", "failures")
    large = {
        "workers": 2_000_000,
        **{f"limits.{name}": 2_000_000 for name in limits},
        **{f"metrics.prometheusRule.{name}": 2_000_000 for name in rules},
    }
    objects = render({**large, "metrics.prometheusRule.enabled": True})
    given = options.parse(list_containers(objects)["operator"]["args"], {})
    assert given.workers == 2_000_000
    assert set(vars(given.limits).values()) == {2_000_000}
    (rule,) = (item for item in objects if item["kind"] == "PrometheusRule")
    assert str(rule).count("> 2000000") == len(rules)


def list_containers(objects: list[Object]) -> dict[str, Any]:
    (pod,) = (item["spec"]["template"]["spec"] for item in objects if item["kind"] == "Deployment")
    return {container["name"]: container for container in pod["containers"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: ",".join(case["values"]))
def test_the_process_takes_what_the_chart_starts_it_with(
    case: dict[str, Any], render: Render
) -> None:
    by_name = list_containers(render({**case.get("beside", {}), **case["values"]}))
    container = by_name["operator"]
    given = options.parse(container["args"], {})
    assert process.parse_arguments(by_name["heads"]["args"]).socket == given.heads_socket
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"metrics": given.metrics_port, "health": given.health_port}


def test_the_container_that_speaks_to_catalogs_has_no_token(render: Render) -> None:
    objects = render({})
    (pod,) = (item["spec"]["template"]["spec"] for item in objects if item["kind"] == "Deployment")
    assert pod["automountServiceAccountToken"] is False
    tokens = {volume["name"] for volume in pod["volumes"] if "serviceAccountToken" in str(volume)}
    by_name = list_containers(objects)
    mounts = {name: {mount["name"] for mount in c["volumeMounts"]} for name, c in by_name.items()}
    assert not mounts["heads"] & tokens
    (token,) = (m for m in by_name["operator"]["volumeMounts"] if m["name"] in tokens)
    # Where the libraries look for it.
    assert token["mountPath"] == SERVICE_ACCOUNT
    assert not by_name["heads"].get("env")
