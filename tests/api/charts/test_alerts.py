"""Alerts on the operator select its own pods, whatever scrapes them."""

import re

import pytest

from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm, nest_values

pytestmark = pytest.mark.api


def read_selectors(helm: Helm, **values: object) -> set[str]:
    """Return the label matchers of all metrics of the operator itself."""
    enabled = {"crds.install": False, "metrics.prometheusRule.enabled": True}
    objects = helm.render(OPERATOR, nest_values({**enabled, **values}), "icdc", "lake")
    (rule,) = (item for item in objects if item["kind"] == "PrometheusRule")
    groups = {group["name"]: group["rules"] for group in rule["spec"]["groups"]}
    found = [re.search(r"\{(.*)\}", alert["expr"]) for alert in groups["iceberg-cdc-operator"]]
    # Without the labels by which some of them choose among the series of a pod.
    return {re.sub(r',(code|result)=~?"[^"]*"', "", match[1]) for match in found if match}


def test_alerts_on_the_operator_need_no_service_monitor(helm: Helm) -> None:
    (selector,) = read_selectors(helm)
    assert selector == 'namespace="lake",pod=~"icdc-iceberg-cdc-operator-[0-9a-z]+(-[0-9a-z]+)?"'
    with_monitor = {"metrics.serviceMonitor.enabled": True}
    assert read_selectors(helm, **with_monitor) == {selector}


@pytest.mark.parametrize(
    ("pod", "selected"),
    [
        ("icdc-5d89f7c6b8-x7k2p", True),
        ("icdc-5d89f7cx7k2p", True),  # cut, of a long name
        ("icdc-prod-5d89f7c6b8-x7k2p", False),
        ("other-icdc-5d89f7c6b8-x7k2p", False),
    ],
)
def test_pods_of_another_release_are_not_selected(pod: str, selected: bool, helm: Helm) -> None:
    (selector,) = read_selectors(helm, fullnameOverride="icdc")
    (pattern,) = re.findall(r'pod=~"(.*)"', selector)
    # Prometheus matches the whole value.
    assert bool(re.fullmatch(pattern, pod)) is selected
