"""The cluster of the tests does what the other tests take for granted."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icdc_testing.real_cluster.host.layout import DOMAIN, SECOND
from icdc_testing.real_cluster.used import UsedCluster
from icdc_testing.waiting import wait

pytestmark = pytest.mark.cluster

API = f"https://kubernetes.default.svc.{DOMAIN}"
UID = 185
APPLICATION_SECONDS = 240.0


def make_pod(cluster: UsedCluster, *arguments: str, **container: Any) -> dict[str, Any]:
    """Return the spec of a pod that runs tests/tools/pod."""
    return {
        "containers": [
            {
                "name": "main",
                "image": cluster.facts["podImage"],
                "imagePullPolicy": "Never",
                "args": list(arguments),
                **container,
            }
        ]
    }


def test_the_node_is_ready(cluster: UsedCluster) -> None:
    nodes = cluster.kubectl.read_object("get", "nodes")["items"]
    # Other tests may have attached a second one, and be about to lose it.
    ready = {
        condition["status"]
        for node in nodes
        if node["metadata"]["name"] != SECOND.name
        for condition in node["status"]["conditions"]
        if condition["type"] == "Ready"
    }
    assert ready == {"True"}


def test_a_pod_reaches_the_api_server_by_name_as_its_service_account(
    cluster: UsedCluster, namespace: str
) -> None:
    ended = cluster.run_pod(namespace, "allowed", make_pod(cluster, "get", f"{API}/version"))
    assert ended["exitCode"] == 0, cluster.read_logs(namespace, "allowed")
    assert cluster.read_logs(namespace, "allowed").startswith("200 ")

    secrets = f"{API}/api/v1/namespaces/{namespace}/secrets"
    cluster.run_pod(namespace, "denied", make_pod(cluster, "get", secrets))
    denied = cluster.read_logs(namespace, "denied")
    assert denied.startswith("403 ")
    assert f"system:serviceaccount:{namespace}:default" in denied


def test_a_pod_writes_to_a_disk_of_the_node(cluster: UsedCluster, namespace: str) -> None:
    spec = make_pod(
        cluster,
        *("write", f"/disk/{namespace}", "written"),
        securityContext={"readOnlyRootFilesystem": True},
        volumeMounts=[{"name": "disk", "mountPath": "/disk"}],
    )
    scratch = cluster.facts["scratch"]
    spec["volumes"] = [{"name": "disk", "hostPath": {"path": scratch, "type": "Directory"}}]
    ended = cluster.run_pod(namespace, "writer", spec)
    assert ended["exitCode"] == 0, cluster.read_logs(namespace, "writer")
    file = Path(scratch, namespace)
    assert file.read_text() == "written"
    assert file.stat().st_uid == UID
    file.unlink()


def test_a_pod_that_takes_too_much_memory_is_killed_for_it(
    cluster: UsedCluster, namespace: str
) -> None:
    limit = {"limits": {"memory": "64Mi"}}
    ended = cluster.run_pod(namespace, "eater", make_pod(cluster, "eat", resources=limit))
    assert ended["reason"] == "OOMKilled"
    assert ended["exitCode"] == 137


def test_spark_operator_says_why_it_cannot_submit(cluster: UsedCluster, namespace: str) -> None:
    role = {"cores": 1, "memory": "512m"}
    application = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "bad"},
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.1.4",
            "image": cluster.facts["podImage"],
            "mainApplicationFile": "local:///main.py",
            "restartPolicy": {"type": "Never"},
            # Refused by the API server when the driver is created.
            "driver": {**role, "serviceAccount": "missing"},
            "executor": {**role, "instances": 1},
        },
    }
    cluster.apply(namespace, application)
    state: dict[str, str] = {}

    def has_failed() -> bool:
        shown = cluster.kubectl.read_object("get", "sparkapplication", "bad", "-n", namespace)
        state.update(shown.get("status", {}).get("applicationState", {}))
        return state.get("state") == "FAILED"

    wait.wait_until(has_failed, "it is FAILED", seconds=APPLICATION_SECONDS, pause=0.5)
    assert "missing" in state["errorMessage"], state


def test_a_table_made_here_can_be_read_through_catalog_and_store(
    cluster: UsedCluster, namespace: str
) -> None:
    catalog = load_catalog("tests", type="rest", **cluster.facts["catalog"])
    catalog.create_namespace(namespace)
    name = f"{namespace}.numbers"
    table = catalog.create_table(name, Schema(NestedField(1, "n", LongType(), required=False)))
    assert table.location().startswith(cluster.facts["catalog"]["warehouse"])
    assert catalog.load_table(name).metadata.table_uuid == table.metadata.table_uuid
    catalog.drop_table(name)
    catalog.drop_namespace(namespace)


@pytest.mark.parametrize("service", ["catalog", "search"])
def test_a_pod_reaches_what_a_pipeline_connects(
    cluster: UsedCluster, namespace: str, service: str
) -> None:
    urls = {
        "catalog": f"{cluster.facts['catalog']['uri']}/v1/config",
        "search": cluster.facts["search"],
    }
    # Not with its token, which these servers would not understand.
    spec = {**make_pod(cluster, "get", urls[service]), "automountServiceAccountToken": False}
    cluster.run_pod(namespace, service, spec)
    code, _, text = cluster.read_logs(namespace, service).partition(" ")
    assert code == "200"
    assert json.loads(text)
