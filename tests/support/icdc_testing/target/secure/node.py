"""A real OpenSearch node with its plugins security and k-NN, on loopback: TLS, users, roles.

2.19.1 is the newest whose plugin Maven serves; its core, modules and log4j are of that release.
Run as a program (`python -m icdc_testing.target.secure.node`) it writes the lock of its jars anew.
"""

import hashlib
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from icdc_api.errors import Submission
from icdc_cli.embedded import jar_lock, jars, jdk
from icdc_testing import ROOT
from icdc_testing.kube.server_process import HeldPort
from icdc_testing.network.tls import Authority
from icdc_testing.target import node_calls
from icdc_testing.target.node_calls import NodeAnswer
from icdc_testing.waiting import wait

VERSION = "2.19.1"
ADMIN = ("admin", "admin")
"""The user of the plugin's own examples, who may do everything."""

_FOLDER = ROOT / "tests" / "tools" / "secure-opensearch"
_LOCK = _FOLDER / jar_lock.LOCK_NAME
_SET = f"opensearch-secure-{VERSION}"
_PARTS = (
    *(":opensearch", ":opensearch-plugin-classloader", ".plugin:transport-netty4-client"),
    *(".plugin:reindex-client", ".plugin:mapper-extras-client", ".plugin:analysis-common"),
    *(".plugin:lang-painless", ".plugin:ingest-common", ".plugin:geo"),
)
_LIBRARIES = (
    # A later one does not fit the API that 2.19.1 brings.
    "org.apache.logging.log4j:log4j-core:2.21.0",
    # Optional for Maven, but in every distribution: without them there is no `geo_shape`.
    *("org.locationtech.spatial4j:spatial4j:0.7", "org.locationtech.jts:jts-core:1.15.0"),
)
_PLUGINS = {
    "opensearch-security": "94a04f12ac6033902209fac1e4e512618d45beee604bbf0e42c3ed79c55220cf",
    "opensearch-knn": "eab8c9818865bc035212eab5068cdacae164baa09d4c152f49b736d6f6b0e85c",
}
"""Checksums of the plugins, of which Maven serves a zip of this release."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_START_SECONDS = 240.0
_FETCH_SECONDS = 900
_SECURITY = "/_plugins/_security/api"


class SecureNode:
    """One node and its JVM; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._authority = Authority.make(folder / "tls")
        self.tls = ssl.create_default_context(cafile=self._authority.ca)
        self.url = ""

    @property
    def ca(self) -> str:
        """The certificate authority of its certificate, in PEM."""
        return self._authority.ca.read_text(encoding="utf-8")

    def __enter__(self) -> Self:
        """Start it and wait until it lets its administrator in."""
        security, knn = map(_ensure_plugin, _PLUGINS)
        port = HeldPort()
        for name in ("opensearch-security", "config/opensearch-security"):
            shutil.copytree(security / "config", self._folder / name)
        self.url = f"https://{port.address}"
        class_path = [*_fetch_jars(), *sorted(security.glob("*.jar")), *knn.glob("*.jar")]
        java = jdk.find_jdk((17, 21), purpose="to run OpenSearch", wanted="17", compiler=True)
        command = [
            *(str(java.java), "-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", os.pathsep.join(map(str, class_path)), str(_FOLDER / "SecureNode.java")),
            *(
                str(self._folder),
                *(f"{key}={value}" for key, value in self._build_settings(port).items()),
            ),
        ]
        log = self._folder / "node.log"
        port.release()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            wait.wait_until(self._is_ready, f"the node of {log} answers", seconds=_START_SECONDS)
        except BaseException:
            self._end()
            raise
        # The plugin's examples give every user a role of his own, beside those that he has.
        answer = self.call("DELETE", f"{_SECURITY}/rolesmapping/own_index")
        assert answer.status == 200, answer.body
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def call(
        self, method: str, path: str, body: object = None, *, user: tuple[str, str] = ADMIN
    ) -> NodeAnswer:
        """Send one request, as the administrator unless told otherwise."""
        return node_calls.call(self.url, method, path, body, credentials=user, tls=self.tls)

    def give_role(self, name: str, role: object) -> None:
        """Create or replace a role, with the body that users send."""
        answer = self.call("PUT", f"{_SECURITY}/roles/{name}", role)
        assert answer.status in (200, 201), answer.body

    def create_user(self, name: str, role: str) -> tuple[str, str]:
        """Create a user who has this role and no other right: name and password."""
        password = secrets.token_urlsafe(24)
        body = {"password": password, "opendistro_security_roles": [role]}
        answer = self.call("PUT", f"{_SECURITY}/internalusers/{name}", body)
        assert answer.status in (200, 201), answer.body
        return name, password

    def renew_certificate(self, authority: Authority | None = None) -> None:
        """Have the node serve a new certificate, of its authority or of another one from now on.

        Returns once it does. The node watches its files; open connections stay as they are.
        """
        served = ssl.get_server_certificate(self._address)
        self._authority = authority or self._authority
        self.tls = ssl.create_default_context(cafile=self._authority.ca)
        self._write_certificate()
        wait.wait_until(
            lambda: ssl.get_server_certificate(self._address) != served, "it serves the new one"
        )

    @property
    def _address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def _write_certificate(self) -> dict[str, Path]:
        """Issue a certificate, and return its files by the names of the plugin's settings."""
        made = self._authority.issue(
            "node", subject="/O=tests/CN=node", names=["IP:127.0.0.1", "DNS:localhost"]
        )
        files = {}
        for name, made_file in (
            # The key first: the node looks at the certificate, and reads both.
            ("pemkey_filepath", made.key),
            ("pemcert_filepath", made.certificate),
            ("pemtrustedcas_filepath", made.ca),
        ):
            files[name] = self._folder / f"{name}.pem"
            fresh = files[name].with_suffix(".fresh")
            shutil.copy(made_file, fresh)
            fresh.replace(files[name])
        return files

    def _build_settings(self, port: HeldPort) -> dict[str, Any]:
        files = self._write_certificate()
        return {
            "path.data": self._folder / "data",
            "path.logs": self._folder,
            "cluster.name": "secure",
            "node.name": "secure",
            "discovery.type": "single-node",
            "network.host": "127.0.0.1",
            "http.port": port.number,
            "transport.port": 0,
            "node.store.allow_mmap": "false",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            **{
                f"plugins.security.ssl.{layer}.{key}": file.absolute()
                for layer in ("http", "transport")
                for key, file in files.items()
            },
            "plugins.security.ssl.transport.enforce_hostname_verification": "false",
            "plugins.security.ssl.http.enabled": "true",
            "plugins.security.ssl.certificates_hot_reload.enabled": "true",
            # Or a certificate of another authority would be refused.
            "plugins.security.ssl.http.enforce_cert_reload_dn_verification": "false",
            "plugins.security.ssl.transport.enforce_cert_reload_dn_verification": "false",
            "resource.reload.interval.high": "500ms",
            "plugins.security.allow_default_init_securityindex": "true",
            "plugins.security.nodes_dn": "CN=node,O=tests",
            "plugins.security.restapi.roles_enabled": "all_access",
            "plugins.security.system_indices.enabled": "true",
        }

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "node.log").read_text()[-3000:]
        try:
            return self.call("GET", "/_cluster/health").status == 200
        except OSError:
            return False

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _fetch_jars() -> list[Path]:
    return jars.fetch_jars(_SET, jar_lock.parse(_LOCK.read_text(encoding="utf-8")))


