"""Address and credentials of an API server, from a kubeconfig or from the pod this runs in.

Why not the `kubernetes` library: it takes 126 MB and 0.3 s to import, for one request. This knows
what kubectl knows but the plugin `auth-provider`, for which that library is asked where it is
installed. Sends nothing, and puts no credential into a message.

A login is made for one command, and again where the server refuses it later (`thin_client`): tokens
of plugins are good for minutes, and `--wait` may take hours. Where several credentials stand in an
entry, each goes its own way: a client certificate with the TLS handshake, a token or a password, in
this order, with each request.

    kubeconfig                                 Login
    clusters[].cluster.server, …-authority     server, tls
    users[].user.client-certificate, -key      tls
    users[].user.token, tokenFile, username    headers: Authorization
    users[].user.exec                          one of the above, as a program prints it
"""

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from icdc_api.errors import BadSpec
from icdc_cli.cluster.kubeconfig import Entry, find_entry, is_in_pod, refuse_no_context
from icdc_operator.cluster.kube.environment import IN_CLUSTER

POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts token and authority of a pod's service account."""

EXEC_VERSIONS = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
"""Versions of the protocol between kubectl and credential plugins. v1alpha1 is not among them:
Kubernetes removed it in 1.24."""


@dataclass(frozen=True)
class Login:
    """One API server, and who asks it."""

    server: str
    """Its URL, without a slash at the end."""
    tls: ssl.SSLContext | None = None
    """Trust and client certificate; None for a server without TLS."""
    server_name: str | None = None
    """Name that the server's certificate has to have; default: the host of `server`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What every request carries."""
    proxy: str | None = None
    """URL of the proxy that the kubeconfig names."""


class NeedsLibrary(Exception):  # noqa: N818 - it is no failure: another client takes over
    """The kubeconfig asks for a plugin that only the `kubernetes` library has."""


def read_login(env: Mapping[str, str], context: str | None) -> Login:
    """Return the login of a context of the kubeconfig; of the pod itself where it is None.

    BadSpec where the kubeconfig has no such context, or what it names cannot be read. NeedsLibrary
    for a user with an `auth-provider`.
    """
    if context is None:
        if not is_in_pod(env):
            raise refuse_no_context(env)
        return _read_pod_login(env)
    where = find_entry(env, section="contexts", key="context", name=context)
    cluster = find_entry(
        env, section="clusters", key="cluster", name=str(where.inner.get("cluster"))
    )
    # A context may do without a user: then nobody in particular asks.
    name = where.inner.get("user")
    user = (
        find_entry(env, section="users", key="user", name=str(name))
        if name
        else Entry(where.folder, {})
    )
    if user.inner.get("auth-provider"):
        raise NeedsLibrary
    # Paths are appended to it and begin with a slash of their own.
    server = str(cluster.inner.get("server") or "").rstrip("/")
    if not server:
        raise BadSpec(f"the kubeconfig has no server for the context {context}")
    try:
        if not server.startswith(("http://", "https://")):
            raise ValueError
        _ = urlsplit(server).port  # which is parsed here
    except ValueError as error:
        # Without the address, in which a password may be.
        raise BadSpec(f"the server of the context {context} is not a URL") from error
    # After the server was checked: a plugin may open a browser, and not for a broken file.
    user = _with_plugin(user, cluster)
    return Login(
        server=server,
        tls=_build_ssl_context(cluster, user) if server.startswith("https://") else None,
        server_name=cluster.inner.get("tls-server-name"),
        headers=_build_headers(user),
        proxy=cluster.inner.get("proxy-url"),
    )


def _read_pod_login(env: Mapping[str, str]) -> Login:
    try:
        token = (POD_ACCOUNT / "token").read_text(encoding="utf-8").strip()
        trust = ssl.create_default_context(cafile=str(POD_ACCOUNT / "ca.crt"))
    except OSError as error:
        raise BadSpec(f"the account of this pod cannot be read: {error}") from error
    host, port = env[IN_CLUSTER], env.get("KUBERNETES_SERVICE_PORT", "443")
    # A cluster of IPv6 gives a bare address, which a URL takes in brackets alone.
    host = f"[{host}]" if ":" in host else host
    return Login(f"https://{host}:{port}", trust, headers={"Authorization": f"Bearer {token}"})


def _build_ssl_context(cluster: Entry, user: Entry) -> ssl.SSLContext:
    """Return the trust in the server, with the client certificate of the user if there is one.

    BadSpec for a certificate or key that cannot be read or that do not belong together.
    """
    try:
        authority = _read_content(cluster, "certificate-authority")
        # Without an authority Python trusts what this host trusts, as kubectl does.
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.inner.get("insecure-skip-tls-verify"):
            # In this order: Python refuses CERT_NONE while it has to check the name.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = (
            _read_content(user, "client-certificate"),
            _read_content(user, "client-key"),
        )
        if certificate:
            # In one text: a file of a certificate may hold its key as well. The newline is for a
            # certificate without one at its end, which would run into the next header.
            _load_certificate(context, certificate + b"\n" + (key or b""))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise BadSpec(f"a certificate of the kubeconfig cannot be used: {error}") from error
    return context


