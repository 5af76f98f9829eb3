"""Takes the dates out of a Java keystore (JKS) of certificates, so that an image repeats.

Debian's ca-certificates-java writes into each entry when it was made, and Java shows that to
nobody. Runs while an image is built, with nothing but Python: `undated_keystore.py FILE`.

What a user gains: the same digests at each build, by which an image is named. keytool has no option
for that date: two stores of the same 144 authorities, made by it a second apart, differed in 308 of
165,272 bytes, and in none after this.

    header       magic 4, version 4, count 4
    each entry   tag 4, length 2, alias, date 8, length 2, "X.509", length 4, certificate
    end          seal 20

Numbers are bytes. The 8 of `date` become zero, entries are sorted (Java hashes them), and the
seal, a SHA-1 of all before it, is made again.
"""

import hashlib
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

PASSWORD = "changeit"
"""Debian's, and Java's: it protects nothing, since it seals certificates that everybody has."""

_HEADER = struct.Struct(">III")
"""Java writes numbers with the highest byte first, and so are all of them here."""
_MAGIC = 0xFEEDFEED
"""Of JKS. A store in PKCS12 begins otherwise, and is refused: its dates lie elsewhere."""
_VERSION = 2
_CERTIFICATE = 2
"""The tag of an entry that is a trusted certificate; 1 is a private key with its chain."""
_SHA1_BYTES = 20


def remove_dates(store: bytes) -> bytes:
    """Return the same store with all its dates at 1970; ValueError for what is no such store."""
    magic, version, count = _HEADER.unpack_from(store)
    if (magic, version) != (_MAGIC, _VERSION) or store[-_SHA1_BYTES:] != seal(store[:-_SHA1_BYTES]):
        raise ValueError("not a JKS keystore of version 2, or sealed with another password")
    # By their bytes, so by length of the alias first: any order does that is the same each time.
    entries = sorted(_list_entries(store, count))
    body = store[: _HEADER.size] + b"".join(entries)
    return body + seal(body)


def _list_entries(store: bytes, count: int) -> Iterator[bytes]:
    """Each entry without its date: tag, alias, date, kind of certificate, certificate."""
    at = _HEADER.size
    for _ in range(count):
        (tag, alias) = struct.unpack_from(">IH", store, at)
        if tag != _CERTIFICATE:
            # An entry of another form, and no business of a store of authorities.
            raise ValueError("the keystore holds a key")
        date = at + 6 + alias  # 4 bytes of tag and 2 of length come before the alias
        kind = date + 8
        certificate = kind + 2 + int.from_bytes(store[kind : kind + 2])
        end = certificate + 4 + int.from_bytes(store[certificate : certificate + 4])
        yield store[at:date] + bytes(8) + store[kind:end]  # 8 zero bytes: 1970
        at = end
    if at != len(store) - _SHA1_BYTES:
        raise ValueError("the keystore goes on after its last entry")


def seal(body: bytes) -> bytes:
    """Return the digest by which Java checks a store; the phrase is part of the format."""
    return hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def main(arguments: list[str]) -> int:
    """Rewrite the file that is named."""
    (name,) = arguments
    path = Path(name)
    path.write_bytes(remove_dates(path.read_bytes()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
