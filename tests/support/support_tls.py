"""A certificate authority of one test, made with the openssl program."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Files in PEM: the authority that clients trust, and the server's certificate and key."""

    ca: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """For a server on loopback."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_certificates(folder: Path) -> Certificates:
    """A new authority and a certificate for 127.0.0.1 and localhost that it signed."""
    folder.mkdir(parents=True, exist_ok=True)
    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    certificate, key, request = folder / "server.pem", folder / "server.key", folder / "server.csr"
    names = folder / "names.txt"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n", encoding="utf-8")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _openssl(
        *("req", "-x509", *new_key, "-keyout", ca_key, "-out", ca, "-days", "2"),
        *("-subj", "/CN=test authority", "-addext", "keyUsage=critical,keyCertSign"),
    )
    _openssl("req", *new_key, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    _openssl(
        *("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial"),
        *("-out", certificate, "-days", "2", "-extfile", names),
    )
    return Certificates(ca, certificate, key)


def _openssl(*arguments: object) -> None:
    command = ["openssl", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
