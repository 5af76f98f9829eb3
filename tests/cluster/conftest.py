"""What the tests on a cluster with a node share: the cluster, and a namespace for each test."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyiceberg.utils.concurrent import ExecutorFactory

from icdc_cli.embedded import jars
from icdc_testing.kube import binaries
from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.real_cluster import used
from icdc_testing.real_cluster.services import product
from icdc_testing.real_cluster.shop import RUN_SECONDS, Resource, Shop
from icdc_testing.real_cluster.used import UsedCluster

SYSTEM = "icdc-system"
RELEASE = "icdc"
WATCHED = ("shops", "faults", "nodes", "north", "south")
"""The namespaces whose pipelines the installed operator looks after."""
LOCKED = "south"
"""The one of them that allows restricted pods alone, with a quota, as that of the operator does."""
QUOTA = {
    # Each of these has to be stated by a pod from then on, so Kubernetes refuses one without it.
    "hard": dict.fromkeys(("pods", "requests.cpu", "limits.cpu"), "8")
    | dict.fromkeys(("requests.memory", "limits.memory"), "8Gi")
}
DEFAULT_LIMITS = {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}
"""Spark states no limit of CPU by itself; a platform with such a quota gives one to each pod."""


def make_core(kind: str, **fields: Any) -> Resource:
    """Return an object of Kubernetes' own kinds."""
    return {"apiVersion": "v1", "kind": kind, **fields}


@pytest.fixture(scope="session")
def cluster() -> Iterator[UsedCluster]:
    """The one cluster of all these tests."""
    # pyiceberg keeps its threads for ever: one is enough, and is there before the first test.
    os.environ["PYICEBERG_MAX_WORKERS"] = "1"
    ExecutorFactory.get_or_create().submit(int).result()
    with used.open_cluster() as running_cluster:
        yield running_cluster


@pytest.fixture
def namespace(cluster: UsedCluster) -> Iterator[str]:
    """A new namespace, deleted after the test."""
    with cluster.create_namespace() as name:
        yield name


@pytest.fixture(scope="session")
def helm(cluster: UsedCluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm as an administrator; it waits for what it installs."""
    program, home = binaries.ensure_program("helm"), tmp_path_factory.mktemp("helm")
    return Helm(program, home, cluster.kubectl.kubeconfig, seconds=RUN_SECONDS + 60)


@pytest.fixture(scope="session")
def installed(cluster: UsedCluster, helm: Helm) -> list[str]:
    """The operator, installed by its chart as the README says; the namespaces that it watches."""
    values = product.build_operator_values(cluster.facts["images"], list(WATCHED))
    how = ("-n", SYSTEM, "--create-namespace", "--wait", "--timeout", "7m")
    # Processes of tests side by side install it one after the other, the second time for nothing.
    with jars.hold_lock(cluster.kubectl.kubeconfig.with_name("install.lock")):
        for name in (SYSTEM, *WATCHED):
            mode = "enforce" if name in (SYSTEM, LOCKED) else "warn"
            labels = {f"pod-security.kubernetes.io/{mode}": "restricted"}
            metadata = {"name": name, "labels": labels}
            cluster.apply("default", make_core("Namespace", metadata=metadata))
        named = {"name": "platform"}
        cluster.apply(LOCKED, make_core("ResourceQuota", metadata=named, spec=QUOTA))
        cluster.apply(LOCKED, make_core("LimitRange", metadata=named, spec=DEFAULT_LIMITS))
        helm.run_ok("upgrade", "--install", RELEASE, str(OPERATOR), *how, values=values)
    return list(WATCHED)


@pytest.fixture
def shop(cluster: UsedCluster, installed: list[str]) -> Iterator[Callable[..., Shop]]:
    """Make a pipeline's shop: its name, and its namespace where it is not the usual one.

    After the test its pipelines are suspended. The operator does not read this cluster's catalog,
    so a pipeline that was left would have a run every minute, beside all later tests.
    """
    shops: list[Shop] = []

    def make(name: str = "shop", namespace: str = "shops") -> Shop:
        shops.append(Shop(cluster, namespace, name))
        return shops[-1]

    yield make
    for made in shops:
        made.suspend()
