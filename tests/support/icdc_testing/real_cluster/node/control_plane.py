"""The control plane of a cluster with a node: all controllers, a scheduler, the node authorizer.

Its command lines and credentials. Every part of the cluster has a token of its own; only the
API server comes to the kubelet with a certificate, since it has no other way.
"""

import base64
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from icdc_testing.kube import binaries, flags
from icdc_testing.kube.kubectl import Kubectl, write_kubeconfig, write_private
from icdc_testing.kube.server_process import HeldPort, Probe
from icdc_testing.network.tls import Authority, Certificates
from icdc_testing.real_cluster.host import layout
from icdc_testing.real_cluster.host.layout import ClusterNode, ClusterPaths
from icdc_testing.real_cluster.host.programs import Starter

_ETCD_SECONDS = 60.0
_READY_SECONDS = 180.0  # Usually 3 to 15; a loaded machine needs several times that.

_USERS = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": (f"system:node:{layout.FIRST.name}", "system:nodes"),
    "proxy": ("system:kube-proxy", ""),
    "dns": ("system:coredns", ""),
}
"""Who the parts of a cluster are to its API server: user and group."""


@dataclass(frozen=True)
class Credentials:
    """The files by which the parts of a cluster know each other."""

    server: Certificates
    to_kubelet: Certificates
    kubelet: Certificates
    tokens: Path
    folder: Path

    def locate_kubeconfig(self, who: str) -> Path:
        """Return the path of the kubeconfig of one part of the cluster."""
        return self.folder / f"{who}.kubeconfig"


def make_credentials(where: ClusterPaths) -> Credentials:
    """Make new ones, for this cluster alone."""
    authority = Authority.make(where.run / "certificates")
    service = f"kubernetes.default.svc.{layout.DOMAIN}"
    short = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", service)
    server = authority.issue(
        "server",
        names=[
            *(f"DNS:{name}" for name in short),
            f"IP:{layout.ADDRESS}",
            f"IP:{layout.API_SERVICE}",
        ],
    )
    to_kubelet = authority.issue("to-kubelet", subject="/O=system:masters/CN=kube-apiserver")
    kubelet = authority.issue("kubelet", names=[f"DNS:{layout.FIRST.name}", f"IP:{layout.ADDRESS}"])
    tokens = {who: secrets.token_hex(16) for who in _USERS}
    cluster = make_cluster_entry(authority.ca)
    for who, token in tokens.items():
        write_kubeconfig(where.run / f"{who}.kubeconfig", cluster, token, "default")
    lines = [f"{tokens[who]},{user},{who},{group}" for who, (user, group) in _USERS.items()]
    table = write_private(where.run / "tokens.csv", "\n".join(lines) + "\n")
    return Credentials(server, to_kubelet, kubelet, table, where.run)


def issue_node_credentials(where: ClusterPaths, node: ClusterNode) -> tuple[Path, Certificates]:
    """Return the kubeconfig of another node's kubelet, and what it serves with.

    The API server reads its tokens when it starts: whoever comes later acts for the
    administrator's, which gives it the rights of its node and no others.
    """
    config = json.loads((where.run / "admin.kubeconfig").read_text(encoding="utf-8"))
    config["users"][0]["user"] |= {"as": f"system:node:{node.name}", "as-groups": ["system:nodes"]}
    path = write_private(where.locate(node).folder / "kubelet.kubeconfig", json.dumps(config))
    return path, _issue_kubelet_certificate(Authority.load(where.run / "certificates"), node)


def _issue_kubelet_certificate(authority: Authority, node: ClusterNode) -> Certificates:
    return authority.issue(f"kubelet-{node.name}", names=[f"DNS:{node.name}", f"IP:{node.address}"])


def make_cluster_entry(ca: Path) -> dict[str, str]:
    """Return the entry of the API server for kubeconfigs."""
    return {
        "server": f"https://{layout.API.address}",
        "certificate-authority-data": base64.b64encode(ca.read_bytes()).decode(),
    }


def start(starter: Starter, credentials: Credentials) -> Kubectl:
    """Start it; return once the API server can be used and controllers work."""
    where = starter.paths
    wanted = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    paths = binaries.ensure_programs(wanted)
    # etcd is not protected: on loopback pods cannot reach it.
    client, peer = HeldPort(), HeldPort()
    try:
        storing = flags.build_etcd_flags(where.run / "etcd", client, peer)
        etcd = starter.start(paths["etcd"], storing)
        etcd.wait_until(Probe(client, "/health").answers, "/health answers", seconds=_ETCD_SECONDS)
    finally:
        client.release()
        peer.release()
    apiserver = starter.start(paths["kube-apiserver"], _build_apiserver_flags(credentials, client))
    kubectl = Kubectl(paths["kubectl"], credentials.locate_kubeconfig("admin"), where.run / "cache")
    apiserver.wait_until(
        lambda: kubectl.run("get", "--raw", "/readyz").code == 0,
        "/readyz is ok",
        seconds=_READY_SECONDS,
    )
    controllers = starter.start(
        paths["kube-controller-manager"], _build_controller_flags(credentials)
    )
    starter.start(paths["kube-scheduler"], _build_scheduler_flags(credentials))
    account = ("get", "serviceaccount", "default", "-n", "default")
    controllers.wait_until(
        lambda: kubectl.run(*account).code == 0,
        "the ServiceAccount of the namespace default is there",
        seconds=_READY_SECONDS,
    )
    return kubectl


def _build_apiserver_flags(credentials: Credentials, store: HeldPort) -> list[str]:
    server, to_kubelet = credentials.server, credentials.to_kubelet
    return [
        f"--etcd-servers=http://{store.address}",
        f"--bind-address={layout.ADDRESS}",
        f"--advertise-address={layout.ADDRESS}",
        f"--secure-port={layout.API.number}",
        f"--tls-cert-file={server.certificate}",
        f"--tls-private-key-file={server.key}",
        f"--token-auth-file={credentials.tokens}",
        f"--kubelet-client-certificate={to_kubelet.certificate}",
        f"--kubelet-client-key={to_kubelet.key}",
        f"--kubelet-certificate-authority={to_kubelet.ca}",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-account-issuer=https://kubernetes.default.svc.{layout.DOMAIN}",
        # The key of the server signs tokens as well: both live as long as the cluster.
        f"--service-account-key-file={server.certificate}",
        f"--service-account-signing-key-file={server.key}",
        f"--service-cluster-ip-range={layout.SERVICES}",
        "--profiling=false",
    ]


def _build_controller_flags(credentials: Credentials) -> list[str]:
    return [
        f"--kubeconfig={credentials.locate_kubeconfig('controllers')}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={credentials.server.key}",
        f"--root-ca-file={credentials.server.ca}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
    ]


def _build_scheduler_flags(credentials: Credentials) -> list[str]:
    return [
        f"--kubeconfig={credentials.locate_kubeconfig('scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
    ]