def _load_certificate(context: ssl.SSLContext, pem: bytes) -> None:
    # OpenSSL reads it from a file alone; nobody else may, and it is deleted right afterwards.
    handle, path = tempfile.mkstemp(prefix="icdc-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        context.load_cert_chain(path)
    finally:
        Path(path).unlink()


def _read_content(entry: Entry, key: str) -> bytes | None:
    """Return what `<key>-data` holds, or else the file that `key` names; None without either.

    The data goes first, as in client-go: tools that embed a certificate may leave the path behind.
    """
    data, path = entry.inner.get(f"{key}-data"), entry.inner.get(key)
    if data:
        try:
            # Without `validate` foreign characters are skipped, and a damaged key looks like one.
            return base64.b64decode(str(data), validate=True)
        except binascii.Error as error:
            raise BadSpec(f"{key}-data of the kubeconfig is not base64") from error
    # A relative path is one beside the kubeconfig that holds it, as kubectl has it.
    return (entry.folder / str(path)).read_bytes() if path else None


def _build_headers(user: Entry) -> dict[str, str]:
    """Return the header by which the API server knows the user; none for a certificate's."""
    inner = user.inner
    token = inner.get("token")
    # The file goes first, as in client-go: a program renews it, and `token` is what it began with.
    if inner.get("tokenFile"):
        path = user.folder / str(inner["tokenFile"])
        try:
            token = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadSpec(f"the token file {path} cannot be read: {error.strerror}") from error
    if token:
        return {"Authorization": f"Bearer {token}"}
    if inner.get("username"):
        pair = f"{inner['username']}:{inner.get('password', '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}


def _with_plugin(user: Entry, cluster: Entry) -> Entry:
    """Return the user with the credentials that its `exec` program prints, if it has one."""
    plugin = user.inner.get("exec")
    if not plugin:
        return user
    try:
        status = _run_plugin(plugin, user.folder, cluster)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadSpec(
            "`exec` of a user in the kubeconfig cannot be used: it has a command, args (a list of "
            f"texts) and env (a list of name and value); {type(error).__name__}: {error}"
        ) from error
    # A plugin prints PEM; put back in the form of a kubeconfig, it goes the way of all others.
    printed = {
        "token": status.get("token"),
        "client-certificate-data": _encode(status.get("clientCertificateData")),
        "client-key-data": _encode(status.get("clientKeyData")),
    }
    return Entry(user.folder, {**user.inner, **{k: v for k, v in printed.items() if v}})


def _encode(pem: Any) -> str | None:
    return base64.b64encode(str(pem).encode()).decode() if pem else None


def _run_plugin(plugin: Mapping[str, Any], folder: Path, cluster: Entry) -> dict[str, Any]:
    """Run a credential plugin by its protocol (`ExecCredential`); return its `status`.

    It reads the question from KUBERNETES_EXEC_INFO and prints its answer:

        {"kind": "ExecCredential", "spec": {"interactive": true, "cluster": {"server": …}}}
        {"kind": "ExecCredential", "status": {"token": …, "expirationTimestamp": …}}

    No time limit: a person may be reading a code from a telephone meanwhile. BadSpec where it
    cannot be started, fails, or prints something else.
    """
    version, command = str(plugin.get("apiVersion")), str(plugin.get("command"))
    if version not in EXEC_VERSIONS:
        raise BadSpec(
            f"the credential plugin {command} has the apiVersion {version}; supported: "
            f"{', '.join(EXEC_VERSIONS)}"
        )
    # Unless it says that it never asks, `interactive` says that it may: see standard input below.
    spec: dict[str, Any] = {"interactive": plugin.get("interactiveMode") != "Never"}
    # Only on demand, as kubectl does it: a large authority would fill the environment.
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {
            key: cluster.inner[key]
            for key in ("server", "certificate-authority-data", "tls-server-name")
            if cluster.inner.get(key)
        }
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    # Without a value it is empty, as with kubectl.
    env = {str(one["name"]): str(one.get("value") or "") for one in plugin.get("env") or ()}
    # With a separator it is a path beside the kubeconfig; without, a program on the PATH.
    program = str(folder / command) if os.sep in command else command
    arguments = [program, *map(str, plugin.get("args") or ())]
    # Ours last: a kubeconfig may set variables of its plugin, but not the question to it.
    environment = {**os.environ, **env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        # Standard input and error stay those of the person: it may ask for a login.
        ended = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, check=True)
        status = json.loads(ended.stdout).get("status")
    except FileNotFoundError as error:
        hint = plugin.get("installHint") or "install it, or put it on the PATH"
        raise BadSpec(f"the credential plugin {command} was not found: {hint}") from error
    except (OSError, subprocess.CalledProcessError, ValueError, AttributeError) as error:
        raise BadSpec(f"the credential plugin {command} gave no credentials: {error}") from error
    if not isinstance(status, dict):
        raise BadSpec(f"the credential plugin {command} gave no credentials")
    return status
