"""Operators as processes that may do in the test's namespace what their Role says."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from icdc_api import naming
from icdc_cli.cluster import asking
from icdc_testing.kube import operator_process, rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.operator.adapter.stepping import SteppedCluster
from icdc_testing.waiting import wait
from icdc_testing.waiting.patience import ImpatientClock

Start = Callable[..., OperatorProcess]


@pytest.fixture
def account(kube: KubeApi, pipelines: Pipelines) -> Path:
    """The kubeconfig of a ServiceAccount with the rights of the operator."""
    rights.create_account(pipelines, "operator", rights.OPERATOR, rights.LEASE)
    return kube.write_kubeconfig_for(pipelines.namespace, "operator")


@pytest.fixture
def start(
    account: Path, pipelines: Pipelines, spark_applications: None, tmp_path: Path
) -> Iterator[Start]:
    """Start an operator for the namespace; further flags are arguments."""
    with ExitStack() as stack:

        def start_process(name: str = "operator", *flags: str) -> OperatorProcess:
            arguments = ["--namespace", pipelines.namespace, *flags]
            running = operator_process.run_operator(account, tmp_path, name, arguments)
            return stack.enter_context(running)

        yield start_process


@pytest.fixture
def cluster(kube: KubeApi, pipelines: Pipelines) -> SteppedCluster:
    """The namespace, with spark-operator played by hand."""
    account = ("get", "serviceaccount", "default")
    wait.wait_until(lambda: pipelines.run(*account).code == 0, "pods can be made")
    return SteppedCluster(kube.kubeconfig, pipelines)


@pytest.fixture
def person(kube: KubeApi, cluster: SteppedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who may read and patch pipelines and list pods, and no Secret."""
    pipelines = cluster.pipelines
    pipelines.run_ok("create", "serviceaccount", "jane")
    for role, verbs, resource in (
        ("people-pipelines", "get,patch", naming.CRD_NAME),
        ("people-pods", "list", "pods"),
    ):
        pipelines.run_ok("create", "role", role, f"--verb={verbs}", f"--resource={resource}")
        account = f"--serviceaccount={pipelines.namespace}:jane"
        pipelines.run_ok("create", "rolebinding", role, f"--role={role}", account)
    monkeypatch.setenv("KUBECONFIG", str(kube.write_kubeconfig_for(pipelines.namespace, "jane")))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ImpatientClock:
    """The clock of those who ask questions in this process."""
    made = ImpatientClock()
    monkeypatch.setattr(asking, "time", made)
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[HeadLake]:
    """A lake with the table `shop.orders`, which has no snapshot yet."""
    made = HeadLake(tmp_path)
    made.create()
    yield made
    made.close()
