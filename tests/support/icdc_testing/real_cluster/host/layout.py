"""Where a cluster of the tests lives on this host: one folder, one bridge, a cgroup for each node.

Everything that the other modules make has its address, path or name from here, so that the
teardown knows what to look for. Starts nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from icdc_cli.embedded import jars
from icdc_testing.kube.server_process import FixedPort

BRIDGE = "icdc0"
ADDRESS = "10.244.0.1"
"""Of the bridge, which is the first node's address. All servers listen on it, so that pods reach
them and nobody outside this host does; nobody else has their ports there."""

PODS = "10.244.0.0/16"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
"""The first address of SERVICES: pods know the API server by it."""

DOMAIN = "tests.internal"
"""Of the names of services. Not the usual one, on which nothing may rely."""

API = FixedPort(ADDRESS, 6443)


@dataclass(frozen=True)
class ClusterNode:
    """What distinguishes the nodes of a cluster: one that every cluster has, and one on demand."""

    name: str
    address: str
    """On the bridge, which all pods hang on."""

    pods: tuple[str, str]
    """Their first and last address."""

    cgroup: str
    """Pods are below it; also the name of their network."""

    prefix: str
    """Before the names of its programs, and of its folder, which is in that of the cluster."""


FIRST = ClusterNode("node1", ADDRESS, ("10.244.0.2", "10.244.127.254"), "icdc-tests", "")
SECOND = ClusterNode(
    "node2", "10.244.128.1", ("10.244.128.2", "10.244.255.254"), "icdc-tests2", "node2"
)
NODES = (FIRST, SECOND)


@dataclass(frozen=True)
class ClusterPaths:
    """The files of one cluster. A host carries one at a time: they share bridge and cgroup."""

    home: Path

    @classmethod
    def find_usual(cls) -> "ClusterPaths":
        """Return those in the project's cache."""
        return cls(jars.choose_cache_dir() / "cluster")

    @property
    def lock(self) -> Path:
        """Held by the process that brings a cluster up or down."""
        return self.home / ".lock"

    @property
    def run(self) -> Path:
        """All else, deleted when the cluster is down."""
        return self.home / "run"

    @property
    def pids(self) -> Path:
        """A file for each program, named as the program."""
        return self.run / "pids"

    @property
    def logs(self) -> Path:
        """The folder of what the programs print."""
        return self.run / "logs"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.run / "admin.kubeconfig"

    @property
    def facts(self) -> Path:
        """The JSON file about the cluster that tests read; written when the cluster is up."""
        return self.run / "cluster.json"

    @property
    def scratch(self) -> Path:
        """A folder that any pod may write to: the node-local disk of the tests."""
        return self.run / "scratch"

    def make(self) -> None:
        """Make the folders of a new cluster."""
        for folder in (self.run, self.pids, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.scratch.mkdir(exist_ok=True)
        self.scratch.chmod(0o1777)

    def locate(self, node: ClusterNode) -> "NodePaths":
        """Return the files of one of its nodes."""
        return NodePaths(self, node)


@dataclass(frozen=True)
class NodePaths:
    """The files of one node of a cluster."""

    cluster: ClusterPaths
    node: ClusterNode

    @property
    def images(self) -> Path:
        """The store of containerd, which outlives clusters: images need not be loaded again."""
        return self.cluster.home / f"images{self._suffix}"

    @property
    def folder(self) -> Path:
        """All else, deleted when the node is down."""
        return self.cluster.run / self.node.prefix

    @property
    def socket(self) -> Path:
        """The socket of containerd."""
        return self.folder / "containerd.sock"

    @property
    def containers(self) -> Path:
        """The folder in which containerd keeps the state of running containers."""
        return self.folder / "containerd"

    @property
    def kubelet(self) -> Path:
        """Volumes of pods."""
        return self.folder / "kubelet"

    @property
    def programs(self) -> tuple[str, str]:
        """The names of its kubelet and its containerd, in this order."""
        prefix = f"{self.node.prefix}-" if self.node.prefix else ""
        return f"{prefix}kubelet", f"{prefix}containerd"

    @property
    def _suffix(self) -> str:
        return f"-{self.node.prefix}" if self.node.prefix else ""

    def make(self) -> None:
        """Make the folders of a new node."""
        for folder in (self.folder, self.containers, self.kubelet, self.images):
            folder.mkdir(parents=True, exist_ok=True)
