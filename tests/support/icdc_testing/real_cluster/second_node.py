"""A second node for a cluster that is up, for tests that lose one: attached on demand.

It has its own containerd, kubelet, addresses and cgroup, and shares the host's disks, network
namespace and kube-proxy with the first. Nobody's pods land on it who does not ask for it: it has
a taint.
"""

from icdc_api.errors import BadSpec
from icdc_testing.kube import binaries
from icdc_testing.kube.kubectl import Kubectl
from icdc_testing.real_cluster.host import layout, network, teardown
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.real_cluster.host.programs import Starter
from icdc_testing.real_cluster.node import containers, control_plane, images, kubelet

NODE = layout.SECOND
TAINT = {"key": "icdc-tests/second", "value": "", "effect": "NoSchedule"}


def attach(starter: Starter, wanted: list[str]) -> None:
    """Return once it is Ready and has these images, which the first node has.

    What an earlier one left is removed before. BadSpec where no cluster is up.
    """
    where = starter.paths
    if not where.facts.exists():
        raise BadSpec("No cluster is up that a node could be attached to.")
    detach(where)
    at = where.locate(NODE)
    at.make()
    network.add_address(NODE)
    containers.start(starter, at)
    for name in [containers.PAUSE_IMAGE, *wanted]:
        images.copy(where.locate(layout.FIRST), at, name)
    kubeconfig, serving = control_plane.issue_node_credentials(where, NODE)
    process = kubelet.start_kubelet(starter, at, kubeconfig, serving, taints=[TAINT])
    kubelet.wait_until_ready(process, _make_kubectl(where), NODE)


def detach(where: ClusterPaths) -> None:
    """Return when nothing is left of it but its store of images, also after a crash."""
    teardown.remove(where.locate(NODE))
    kubectl = _make_kubectl(where)
    kubectl.run_ok("delete", "node", NODE.name, "--ignore-not-found")
    # Nobody there will say that they are gone.
    chosen = ("--all-namespaces", f"--field-selector=spec.nodeName={NODE.name}")
    kubectl.run_ok("delete", "pods", *chosen, "--force", "--grace-period=0")


def _make_kubectl(where: ClusterPaths) -> Kubectl:
    return Kubectl(binaries.ensure_program("kubectl"), where.kubeconfig, where.run / "cache")
