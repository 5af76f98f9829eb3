"""The command lines of a control plane that listens on loopback only and is soon thrown away.

Knows what the flags mean; starts nothing.
"""

from pathlib import Path

from icdc_testing.kube import audit_log
from icdc_testing.kube.server_process import LOOPBACK, HeldPort
from icdc_testing.network.tls import Certificates

_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)


def build_etcd_flags(data: Path, client: HeldPort, peer: HeldPort) -> list[str]:
    """Return flags of a store of one member that does not wait for the disk."""
    return [
        f"--data-dir={data}",
        "--unsafe-no-fsync",
        "--socket-reuse-port=true",
        f"--listen-client-urls=http://{client.address}",
        f"--advertise-client-urls=http://{client.address}",
        f"--listen-peer-urls=http://{peer.address}",
        f"--initial-advertise-peer-urls=http://{peer.address}",
        f"--initial-cluster=default=http://{peer.address}",
        "--log-level=warn",
    ]


def build_apiserver_flags(
    certificates: Certificates, tokens: Path, *, store: HeldPort, secure: HeldPort, audit: Path
) -> list[str]:
    """Return flags by which roles decide (RBAC) and ServiceAccounts get bound tokens; `tokens`
    names the administrator.

    What ServiceAccounts ask for goes to the log `audit`.
    """
    return [
        f"--etcd-servers=http://{store.address}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        # It would register itself as an endpoint, which an address of loopback may not be.
        "--endpoint-reconciler-type=none",
        f"--secure-port={secure.number}",
        "--permit-port-sharing=true",
        f"--tls-cert-file={certificates.certificate}",
        f"--tls-private-key-file={certificates.key}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        # The key of the server signs tokens as well: both live for one run of the tests.
        f"--service-account-key-file={certificates.certificate}",
        f"--service-account-signing-key-file={certificates.key}",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--profiling=false",
        *audit_log.build_flags(audit),
    ]


def build_controller_flags(certificates: Certificates, kubeconfig: Path) -> list[str]:
    """Return flags for only the controllers that matter without nodes; it serves nothing itself."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(_CONTROLLERS)}",
        f"--service-account-private-key-file={certificates.key}",
        f"--root-ca-file={certificates.ca}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
    ]
