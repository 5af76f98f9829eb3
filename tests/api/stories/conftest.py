"""A namespace in which operators may do what their Role says, with SparkApplications."""

from collections.abc import Callable
from pathlib import Path

import pytest

import support_rules
import support_wait
from support_kill_playing import Place
from support_kill_stories import Story
from support_kube import KubeApi
from support_kube_pipelines import Pipelines

ACCOUNT = "icdc-operator"


@pytest.fixture
def account(kube: KubeApi, pipelines: Pipelines, spark_applications: None) -> Path:
    """The kubeconfig of an operator of the namespace."""
    default = ("get", "serviceaccount", "default")
    support_wait.until(lambda: pipelines.run(*default).code == 0, "pods can be made")
    support_rules.account(pipelines, ACCOUNT, support_rules.OPERATOR)
    return kube.kubeconfig_for(pipelines.namespace, ACCOUNT)


@pytest.fixture
def place(kube: KubeApi, account: Path, pipelines: Pipelines) -> Callable[[Story], Place]:
    """The namespace as the place of a story."""
    return lambda story: Place(story, pipelines.namespace, kube.kubeconfig, account)
