"""An operator's adapter in a namespace of its own, on a server that knows SparkApplications."""

import pytest

from icdc_testing.kube import rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.operator.adapter.stepping import SteppedCluster
from icdc_testing.waiting import wait

ACCOUNT = "icdc-operator"


@pytest.fixture
def admin(kube: KubeApi, pipelines: Pipelines, spark_applications: None) -> SteppedCluster:
    """The cluster as an administrator sees it."""
    account = ("get", "serviceaccount", "default")
    wait.wait_until(lambda: pipelines.run(*account).code == 0, "pods can be made")
    return SteppedCluster(kube.kubeconfig, pipelines)


@pytest.fixture
def cluster(kube: KubeApi, admin: SteppedCluster) -> SteppedCluster:
    """The cluster as the operator sees it, who may do what its Role grants and no more."""
    pipelines = admin.pipelines
    rights.create_account(pipelines, ACCOUNT, rights.OPERATOR)
    return SteppedCluster(kube.write_kubeconfig_for(pipelines.namespace, ACCOUNT), pipelines)
