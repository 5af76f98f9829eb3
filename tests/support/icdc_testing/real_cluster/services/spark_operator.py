"""spark-operator on a cluster of the tests: its kinds, its rights, and the operator itself.

It runs as a process of the host, as the ServiceAccount that its chart would make, and watches all
namespaces: tests make one for each case. `stop` and `start` are for tests that kill it.
"""

import json
from pathlib import Path
from typing import Any

import pyspark

from icdc_cli.embedded import jdk
from icdc_testing.kube import binaries
from icdc_testing.kube.kubectl import Kubectl, write_kubeconfig
from icdc_testing.kube.server_process import FixedPort, Probe
from icdc_testing.real_cluster.host import layout, programs
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.real_cluster.host.programs import Starter
from icdc_testing.real_cluster.node import control_plane
from icdc_testing.waiting import wait

NAME = "spark-operator"
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

_RULES: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "update", "patch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["*"]},
    {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]},
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get"],
    },
]


def define(kubectl: Kubectl) -> None:
    """Make its kinds known and give it its rights; return once the kinds are served.

    It ends when it is started before.
    """
    source = binaries.find_source_folder(NAME)
    kubectl.run_ok("apply", "--server-side", "-f", str(source / "config" / "crd" / "bases"))
    kubectl.run_ok("apply", "-f", "-", stdin=json.dumps(_build_account()))
    wait.wait_until(lambda: _are_served(kubectl), "its kinds are served")


def install(starter: Starter, kubectl: Kubectl) -> None:
    """Start it for the first time, after `define`; return once it is ready."""
    token = kubectl.run_ok(
        "create", "token", NAME, "-n", NAME, f"--duration={_TOKEN_HOURS}h"
    ).strip()
    ca = starter.paths.run / "certificates" / "ca.pem"
    write_kubeconfig(
        _locate_kubeconfig(starter.paths), control_plane.make_cluster_entry(ca), token, NAME
    )
    start(starter)


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


def _build_account() -> dict[str, Any]:
    """Return namespace, ServiceAccount and rights, as one list."""
    rbac = "rbac.authorization.k8s.io"
    items = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME, "namespace": NAME},
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": _RULES,
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAME}],
        },
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}
