"""Labels of all charts: each key once, always a string, and never other than a selector wants."""

from collections.abc import Hashable
from typing import Any

import pytest
import yaml

from icdc_testing.kube.charts.files import DEMO, OPERATOR, PIPELINES
from icdc_testing.kube.charts.helm import Helm, Object, nest_values

pytestmark = pytest.mark.api

OURS = {
    "app.kubernetes.io/name": "mine",
    "app.kubernetes.io/instance": "mine",
    "app.kubernetes.io/component": "mine",
    "app.kubernetes.io/part-of": "mine",
    "app.kubernetes.io/version": "",
    "helm.sh/chart": "mine",
    "rbac.authorization.k8s.io/aggregate-to-view": "false",
}
SHOP = {"tables": [{"name": "shop.orders"}], "sink": {"opensearch": {"hosts": ["http://search"]}}}
MONITORS = ("serviceMonitor", "podMonitor", "prometheusRule", "dashboards")
VALUES: dict[Any, dict[str, Any]] = {
    OPERATOR: {
        "crds.install": False,
        "commonLabels": OURS,
        "podLabels": OURS,
        "networkPolicy.enabled": True,
        **{f"metrics.{name}.enabled": True for name in MONITORS},
        **{f"metrics.{name}.labels": OURS for name in MONITORS},
    },
    DEMO: {"commonLabels": OURS},
    PIPELINES: {"labels": OURS, "pipelines": {"shop": SHOP}},
}


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that is in a mapping twice, as Flux's post-renderer does."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        keys = [key.value for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"a key is there twice: {keys}"
        return super().construct_mapping(node, deep)


def render(helm: Helm, chart: Any, release: str, **more: Any) -> list[Object]:
    values = nest_values({**VALUES[chart], **more})
    text = helm.run_ok("template", release, str(chart), "--namespace", "lake", values=values)
    return [item for item in yaml.load_all(text, Loader=StrictLoader) if item]


def list_pod_labels(objects: list[Object]) -> list[dict[str, str]]:
    templates = (item["spec"].get("template") for item in objects if item["kind"] == "Deployment")
    return [template["metadata"]["labels"] for template in templates if template]


@pytest.mark.parametrize("chart", VALUES, ids=lambda chart: chart.name)
def test_a_label_of_ours_is_replaced_unless_it_is_selected_by(chart: Any, helm: Helm) -> None:
    objects = render(helm, chart, "icdc")
    for labels in [item["metadata"]["labels"] for item in objects] + list_pod_labels(objects):
        assert labels["app.kubernetes.io/part-of"] == labels["helm.sh/chart"] == "mine"
        assert labels["app.kubernetes.io/version"] == ""
        assert labels["app.kubernetes.io/instance"] == "icdc"
        assert labels["app.kubernetes.io/name"] != "mine"
    for item in objects:
        selector = item.get("spec", {}).get("selector", {})
        wanted = selector.get("matchLabels", selector)
        if item["kind"] in ("Deployment", "Service"):
            assert any(wanted.items() <= labels.items() for labels in list_pod_labels(objects))


def test_a_label_of_the_values_does_not_end_the_aggregation(helm: Helm) -> None:
    objects = render(helm, OPERATOR, "icdc")
    (view,) = (i for i in objects if i["kind"] == "ClusterRole" and "view" in i["metadata"]["name"])
    aggregated = "rbac.authorization.k8s.io/aggregate-to-view"
    assert view["metadata"]["labels"][aggregated] == "true"


def test_the_pod_of_helm_test_is_not_selected_by_the_service(helm: Helm) -> None:
    objects = render(helm, OPERATOR, "icdc")
    (service,) = (item for item in objects if item["kind"] == "Service")
    (pod,) = (item for item in objects if item["kind"] == "Pod")
    assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("release", "more"),
    [
        ("on", {"nameOverride": "2024"}),
        ("on", {"nameOverride": "on"}),
        ("icdc", {"fullnameOverride": "null"}),
    ],
    ids=str,
)
def test_names_that_are_something_else_in_yaml_are_text(
    release: str, more: dict[str, str], helm: Helm
) -> None:
    all_objects = {"replicaCount": 2, "rbac.clusterRole": True}
    objects = render(helm, OPERATOR, release, **all_objects, **more)
    for item in objects:
        metadata = item["metadata"]
        assert isinstance(metadata["name"], str)
        assert isinstance(item.get("roleRef", {}).get("name", ""), str)
        assert all(isinstance(label, str) for label in metadata["labels"].values())
        selector = item.get("spec", {}).get("selector", {})
        assert all(isinstance(x, str) for x in selector.get("matchLabels", {}).values())
    for labels in list_pod_labels(objects):
        assert all(isinstance(label, str) for label in labels.values())


def test_labels_of_the_demo_are_text_whatever_its_name(helm: Helm) -> None:
    for item in render(helm, DEMO, "on"):
        assert all(isinstance(label, str) for label in item["metadata"]["labels"].values())
