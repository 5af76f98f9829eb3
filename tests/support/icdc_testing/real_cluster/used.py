"""What tests see of the cluster that they run on: kubectl, namespaces, and its services.

The cluster is the one that ICDC_TEST_CLUSTER names by its kubeconfig. One of ours has a file with
its facts beside that; of another only the kubeconfig is known.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icdc_testing.kube import binaries
from icdc_testing.kube.kubectl import Kubectl, create_namespace
from icdc_testing.real_cluster.host import layout
from icdc_testing.real_cluster.host.layout import ClusterPaths, NodePaths
from icdc_testing.real_cluster.host.programs import Starter
from icdc_testing.waiting import wait

CLUSTER = "ICDC_TEST_CLUSTER"
_FACTS = "cluster.json"

_END_SECONDS = 420.0
"""A test side by side may be draining the node meanwhile: no pod starts there then."""


class Facts(dict[str, Any]):
    """What is known of a cluster: lifecycle.up says it of ours."""

    def __missing__(self, name: str) -> Any:
        raise AssertionError(
            f"The file {_FACTS} beside the cluster's kubeconfig does not say its {name}: "
            "`make cluster-up` and its status show what such a file holds."
        )


@dataclass(frozen=True)
class UsedCluster:
    """A cluster with a node, as an administrator."""

    kubectl: Kubectl
    facts: Facts

    @property
    def starter(self) -> Starter:
        """For tests that kill a part of a cluster of ours and start it again.

        What it starts outlives the tests, as the rest of the cluster does. AssertionError for a
        cluster that is not ours.
        """
        return Starter(self._find_paths(), stays=True)

    @property
    def first_node(self) -> NodePaths:
        """For images that a test makes. AssertionError for a cluster that is not ours."""
        return self._find_paths().locate(layout.FIRST)

    @contextmanager
    def create_namespace(self) -> Iterator[str]:
        """Create a namespace; its end deletes it and does not wait until it is gone."""
        with create_namespace(self.kubectl) as name:
            account = ("get", "serviceaccount", "default", "-n", name)
            wait.wait_until(lambda: self.kubectl.run(*account).code == 0, "its account is there")
            yield name

    def apply(self, namespace: str, resource: dict[str, Any]) -> None:
        """Create or change an object."""
        self.kubectl.run_ok("apply", "-n", namespace, "-f", "-", stdin=json.dumps(resource))

    def run_pod(self, namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Run a pod of one container to its end; return how the container ended."""
        pod = {"restartPolicy": "Never", **spec}
        metadata = {"name": name}
        self.apply(
            namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
        )
        ended: dict[str, Any] = {}

        def has_ended() -> bool:
            status = self.kubectl.read_object("get", "pod", name, "-n", namespace)["status"]
            for container in status.get("containerStatuses", []):
                ended.update(container["state"].get("terminated", {}))
            return bool(ended)

        wait.wait_until(has_ended, f"the pod {name} ends", seconds=_END_SECONDS, pause=0.2)
        return ended

    def _find_paths(self) -> ClusterPaths:
        paths = ClusterPaths(self.kubectl.kubeconfig.parent.parent)
        assert paths.facts.exists(), f"{self.kubectl.kubeconfig} is not of a cluster of ours."
        return paths

    def read_logs(self, namespace: str, pod: str) -> str:
        """Return the output of the pod."""
        return self.kubectl.run_ok("logs", pod, "-n", namespace)


@contextmanager
def open_cluster() -> Iterator[UsedCluster]:
    """Yield the cluster of the tests; AssertionError where none is named."""
    named = os.environ.get(CLUSTER)
    assert named, (
        f"{CLUSTER} is not set: these tests need a cluster with a node. `make test-cluster` brings "
        "one up for them; `make cluster-up` brings one up that stays, and prints what to export."
    )
    kubeconfig = Path(named)
    beside = kubeconfig.with_name(_FACTS)
    facts = Facts(json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else {})
    program = binaries.ensure_program("kubectl")
    with tempfile.TemporaryDirectory(prefix="icdc-kubectl-") as cache:
        yield UsedCluster(Kubectl(program, kubeconfig, Path(cache)), facts)
