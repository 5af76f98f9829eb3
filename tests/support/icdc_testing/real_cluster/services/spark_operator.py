"""spark-operator on a cluster of the tests: its kinds, what its chart makes, and its controller.

Its webhook runs in a pod, as the chart has it: SparkApplications and the pods of runs go through
it, as they do for whoever installs that chart. The controller runs as a process of the host, as
the ServiceAccount of the chart, and watches all namespaces: tests make one for each case. `stop`
and `start` are for tests that kill it.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import pyspark

from icdc_cli.embedded import jdk
from icdc_testing.kube import binaries
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.kube.kubectl import Kubectl, write_kubeconfig
from icdc_testing.kube.server_process import FixedPort, Probe
from icdc_testing.real_cluster.host import layout, programs
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.real_cluster.host.programs import Starter
from icdc_testing.real_cluster.node import control_plane, images
from icdc_testing.waiting import wait

NAME = "spark-operator"
_CONTROLLER = f"{NAME}-controller"
_WEBHOOK = f"{NAME}-webhook"
GROUP = "sparkoperator.k8s.io"
_KINDS = {
    "v1beta2": {"SparkApplication", "ScheduledSparkApplication"},
    "v1alpha1": {"SparkConnect"},
}
_HEALTH = FixedPort(layout.ADDRESS, 8081)
_READY_SECONDS = 120.0
_TOKEN_HOURS = 24

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Halves the time of short applications: the second compiler does not pay off."""


def define(kubectl: Kubectl) -> None:
    """Apply its kinds, and its chart but for the controller; return once the kinds are served.

    It ends when it is started before. Pods of the webhook start when there is a node.
    """
    source = binaries.find_source_folder(NAME)
    kubectl.run_ok("apply", "--server-side", "-f", str(source / "config" / "crd" / "bases"))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}}
    items = [namespace, *_render(source / "charts" / "spark-operator-chart")]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    # Some of the chart's objects do not say their namespace.
    kubectl.run_ok("apply", "-n", NAME, "-f", "-", stdin=text)
    wait.wait_until(lambda: _are_served(kubectl), "its kinds are served")


def install(starter: Starter, kubectl: Kubectl) -> None:
    """Start it for the first time, after `define`; return once it and its webhook are ready."""
    how = ("-n", NAME, f"--duration={_TOKEN_HOURS}h")
    token = kubectl.run_ok("create", "token", _CONTROLLER, *how).strip()
    ca = starter.paths.run / "certificates" / "ca.pem"
    write_kubeconfig(
        _locate_kubeconfig(starter.paths), control_plane.make_cluster_entry(ca), token, NAME
    )
    start(starter)
    rollout = ("rollout", "status", f"deployment/{_WEBHOOK}", "-n", NAME)
    kubectl.run_ok(*rollout, f"--timeout={_READY_SECONDS}s")
    wait.wait_until(lambda: _is_trusted(kubectl), "the API server knows the webhook's authority")


def start(starter: Starter) -> None:
    """Start it, again where it was stopped; return once it is ready."""
    program = starter.start(
        binaries.ensure_program(NAME),
        [
            *("controller", "start", "--namespaces="),
            f"--health-probe-bind-address={_HEALTH.address}",
            *("--metrics-bind-address=0", "--enable-ui-service=false", "--leader-election=false"),
            *("--controller-threads=4", "--zap-encoder=console", "--zap-log-level=info"),
        ],
        name=NAME,
        environment={
            "KUBECONFIG": str(_locate_kubeconfig(starter.paths)),
            # What it would find in a pod; spark-submit, which it runs, uses them.
            "KUBERNETES_SERVICE_HOST": layout.API.host,
            "KUBERNETES_SERVICE_PORT": str(layout.API.number),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "JAVA_HOME": str(jdk.find_spark_jdk().home),
            "JAVA_TOOL_OPTIONS": QUICK_JVM,
        },
    )
    program.wait_until(Probe(_HEALTH, "/readyz").answers, "it is ready", seconds=_READY_SECONDS)


def stop(where: ClusterPaths) -> None:
    """Kill it, as a node that fails would."""
    programs.end(where, [NAME])


def _are_served(kubectl: Kubectl) -> bool:
    """Return whether both forms of discovery show all kinds; one comes later than the other."""
    for version, kinds in _KINDS.items():
        ran = kubectl.run("get", "--raw", f"/apis/{GROUP}/{version}")
        if ran.code != 0 or not kinds <= {
            resource["kind"] for resource in json.loads(ran.out)["resources"]
        }:
            return False
    how = (f"--api-group={GROUP}", "--cached=false", "--output=name")
    return len(kubectl.run("api-resources", *how).out.split()) == sum(map(len, _KINDS.values()))


def _locate_kubeconfig(where: ClusterPaths) -> Path:
    return where.run / f"{NAME}.kubeconfig"


def _render(chart: Path) -> list[dict[str, Any]]:
    """Return what the chart makes, but for the Deployment of the controller."""
    name, _, tag = images.SPARK_OPERATOR_IMAGE.rpartition(":")
    registry, _, repository = name.partition("/")
    image = {"registry": registry, "repository": repository, "tag": tag, "pullPolicy": "Never"}
    values = {"image": image, "spark": {"jobNamespaces": [""]}}
    with tempfile.TemporaryDirectory(prefix="icdc-helm-") as home:
        helm = Helm(binaries.ensure_program("helm"), Path(home))
        rendered = helm.render(chart, values, release=NAME, namespace=NAME)
    controller = ("Deployment", _CONTROLLER)
    return [item for item in rendered if (item["kind"], item["metadata"]["name"]) != controller]


def _is_trusted(kubectl: Kubectl) -> bool:
    """Return whether each entry of the webhook has the authority that the webhook has made."""
    kinds = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
    entries = [
        entry for kind in kinds for entry in kubectl.read_object("get", kind, _WEBHOOK)["webhooks"]
    ]
    return all("caBundle" in entry["clientConfig"] for entry in entries)
