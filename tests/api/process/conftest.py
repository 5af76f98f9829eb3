"""Operators as processes that may do in the test's namespace what their Role says."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import support_operator
import support_rules
import support_wait
from support_cluster import Cluster
from support_kube import KubeApi
from support_kube_pipelines import Pipelines
from support_operator import OperatorProcess

Start = Callable[..., OperatorProcess]


@pytest.fixture
def account(kube: KubeApi, pipelines: Pipelines) -> Path:
    """The kubeconfig of a ServiceAccount with the rights of the operator."""
    support_rules.account(pipelines, "operator", support_rules.OPERATOR, support_rules.LEASE)
    return kube.kubeconfig_for(pipelines.namespace, "operator")


@pytest.fixture
def start(
    account: Path, pipelines: Pipelines, spark_applications: None, tmp_path: Path
) -> Iterator[Start]:
    """Starts an operator for the namespace; further flags are arguments."""
    with ExitStack() as stack:

        def started(name: str = "operator", *flags: str) -> OperatorProcess:
            arguments = ["--namespace", pipelines.namespace, *flags]
            running = support_operator.running(account, tmp_path, name, arguments)
            return stack.enter_context(running)

        yield started


@pytest.fixture
def cluster(kube: KubeApi, pipelines: Pipelines) -> Cluster:
    """The namespace, with spark-operator played by hand."""
    account = ("get", "serviceaccount", "default")
    support_wait.until(lambda: pipelines.run(*account).code == 0, "pods can be made")
    return Cluster(kube.kubeconfig, pipelines)
