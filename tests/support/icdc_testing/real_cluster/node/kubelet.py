"""A node of a cluster: its kubelet; and for all of them kube-proxy and CoreDNS.

All run as processes of the host, so that nothing of the cluster depends on an image. Nodes share
the network namespace of the host, so one kube-proxy makes the rules for all.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from icdc_testing.kube import binaries
from icdc_testing.kube.kubectl import Kubectl
from icdc_testing.kube.server_process import Program
from icdc_testing.network.tls import Certificates
from icdc_testing.real_cluster.host import cgroups, layout
from icdc_testing.real_cluster.host.layout import ClusterNode, NodePaths
from icdc_testing.real_cluster.host.programs import Starter
from icdc_testing.real_cluster.node.control_plane import Credentials

_READY_SECONDS = 120.0

_DNS_RULES = [
    {
        "apiGroups": [""],
        "resources": ["endpoints", "namespaces", "pods", "services"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["list", "watch"],
    },
]


def start(starter: Starter, credentials: Credentials, kubectl: Kubectl) -> None:
    """Start the first node; return once it is Ready and names are resolved."""
    where = starter.paths
    paths = binaries.ensure_programs(("kube-proxy", "coredns"))
    own = credentials.locate_kubeconfig("kubelet"), credentials.kubelet
    kubelet = start_kubelet(starter, where.locate(layout.FIRST), *own)
    proxy = _write(
        where.run / "proxy.json", _build_proxy_config(credentials.locate_kubeconfig("proxy"))
    )
    starter.start(paths["kube-proxy"], [f"--config={proxy}"])
    _allow_dns(kubectl)
    corefile = where.run / "Corefile"
    corefile.write_text(_build_corefile(credentials.locate_kubeconfig("dns")), encoding="utf-8")
    starter.start(paths["coredns"], ["-conf", str(corefile)])
    wait_until_ready(kubelet, kubectl, layout.FIRST)


def start_kubelet(
    starter: Starter,
    at: NodePaths,
    kubeconfig: Path,
    serving: Certificates,
    taints: Sequence[Mapping[str, str]] = (),
) -> Program:
    """Start the kubelet of a node, beside its containerd; the node registers with the taints."""
    cgroups.make(at.node)
    (at.folder / "resolv.conf").touch()
    config = {**_build_kubelet_config(at, serving), "registerWithTaints": list(taints)}
    return starter.start(
        binaries.ensure_program("kubelet"),
        [
            f"--config={_write(at.folder / 'kubelet.json', config)}",
            f"--kubeconfig={kubeconfig}",
            f"--root-dir={at.kubelet}",
            f"--hostname-override={at.node.name}",
            f"--node-ip={at.node.address}",
        ],
        name=at.programs[0],
    )


def wait_until_ready(kubelet: Program, kubectl: Kubectl, node: ClusterNode) -> None:
    """Wait; Submission or StartTimeout where it does not become it."""
    kubelet.wait_until(lambda: is_ready(kubectl, node), "the node is Ready", seconds=_READY_SECONDS)


def is_ready(kubectl: Kubectl, node: ClusterNode) -> bool:
    """Return whether the API server reports the node as ready."""
    ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    return kubectl.run("get", "node", node.name, "-o", ready).out == "True"


def _write(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return path


def _build_kubelet_config(at: NodePaths, serving: Certificates) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": at.node.address,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(serving.ca)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{at.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{at.node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "clusterDomain": layout.DOMAIN,
        "clusterDNS": [layout.ADDRESS],
        "resolvConf": str(at.folder / "resolv.conf"),
        "podLogsDir": str(at.folder / "pods"),
        "volumePluginDir": str(at.folder / "plugins"),
        # Without CAP_SYS_RESOURCE, as in a container, the score cannot be lowered.
        "oomScoreAdj": 0,
        # Its chains would be left behind.
        "makeIPTablesUtilChains": False,
        # The disk is the host's: what others have on it must not drive pods out.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    }


def _build_proxy_config(kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "mode": "iptables",
        "hostnameOverride": layout.FIRST.name,
        "clusterCIDR": layout.PODS,
        "bindAddress": layout.ADDRESS,
        "healthzBindAddress": f"{layout.ADDRESS}:10256",
        "metricsBindAddress": f"{layout.ADDRESS}:10249",
        "oomScoreAdj": 0,
        # Zero leaves the settings of the host as they are.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "100ms"},
    }


def _build_corefile(kubeconfig: Path) -> str:
    return f"""\
. {{
  bind {layout.ADDRESS}
  errors
  ready {layout.ADDRESS}:8181
  kubernetes {layout.DOMAIN} in-addr.arpa {{
    kubeconfig {kubeconfig} tests
    ttl 5
  }}
  cache 5
}}
"""


def _allow_dns(kubectl: Kubectl) -> None:
    name, group = "system:coredns", "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": _DNS_RULES,
    }
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    }
    for manifest in (role, binding):
        kubectl.run_ok("apply", "-f", "-", stdin=json.dumps(manifest))
