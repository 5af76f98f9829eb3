"""A real API server for tests: etcd, kube-apiserver and kube-controller-manager on loopback.

There is no node: objects are stored, checked, defaulted, watched and collected, and no pod runs.
Knows Kubernetes and nothing of pipelines. ICDC_TEST_KUBECONFIG names the kubeconfig of another
cluster to be used instead, of which nothing is removed but the namespaces made here.
"""

import base64
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from icdc_testing.kube import audit_log, binaries, flags
from icdc_testing.kube.kubectl import Kubectl, create_namespace, write_kubeconfig, write_private
from icdc_testing.kube.rights import Right
from icdc_testing.kube.server_process import HeldPort, Probe, Program
from icdc_testing.network.tls import make_certificates
from icdc_testing.waiting import wait

GIVEN = "ICDC_TEST_KUBECONFIG"
"""Environment variable with the kubeconfig of a cluster that is there already."""

SHOWN_OBJECT = "map[string]interface {}" if binaries.IS_OLDER else ""
"""What the server's messages have before an object that is there twice: the older name its type."""

_ETCD_SECONDS = 60.0
_READY_SECONDS = 180.0  # Usually 3 to 15; a loaded machine needs several times that.


class KubeApi:
    """A control plane of its own, or the cluster that ICDC_TEST_KUBECONFIG names.

    A context manager. `kubeconfig` and `kubectl` are those of an administrator. The definitions
    in `crds` are applied before the controllers start: the garbage collector would else need up
    to half a minute to notice a new kind. With `own` a cluster that is named is not used: for tests
    of what is not in a namespace.
    """

    def __init__(self, crds: Sequence[Path] = (), *, own: bool = False) -> None:
        self._crds = crds
        self._own = own
        self._exit = ExitStack()
        self._audit: Path | None = None

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            # Certificates, tokens, the store and the logs; gone at the end.
            self._folder = Path(
                undo.enter_context(tempfile.TemporaryDirectory(prefix="icdc-kube-"))
            )
            given = os.environ.get(GIVEN)
            if given and not self._own:
                self.kubeconfig = Path(given).expanduser().absolute()
                self._become_ready()
            else:
                self.kubeconfig = self._folder / "admin.kubeconfig"
                self._start(undo)
            self._exit = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exit.close()

    @contextmanager
    def create_namespace(self) -> Iterator[str]:
        """Create a namespace; its end deletes it and does not wait until it is gone."""
        with create_namespace(self.kubectl) as name:
            yield name

    def make_kubectl_as(self, namespace: str, service_account: str) -> Kubectl:
        """Return kubectl as a ServiceAccount: what it may do is what its roles grant."""
        return replace(
            self.kubectl, kubeconfig=self.write_kubeconfig_for(namespace, service_account)
        )

    def write_kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Return a kubeconfig with a token of the ServiceAccount, good for an hour
        (TokenRequest)."""
        token = self.kubectl.run_ok("create", "token", service_account, "-n", namespace).strip()
        view = ("config", "view", "--raw", "--minify", "--flatten")
        cluster = self.kubectl.read_object(*view)["clusters"][0]["cluster"]
        path = self._folder / f"{namespace}.{service_account}.kubeconfig"
        return write_kubeconfig(path, cluster, token, namespace)

    @property
    def is_audited(self) -> bool:
        """Return whether `asked_by` works: not for a given cluster, which has no audit log here."""
        return self._audit is not None

    def list_requests(self, namespace: str, service_account: str) -> dict[Right, set[int]]:
        """Return the requests of the ServiceAccount, with the statuses of the answers."""
        assert self._audit is not None, "the log of a given cluster is its administrator's"
        return audit_log.read_requests(self._audit, namespace, service_account)

    def _start(self, undo: ExitStack) -> None:
        # A first build takes minutes, which must not eat the time of the programs.
        paths = binaries.ensure_programs()
        certificates = make_certificates(self._folder / "certificates")
        client, peer, secure = (self._keep_port(undo) for _ in range(3))
        token = secrets.token_hex(16)
        cluster = {
            "server": f"https://{secure.address}",
            "certificate-authority-data": base64.b64encode(certificates.ca.read_bytes()).decode(),
        }
        write_kubeconfig(self.kubeconfig, cluster, token, "default")
        tokens = write_private(self._folder / "tokens.csv", f"{token},admin,admin,system:masters\n")

        etcd = self._run(
            undo, paths["etcd"], flags.build_etcd_flags(self._folder / "etcd", client, peer)
        )
        health = Probe(client, "/health")
        etcd.wait_until(health.answers, "/health answers", seconds=_ETCD_SECONDS)
        self._audit = self._folder / "audit.log"
        serving = flags.build_apiserver_flags(
            certificates, tokens, store=client, secure=secure, audit=self._audit
        )
        apiserver = self._run(undo, paths["kube-apiserver"], serving)
        ready = Probe(secure, "/readyz", token, certificates.ca)
        apiserver.wait_until(ready.answers, "/readyz is ok", seconds=_READY_SECONDS)
        self._become_ready()
        controlling = flags.build_controller_flags(certificates, self.kubeconfig)
        controllers = self._run(undo, paths["kube-controller-manager"], controlling)
        account = ("get", "serviceaccount", "default", "-n", "default")
        controllers.wait_until(
            lambda: self.kubectl.run(*account).code == 0,
            "the ServiceAccount of the namespace default is there",
            seconds=_READY_SECONDS,
        )

    def _keep_port(self, undo: ExitStack) -> HeldPort:
        port = HeldPort()
        undo.callback(port.release)
        return port

    def _run(self, undo: ExitStack, path: Path, arguments: Sequence[str]) -> Program:
        program = Program.start(path, arguments, self._folder)
        undo.callback(program.kill)
        return program

    def _become_ready(self) -> None:
        """Create what tests need on a server that has just begun to answer."""
        program = binaries.ensure_program("kubectl")
        self.kubectl = Kubectl(program, self.kubeconfig, self._folder / "cache")
        for path in self._crds:
            self._define(path)

    def _define(self, path: Path) -> None:
        """Apply one definition and wait until its kind can be used.

        Not with `kubectl wait`, which fails while the server has not written any condition.
        """
        how = ("--server-side", "--field-manager=icdc-tests", "-f", str(path))
        spec = self.kubectl.read_object("apply", *how)["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        self._wait_for("get", f"{plural}.{group}", "--all-namespaces")
        for version in spec["versions"]:
            # What `kubectl explain` reads is published a moment later than the kind is served.
            self._wait_for("get", "--raw", f"/openapi/v3/apis/{group}/{version['name']}")

    def _wait_for(self, *command: str) -> None:
        """Return once the command comes through."""
        wait.wait_until(
            lambda: self.kubectl.run(*command).code == 0, f"kubectl {' '.join(command)}"
        )
