"""`icdc doctor` on a real API server with the real chart: one thing is broken at a time.

Nothing creates pods here, so the test says that those of both operators are ready. The words of a
finding are in `tests/unit/icdc_cli/doctor`; here is that it is found where the chart has it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from icdc_cli import main
from icdc_cli.doctor.cluster import cluster_facts
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.kube.charts.site import RELEASE, ChartSite
from icdc_testing.kube.stored_pipelines import Pipelines, make_condition, make_minimal

pytestmark = [pytest.mark.api, pytest.mark.timeout(300)]

Object = dict[str, Any]
SPARK = "spark-operator-controller"
SECRET = "Secret search (spec.sink.opensearch.credentialsFrom of shop)"
SERVER_FIELDS = ("resourceVersion", "uid", "managedFields", "creationTimestamp", "generation")


def make_spark_operator(namespace: str) -> Object:
    """Return a Deployment as the chart of spark-operator has it, for `icdc doctor`."""
    labels = dict(pair.split("=") for pair in cluster_facts.SPARK_SELECTOR.split(","))
    arguments = ["controller", "start", f"--namespaces={namespace}"]
    container = {"name": "main", "image": "spark-operator", "args": arguments}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": SPARK, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@dataclass(frozen=True)
class ExaminedCluster:
    """A namespace in which nothing is wrong, until somebody breaks it."""

    pipelines: Pipelines

    def list_problems(self, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
        """Return what is found wrong, by what was checked."""
        here = ("-n", self.pipelines.namespace, "--kubeconfig")
        kubeconfig = str(self.pipelines.kubectl.kubeconfig)
        main.main(["doctor", "shop", *here, kubeconfig, "-o", "json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        return {one["check"]: one["found"] for one in findings if one["result"] != "Ok"}

    def store(self, resource: Object) -> None:
        """Create the object, or put it back as it was."""
        metadata = {k: v for k, v in resource["metadata"].items() if k not in SERVER_FIELDS}
        text = json.dumps({**resource, "metadata": metadata})
        how = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        self.pipelines.run_ok(*how, stdin=text)

    def make_ready(self, deployment: str) -> None:
        """Be the controller that finds a pod of the Deployment ready: none runs here."""
        counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), 1)
        status = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": counts}))
        self.pipelines.run_ok("patch", "deployment", deployment, *status)


@pytest.fixture(scope="module")
def cluster(kube: KubeApi, helm: Helm, spark_applications: None) -> Iterator[ExaminedCluster]:
    """The chart, a spark-operator, and a pipeline with all that it needs."""
    with kube.create_namespace() as namespace:
        site = ChartSite(kube, helm.connect(kube.kubeconfig))
        pipelines = Pipelines(kube.kubectl, namespace)
        examined = ExaminedCluster(pipelines)
        with site.install_release(namespace):
            examined.store(make_spark_operator(namespace))
            literals = ("--from-literal=username=u", "--from-literal=password=p")
            pipelines.run_ok("create", "secret", "generic", "search", *literals)
            source = {"secretRef": {"name": "search"}}
            sink = {"hosts": ["https://search:9200"], "credentialsFrom": source}
            pipelines.apply(make_minimal(sink={"opensearch": sink}))
            ready = [make_condition("Ready", "True")]
            pipelines.patch_status({"observedGeneration": 1, "conditions": ready})
            examined.make_ready(RELEASE)
            examined.make_ready(SPARK)
            yield examined


def test_a_cluster_with_all_that_the_chart_makes_has_no_problem(
    cluster: ExaminedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.list_problems(capsys) == {}


@pytest.mark.parametrize(
    ("resource", "change", "check", "found"),
    [
        ("secret/search", None, SECRET, "does not exist in"),
        ("secret/search", {"data": {"password": None}}, SECRET, "has no key password"),
        (f"rolebinding/{RELEASE}", None, "permissions of {namespace}:" + RELEASE, "missing in"),
        (
            f"rolebinding/{RELEASE}-driver",
            None,
            "permissions of {namespace}:icdc-spark",
            "missing in",
        ),
        (
            "serviceaccount/icdc-spark",
            None,
            "service account icdc-spark of shop",
            "does not exist in",
        ),
        (
            f"deployment/{RELEASE}",
            {"metadata": {"labels": {"app.kubernetes.io/version": "0.0.9"}}},
            "operator {namespace}/" + RELEASE,
            "is of version 0.0.9",
        ),
        (
            f"deployment/{SPARK}",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "main",
                                    "image": "spark-operator",
                                    "args": ["controller", "start", "--namespaces=default"],
                                }
                            ]
                        }
                    }
                }
            },
            "namespaces of spark-operator",
            "watches default, not ",
        ),
        (f"deployment/{SPARK}", None, "spark-operator", "is not installed"),
    ],
)
def test_what_is_broken_is_found_alone(
    cluster: ExaminedCluster,
    resource: str,
    change: Object | None,
    check: str,
    found: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = cluster.pipelines.kubectl.read_object(
        "get", resource, "-n", cluster.pipelines.namespace
    )
    if change is None:
        cluster.pipelines.run_ok("delete", resource)
    else:
        cluster.pipelines.run_ok("patch", resource, "--type=merge", "-p", json.dumps(change))
    try:
        problems = cluster.list_problems(capsys)
    finally:
        cluster.store(before)
        if resource == f"deployment/{SPARK}":
            cluster.make_ready(SPARK)
    ((checked, observation),) = problems.items()
    assert checked == check.replace("{namespace}", cluster.pipelines.namespace)
    assert found in observation


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"observedGeneration": -1}, "no operator has seen it"),
        (
            {"conditions": [make_condition("Stalled", "True", message="shop.orders: Gap")]},
            "shop.orders: Gap",
        ),
    ],
)
def test_a_pipeline_that_does_not_go_on_is_found(
    cluster: ExaminedCluster, status: Object, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = cluster.pipelines.get()["status"]
    cluster.pipelines.patch_status(status)
    try:
        problems = cluster.list_problems(capsys)
    finally:
        cluster.pipelines.patch_status(before)
    assert problems.keys() == {"pipeline shop"}
    assert found in problems["pipeline shop"]
