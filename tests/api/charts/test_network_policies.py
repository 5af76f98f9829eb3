"""What NetworkPolicies of the operator's chart let through, also beside one that denies all."""

from typing import Any

import pytest

from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm, Object, nest_values

pytestmark = pytest.mark.api

API_SERVER = [{"ports": [{"port": 6443}]}]
DNS = {
    "ports": [{"port": port, "protocol": name} for port in (53, 5353) for name in ("UDP", "TCP")]
}
"""OpenShift's DNS pods listen on 5353."""


def render(helm: Helm, **values: Any) -> dict[str, Object]:
    """Return the policies and the pod of `helm test` by their names."""
    given = {"networkPolicy.enabled": True, "networkPolicy.runs.enabled": True, **values}
    objects = helm.render(OPERATOR, nest_values({"crds.install": False, **given}), "icdc", "lake")
    kinds = ("NetworkPolicy", "Pod")
    return {f"{i['kind']} {i['metadata']['name']}": i for i in objects if i["kind"] in kinds}


@pytest.mark.parametrize("name", ["", "-runs"])
def test_no_egress_rules_allow_any_egress(name: str, helm: Helm) -> None:
    policy = render(helm)[f"NetworkPolicy icdc-iceberg-cdc-operator{name}"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == [{}]


@pytest.mark.parametrize(("name", "value"), [("", "egress"), ("-runs", "runs.egress")])
def test_egress_rules_are_added_to_dns(name: str, value: str, helm: Helm) -> None:
    policies = render(helm, **{f"networkPolicy.{value}": API_SERVER})
    egress = policies[f"NetworkPolicy icdc-iceberg-cdc-operator{name}"]["spec"]["egress"]
    assert DNS in egress
    assert {} not in egress
    assert egress[-1:] == API_SERVER


def test_the_pod_of_helm_test_reaches_dns_and_the_health_port(helm: Helm) -> None:
    objects = render(helm, **{"ports.health": 9091})
    labels = objects["Pod icdc-iceberg-cdc-operator-test"]["metadata"]["labels"]
    policy = objects["NetworkPolicy icdc-iceberg-cdc-operator-test"]["spec"]
    operator = objects["NetworkPolicy icdc-iceberg-cdc-operator"]["spec"]["podSelector"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert not operator["matchLabels"].items() <= labels.items()
    to_health = {
        "to": [{"podSelector": operator}],
        "ports": [{"port": 9091, "protocol": "TCP"}],
    }
    assert policy["egress"] == [DNS, to_health]
