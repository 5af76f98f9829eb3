"""Makes the file of authorities that an executor trusts, those that catalogs name among them.

An executor's JVM takes it when it starts, so it is made before. By Python alone: the image has no
shell, and keytool takes half a second for each certificate. The file is in memory, as the root file
system may be read-only, and ends with the container:

    JDK's cacerts     version, count 144, 144 entries, seal
    the new file      version, count 146, 144 entries, 2 entries, seal

The driver's JVM gets its authorities while it runs (`iceberg.jvm.trust`).
"""

import hashlib
import os
import ssl
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from icdc_api import authorities

PASSWORD = "changeit"
"""Java's own: it protects nothing, since certificates are no secret."""
_HEADER = struct.Struct(">8sI")
"""The kind of file, and the number of its entries."""
_KIND = b"\xfe\xed\xfe\xed\0\0\0\x02"
"""Of JKS, version 2: the form of Debian's file."""
_CERTIFICATE = 2
"""The tag of an entry that is a trusted certificate."""
_SEAL_BYTES = 20


def add_option(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return a JVM's command line with the option for the file; as it is where none is asked for.

    What cannot be read is left out, and the log says why: the driver reports what is wrong with a
    Secret, and other catalogs go on.
    """
    names = environment.get(authorities.FILES_VARIABLE, "")
    added = [one for name in names.split(":") if name for one in _read_certificates(Path(name))]
    if not added:
        return list(arguments)
    usual = Path(environment.get("JAVA_HOME", ""), "lib", "security", "cacerts")
    try:
        content = extend(usual.read_bytes(), map(ssl.PEM_cert_to_DER_cert, added))
    except (OSError, ValueError) as error:
        _say(f"{usual} cannot be extended: {error}")
        return list(arguments)
    # Without the flag that closes it when the JVM takes the place of this process.
    descriptor = os.memfd_create("trust-store", 0)
    with os.fdopen(descriptor, "wb", closefd=False) as store:
        store.write(content)
    program, *rest = arguments
    # Before the options of the pipeline, which may name a file of its own.
    return [program, f"-Djavax.net.ssl.trustStore=/proc/self/fd/{descriptor}", *rest]


def _read_certificates(file: Path) -> list[str]:
    try:
        return authorities.list_certificates(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        _say(f"{file} is left out: {error}")
        return []


def extend(store: bytes, certificates: Iterable[bytes]) -> bytes:
    """Return a JKS keystore with further certificates (DER); ValueError where it is none."""
    if len(store) < _HEADER.size + _SEAL_BYTES or not store.startswith(_KIND):
        raise ValueError("the JDK's file is not a JKS keystore of version 2")
    entries = [
        struct.pack(">I", _CERTIFICATE)
        + _encode_text(f"icdc-{number}")
        + bytes(8)  # no date
        + _encode_text("X.509")
        + struct.pack(">I", len(certificate))
        + certificate
        for number, certificate in enumerate(certificates)
    ]
    kind, count = _HEADER.unpack_from(store)
    body = _HEADER.pack(kind, count + len(entries)) + store[_HEADER.size : -_SEAL_BYTES]
    return _seal(body + b"".join(entries))


def _encode_text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def _seal(body: bytes) -> bytes:
    """Return the body with the digest by which Java checks it; the phrase is part of the format."""
    phrase = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    return body + hashlib.sha1(phrase + body).digest()


def _say(line: str) -> None:
    sys.stderr.write(f"trust store: {line}\n")