def _ensure_plugin(name: str) -> Path:
    """Return the folder of an unpacked plugin; fetched once. Submission where it cannot be had."""
    folder = jars.choose_cache_dir() / "jars" / f"{name}-{_PLUGINS[name][:16]}"
    with jars.hold_lock(folder.with_name(f".{folder.name}.lock")):
        if not folder.is_dir():
            _fetch_plugin(name, folder)
    return folder


def _fetch_plugin(name: str, folder: Path) -> None:
    artifact = f"org.opensearch.plugin:{name}:{VERSION}.0:zip"
    scratch = folder.with_name(f".{folder.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    command = ["mvn", "-q", "-B", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={scratch}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
    )
    archives = sorted(scratch.glob("*.zip"))
    if not archives:
        raise Submission(f"Maven did not deliver {artifact}: {done.stdout[-1000:]}")
    digest = hashlib.sha256(archives[0].read_bytes()).hexdigest()
    if digest != _PLUGINS[name]:
        raise Submission(f"{artifact} has the checksum {digest}, not {_PLUGINS[name]}.")
    with zipfile.ZipFile(archives[0]) as archive:
        archive.extractall(scratch)
    archives[0].unlink()
    scratch.rename(folder)


def main() -> int:
    """Write the lock anew, from Maven."""
    roots = (*(f"org.opensearch{part}:{VERSION}" for part in _PARTS), *_LIBRARIES)
    text = jar_lock.render({_SET: jars.resolve(_SET, roots)})
    _LOCK.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
