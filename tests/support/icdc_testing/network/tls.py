"""A certificate authority of one test, made with the openssl program."""

import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificates:
    """Files in PEM: the authority that clients trust, and the server's certificate and key."""

    ca: Path
    certificate: Path
    key: Path

    def make_server_context(self) -> ssl.SSLContext:
        """Return a context for a server on loopback."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True)
class Authority:
    """A certificate authority that lives for one run of the tests."""

    folder: Path
    ca: Path
    key: Path

    @classmethod
    def make(cls, folder: Path) -> Self:
        """Make a new one, whose files are in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls.load(folder)
        _run_openssl(
            *("req", "-x509", *_NEW_KEY, "-keyout", made.key, "-out", made.ca, "-days", "2"),
            *("-subj", "/CN=test authority", "-addext", "keyUsage=critical,keyCertSign"),
        )
        return made

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the one that was made in the folder before."""
        return cls(folder, folder / "ca.pem", folder / "ca.key")

    def issue(
        self,
        name: str,
        *,
        subject: str = "/CN=localhost",
        names: Sequence[str] = (),
        days: int = 2,
    ) -> Certificates:
        """Issue a certificate that it signs; `names` are of the form IP:127.0.0.1 and
        DNS:localhost.

        It is valid for some days from now on; with a negative number it has expired.
        """
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.txt"
        text = f"subjectAltName={','.join(names)}\n" if names else "basicConstraints=CA:FALSE\n"
        extensions.write_text(text, encoding="utf-8")
        _run_openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", subject)
        _run_openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key),
            *("-CAcreateserial", "-out", certificate, "-days", days, "-extfile", extensions),
        )
        return Certificates(self.ca, certificate, key)


def make_certificates(folder: Path) -> Certificates:
    """Make an authority and a certificate for 127.0.0.1 and localhost that it signed."""
    return Authority.make(folder).issue("server", names=["IP:127.0.0.1", "DNS:localhost"])


def _run_openssl(*arguments: object) -> None:
    command = ["openssl", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
