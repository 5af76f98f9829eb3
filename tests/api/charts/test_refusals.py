"""What the charts refuse before anything is sent, and how they say it."""

from typing import Any

import pytest

from icdc_testing.kube.charts import files
from icdc_testing.kube.charts.files import ALL, OPERATOR, PIPELINES
from icdc_testing.kube.charts.helm import Helm, nest_values

pytestmark = pytest.mark.api

SHOP = {"tables": [{"name": "shop.orders"}], "sink": {"opensearch": {"hosts": ["http://search"]}}}


NEEDED = [
    *("image", "image.repository", "spark", "spark.image", "spark.image.repository"),
    *("spark.serviceAccount", "spark.serviceAccount.name", "crds", "replicaCount"),
    *("leaderElection", "podDisruptionBudget", "limits", "workers", "heads", "logLevel"),
    *("logFormat", "serviceAccount", "rbac", "ports", "ports.metrics", "ports.health"),
    *("metrics", "metrics.serviceMonitor", "metrics.podMonitor", "metrics.prometheusRule"),
    *("metrics.dashboards", "networkPolicy", "networkPolicy.runs", "proxy"),
]
"""Values that must not be left empty: Helm removes such a key."""


def test_helm_finds_nothing_wrong_with_the_charts(helm: Helm) -> None:
    output = helm.run_ok("lint", "--strict", *map(str, ALL))
    assert "3 chart(s) linted, 0 chart(s) failed" in output


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": 2}, "additional properties 'replicas' not allowed"),
        ({"image.repo": "a"}, "at '/image': additional properties 'repo' not allowed"),
        ({"metrics.serviceMonitor.on": True}, "at '/metrics/serviceMonitor': additional"),
        ({"replicaCount": "two"}, "at '/replicaCount': got string, want integer"),
        ({"replicaCount": -1}, "at '/replicaCount': minimum"),
        ({"watchNamespaces": "lake"}, "at '/watchNamespaces': got string, want array"),
        ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces': items at 0 and 1 are equal"),
        ({"watchNamespaces": ["A_b"]}, "at '/watchNamespaces/0': 'A_b' does not match"),
        ({"image.digest": "abc"}, "at '/image/digest': 'abc' does not match"),
        ({"image.repository": ""}, "at '/image/repository': '' does not match"),
        ({"image.repository": "a/b:1"}, "at '/image/repository': 'a/b:1' does not match"),
        ({"image.repository": "b:1"}, "at '/image/repository': 'b:1' does not match"),
        ({"spark.image.repository": "a:5000/b:1"}, "at '/spark/image/repository': 'a:5000/b:1'"),
        ({"spark.image.repository": "a/b@sha256"}, "at '/spark/image/repository': 'a/b@sha256'"),
        ({"image.pullPolicy": "Often"}, "at '/image/pullPolicy': value must be one of 'Always'"),
        ({"proxy.httpProxy": "proxy:3128"}, "at '/proxy/httpProxy': 'proxy:3128' does not match"),
        ({"proxy.httpsProxy": "http://proxy"}, "at '/proxy/httpsProxy': 'http://proxy' does not"),
        ({"proxy.httpsProxy": "http://u:p@proxy:1"}, "at '/proxy/httpsProxy': 'http://u:p@proxy"),
        ({"proxy.noProxy": ["*.svc"]}, "at '/proxy/noProxy/0': '*.svc' does not match"),
        ({"logLevel": "loud"}, "at '/logLevel': value must be one of 'debug'"),
        ({"ports.metrics": 0}, "at '/ports/metrics': minimum"),
        ({"nameOverride": "My"}, "at '/nameOverride': 'My' does not match pattern"),
        ({"nameOverride": "a-"}, "at '/nameOverride': 'a-' does not match pattern"),
        ({"fullnameOverride": "2024"}, "at '/fullnameOverride': '2024' does not match pattern"),
        ({"fullnameOverride": "a" * 51}, "at '/fullnameOverride': maxLength"),
        ({"commonLabels": {"a": 1}}, "at '/commonLabels/a': got number, want string"),
        ({"metrics.podMonitor.interval": "soon"}, "at '/metrics/podMonitor/interval'"),
        (
            {"ports.metrics": 9090, "ports.health": 9090},
            "ports.metrics and ports.health are both 9090",
        ),
        (
            {"watchAllNamespaces": True, "watchNamespaces": ["a"]},
            "watchAllNamespaces and watchNamespaces exclude each other",
        ),
        (
            {
                "proxy.httpsProxy": "http://proxy:3128",
                "extraEnv": [{"name": "A", "value": "b"}, {"name": "no_proxy", "value": ".corp"}],
            },
            "extraEnv has no_proxy beside proxy: use proxy.httpProxy, proxy.httpsProxy and",
        ),
        (
            {"serviceAccount.create": False},
            "serviceAccount.name is needed where serviceAccount.create is false",
        ),
    ],
    ids=lambda part: ",".join(part) if isinstance(part, dict) else "",
)
def test_the_operators_chart_names_what_is_wrong(
    values: dict[str, Any], message: str, helm: Helm
) -> None:
    ran = helm.run("template", "x", str(OPERATOR), values=nest_values(values))
    assert ran.code != 0
    assert message in ran.err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pipeline": {}}, "additional properties 'pipeline' not allowed"),
        (
            {"pipelines": {"shop": {**SHOP, "tabels": []}}},
            "at '/pipelines/shop': additional properties 'tabels' not allowed",
        ),
        (
            {"defaults": {"sink": {"opensearch": {"host": "a"}}}},
            "at '/defaults/sink/opensearch': additional properties 'host' not allowed",
        ),
        (
            {"pipelines": {"shop": {**SHOP, "mode": "Export"}}},
            "at '/pipelines/shop/mode': value must be one of 'ExportAndStream'",
        ),
        (
            {"pipelines": {"shop": {**SHOP, "tables": [{"index": "a"}]}}},
            "at '/pipelines/shop/tables/0': missing property 'name'",
        ),
        (
            {"pipelines": {"shop": {"tables": SHOP["tables"]}}},
            "pipeline shop: spec.sink is missing; it is neither in pipelines.shop nor in defaults",
        ),
        ({"pipelines": {"shop": {}}}, "pipeline shop: spec.tables is missing"),
        (
            {"defaults": SHOP, "pipelines": {"shop": {"tables": None}}},
            "pipeline shop: spec.tables is missing",
        ),
        ({"defaults": SHOP, "pipelines": {"Shop": {}}}, "pipeline Shop: a name has at most 40"),
        ({"defaults": SHOP, "pipelines": {"s" * 41: {}}}, "a name has at most 40 characters"),
        (
            {
                "defaults": SHOP,
                "pipelines": {
                    "shop": {"tables": [{"name": "a.b", "startFrom": {"snapshotId": 2**62}}]}
                },
            },
            "pipeline shop: startFrom.snapshotId of a.b has more digits than Helm keeps",
        ),
    ],
)
def test_the_pipelines_chart_names_what_is_wrong(
    values: dict[str, Any], message: str, helm: Helm
) -> None:
    ran = helm.run("template", "x", str(PIPELINES), values=values)
    assert ran.code != 0
    assert message in ran.err


@pytest.mark.parametrize("path", NEEDED)
def test_a_value_that_is_left_empty_is_named(path: str, helm: Helm) -> None:
    ran = helm.run("template", "x", str(OPERATOR), values=nest_values({path: None}))
    above, _, name = path.rpartition(".")
    where = "".join(f"/{part}" for part in above.split(".") if part)
    assert ran.code != 0
    assert f"at '{where}': missing property '{name}'" in ran.err


def test_no_group_of_values_can_be_left_empty() -> None:
    values = files.read_values(OPERATOR)
    groups = {path.rpartition(".")[0] for path in files.list_leaves(values)} - {""}
    assert groups <= set(NEEDED)


@pytest.mark.parametrize("repository", ["b", "a/b", "a.test:5000/b", "localhost:5000/a/b_c"])
def test_a_repository_may_have_the_port_of_a_registry(repository: str, helm: Helm) -> None:
    values = nest_values({"image.repository": repository})
    text = helm.run_ok("template", "x", str(OPERATOR), values=values)
    assert f"image: {repository}:" in text
