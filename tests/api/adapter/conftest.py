"""An operator's adapter in a namespace of its own, on a server that knows SparkApplications."""

import pytest

import support_rules
import support_wait
from support_cluster import Cluster
from support_kube import KubeApi
from support_kube_pipelines import Pipelines

ACCOUNT = "icdc-operator"


@pytest.fixture
def admin(kube: KubeApi, pipelines: Pipelines, spark_applications: None) -> Cluster:
    """The cluster as an administrator sees it."""
    account = ("get", "serviceaccount", "default")
    support_wait.until(lambda: pipelines.run(*account).code == 0, "pods can be made")
    return Cluster(kube.kubeconfig, pipelines)


@pytest.fixture
def cluster(kube: KubeApi, admin: Cluster) -> Cluster:
    """The cluster as the operator sees it, who may do what its Role grants and no more."""
    pipelines = admin.pipelines
    support_rules.account(pipelines, ACCOUNT, support_rules.OPERATOR)
    return Cluster(kube.kubeconfig_for(pipelines.namespace, ACCOUNT), pipelines)
