"""A namespace is deleted with its pipelines, and made again with them, as from a repository."""

import json
import uuid
from pathlib import Path

import pytest

from icdc_operator.manifests.pods import pod_paths
from icdc_testing.kube import operator_process
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Pipelines, make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api


def live_once(kube: KubeApi, namespace: str, operator: OperatorProcess) -> int:
    """Make the namespace and a pipeline, delete it once it has a run; return the run's epoch."""
    kube.kubectl.run_ok("create", "namespace", namespace)
    cluster = SteppedCluster(kube.kubeconfig, Pipelines(kube.kubectl, namespace))
    account = ("get", "serviceaccount", "default")
    wait.wait_until(lambda: cluster.pipelines.run(*account).code == 0, "pods can be made")
    cluster.pipelines.apply(make_minimal())
    operator.wait_until(
        lambda: cluster.list_names("sparkapplication") == ["shop-e1-1"], "the run is created"
    )
    (request,) = cluster.list_objects("configmap")
    kube.kubectl.run_ok("delete", "namespace", namespace, "--wait=true", "--timeout=180s")
    return int(json.loads(request["data"][pod_paths.REQUEST_KEY])["epoch"])


def test_a_namespace_that_was_deleted_and_restored_is_looked_after_again(
    kube: KubeApi, spark_applications: None, tmp_path: Path
) -> None:
    namespace = f"restored-{uuid.uuid4().hex[:8]}"
    flags = ["--namespace", namespace]
    with operator_process.run_operator(kube.kubeconfig, tmp_path, "operator", flags) as operator:
        first = live_once(kube, namespace, operator)
        # The state document may still name the first one as owner.
        assert live_once(kube, namespace, operator) > first
        assert operator.ended is None
