"""An operator of two namespaces, one of which it may not read: the other one does as usual.

By default the chart gives it a Role in each namespace, which goes when the namespace is deleted.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icdc_testing.kube import operator_process, rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Pipelines, make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

RUN = "shop-e1-1"

StartBoth = Callable[[], OperatorProcess]


@pytest.fixture
def other(kube: KubeApi, spark_applications: None) -> Iterator[SteppedCluster]:
    """Another namespace with a pipeline, in which the operator has no Role yet."""
    with kube.create_namespace() as namespace:
        made = SteppedCluster(kube.kubeconfig, Pipelines(kube.kubectl, namespace))
        made.pipelines.apply(make_minimal())
        yield made


@pytest.fixture
def start_both(
    account: Path, cluster: SteppedCluster, other: SteppedCluster, tmp_path: Path
) -> Iterator[StartBoth]:
    """Start an operator that may have one active run; the other namespace is its first one."""
    flags = ["--namespace", other.pipelines.namespace, "--namespace", cluster.pipelines.namespace]
    running = operator_process.run_operator(
        account, tmp_path, "operator", [*flags, "--max-active-runs", "1"]
    )
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(running)


def give_role(other: SteppedCluster, home: str) -> None:
    """Give the operator of the namespace `home` its Role in the other one."""
    rights.grant(other.pipelines, "operator", rights.read_rules(rights.OPERATOR))
    whom = f"--serviceaccount={home}:operator"
    other.pipelines.run("create", "rolebinding", "operator", "--role=operator", whom)


def take_role(other: SteppedCluster, home: str) -> None:
    """Take the Role away again, and wait until the API server knows."""
    other.pipelines.run_ok("delete", "role", "operator")
    asks = ("auth", "can-i", "get", "icdc", f"--as=system:serviceaccount:{home}:operator")
    wait.wait_until(lambda: other.pipelines.run(*asks).code != 0, "the right is taken away")


def has_run(cluster: SteppedCluster) -> bool:
    return cluster.list_names("sparkapplication") == [RUN]


def waits(cluster: SteppedCluster) -> bool:
    return "--max-active-runs (1)" in cluster.pipelines.run_ok("get", "icdc", "-o", "wide")


def test_a_namespace_without_a_role_holds_up_no_other_and_is_found_once_it_has_one(
    cluster: SteppedCluster, other: SteppedCluster, start_both: StartBoth
) -> None:
    operator, denied = start_both(), other.pipelines.namespace
    cluster.pipelines.apply(make_minimal())
    operator.wait_until(lambda: has_run(cluster), "the run is created")
    assert operator.ask("health", "/readyz")[0] == 200
    assert not other.list_names("sparkapplication")
    give_role(other, cluster.pipelines.namespace)
    operator.wait_until(lambda: waits(other), "the other pipeline is found, and counted")
    reported = [
        text for text in operator.messages if denied in text and "cannot be watched" in text
    ]
    assert len(reported) == 1, reported
    assert "the platform engineer must give the operator its role" in reported[0]


def test_a_pipeline_that_is_deleted_with_its_role_leaves_its_slot_to_others(
    cluster: SteppedCluster, other: SteppedCluster, start_both: StartBoth
) -> None:
    home = cluster.pipelines.namespace
    give_role(other, home)
    operator = start_both()
    operator.wait_until(lambda: has_run(other), "the run is created")
    take_role(other, home)
    cluster.pipelines.apply(make_minimal())
    operator.wait_until(lambda: waits(cluster), "it waits: the run of the other may still write")
    other.pipelines.run_ok("delete", "icdc", "shop", "--wait=false")
    operator.wait_until(lambda: has_run(cluster), "the slot is free")
    give_role(other, home)
    other.pipelines.apply(make_minimal("next"))
    operator.wait_until(lambda: waits(other), "the other namespace is reconciled again")
    assert operator.end() == 0, "each watch is one of kopf, which takes the signals for itself"
