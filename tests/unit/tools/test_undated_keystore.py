"""A keystore of certificates loses its dates and nothing else."""

import struct
from pathlib import Path

import pytest

import undated_keystore

pytestmark = pytest.mark.unit

ONE, TWO = ("one", b"certificate 1"), ("two", b"certificate two")


def _build_store(
    *entries: tuple[str, bytes], date: int = 0, tag: int = 2, version: int = 2
) -> bytes:
    body = struct.pack(">III", 0xFEEDFEED, version, len(entries))
    for alias, certificate in entries:
        body += struct.pack(">IH", tag, len(alias)) + alias.encode() + struct.pack(">Q", date)
        body += struct.pack(">H", 5) + b"X.509"
        body += struct.pack(">I", len(certificate)) + certificate
    return body + undated_keystore.seal(body)


def test_stores_that_differ_in_dates_and_order_become_one() -> None:
    made = undated_keystore.remove_dates(_build_store(TWO, ONE, date=1_700_000_000_000))
    assert made == undated_keystore.remove_dates(_build_store(ONE, TWO, date=5))
    assert made == _build_store(ONE, TWO)


def test_another_certificate_is_another_store() -> None:
    other = (ONE[0], b"certificate 3")
    assert undated_keystore.remove_dates(_build_store(ONE)) != undated_keystore.remove_dates(
        _build_store(other)
    )


@pytest.mark.parametrize(
    ("store", "why"),
    [
        (_build_store(ONE, version=1), "version 2"),
        (_build_store(ONE)[:-1] + b"!", "another password"),
        (_build_store(ONE, tag=1), "holds a key"),
    ],
)
def test_what_is_no_such_store_is_left_alone(store: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "cacerts"
    file.write_bytes(store)
    with pytest.raises(ValueError, match=why):
        undated_keystore.main([str(file)])
    assert file.read_bytes() == store
