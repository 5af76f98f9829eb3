"""A real OpenSearch node with its plugins security and k-NN, on loopback: TLS, users, roles.

2.19.1 is the newest whose plugin Maven serves; its core, modules and log4j are of that release.
Run as a program (`python -m icdc_testing.target.secure.node`) it writes the lock of its jars anew.
"""

import secrets
import shutil
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from icdc_testing.network.tls import Authority
from icdc_testing.target.secure.plugin_node import (
    SHAPES,
    PluginNode,
    PluginRelease,
    write_lock,
)
from icdc_testing.waiting import wait

SECURED = PluginRelease(
    version="2.19.1",
    lock="jars.lock",
    jars="opensearch-secure-2.19.1",
    jdks=(17, 21),
    # A later one does not fit the API that 2.19.1 brings.
    libraries=("org.apache.logging.log4j:log4j-core:2.21.0", *SHAPES),
    plugins={
        "opensearch-security": "94a04f12ac6033902209fac1e4e512618d45beee604bbf0e42c3ed79c55220cf",
        "opensearch-knn": "eab8c9818865bc035212eab5068cdacae164baa09d4c152f49b736d6f6b0e85c",
    },
    classes=(
        "org.opensearch.knn.plugin.KNNPlugin",
        "org.opensearch.security.OpenSearchSecurityPlugin",
    ),
)
_SECURITY = "/_plugins/_security/api"


class SecureNode(PluginNode):
    """One node and its JVM; a context manager."""

    release: ClassVar[PluginRelease] = SECURED
    scheme: ClassVar[str] = "https"
    # The user of the plugin's own examples.
    administrator: ClassVar[tuple[str, str] | None] = ("admin", "admin")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._authority = Authority.make(folder / "tls")
        self.tls = ssl.create_default_context(cafile=self._authority.ca)

    @property
    def ca(self) -> str:
        """The certificate authority of its certificate, in PEM."""
        return self._authority.ca.read_text(encoding="utf-8")

    def __enter__(self) -> Self:
        """Start it and wait until it lets its administrator in."""
        super().__enter__()
        # The plugin's examples give every user a role of his own, beside those that he has.
        answer = self.call("DELETE", f"{_SECURITY}/rolesmapping/own_index")
        assert answer.status == 200, answer.body
        return self

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
            files[name] = self.folder / f"{name}.pem"
            fresh = files[name].with_suffix(".fresh")
            shutil.copy(made_file, fresh)
            fresh.replace(files[name])
        return files

    def build_settings(self, plugins: Mapping[str, Path], port: int) -> dict[str, Any]:
        """Return its settings; the types of transport and HTTP are set by the plugin."""
        for name in ("opensearch-security", "config/opensearch-security"):
            shutil.copytree(plugins["opensearch-security"] / "config", self.folder / name)
        files = self._write_certificate()
        return {
            **self.build_common_settings(port),
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


if __name__ == "__main__":
    write_lock(SECURED)
    sys.exit(0)
