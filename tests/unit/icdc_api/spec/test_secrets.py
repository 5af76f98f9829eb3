from pathlib import Path

import pytest

from icdc_api import authorities
from icdc_api.errors import BadSpec, Unauthorized
from icdc_api.spec.catalog import Catalog, SecretRef, SecretSource
from icdc_api.spec.secrets import (
    MAX_SECRET_BYTES,
    load_catalog_properties,
    read_secret,
    stamp_secrets,
)
from icdc_testing.network.tls import Authority

pytestmark = pytest.mark.unit


def _write_secret(directory: Path, name: str, **values: str) -> None:
    (directory / name).mkdir()
    for key, value in values.items():
        (directory / name / key).write_text(value)


def _name_sources(*names: str) -> tuple[SecretSource, ...]:
    return tuple(SecretSource(secret_ref=SecretRef(name=name)) for name in names)


def test_a_secret_is_a_directory_with_a_file_for_each_key(tmp_path: Path) -> None:
    _write_secret(tmp_path, "search", username="ada", password="a b\n\n")
    assert read_secret(tmp_path, "search") == {"username": "ada", "password": "a b\n"}


def test_a_secret_as_kubernetes_mounts_it_has_no_further_keys(tmp_path: Path) -> None:
    version = tmp_path / "search" / "..2026_11_21"
    version.mkdir(parents=True)
    (version / "username").write_text("ada")
    (tmp_path / "search" / "..data").symlink_to("..2026_11_21")
    (tmp_path / "search" / "username").symlink_to("..data/username")
    assert read_secret(tmp_path, "search") == {"username": "ada"}


def test_a_secret_that_is_not_there_is_named_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(Unauthorized) as caught:
        read_secret(tmp_path, "search")
    path = tmp_path / "search"
    expected = f"the Secret 'search' cannot be read at {path}: No such file or directory"
    assert caught.value.message == expected


def test_without_a_directory_of_secrets_the_option_is_named() -> None:
    with pytest.raises(BadSpec, match=r"use --secrets-dir DIR with the files DIR/search/<key>"):
        read_secret(None, "search")


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"\xff\xfe", "holds no UTF-8 text"), (b"x" * (MAX_SECRET_BYTES + 1), "larger than 1 MiB")],
)
def test_a_value_that_cannot_be_used_is_refused(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "password").write_bytes(content)
    with pytest.raises(Unauthorized, match=expected):
        read_secret(tmp_path, "search")


def test_properties_of_secrets_win_and_the_later_one_most(tmp_path: Path) -> None:
    _write_secret(tmp_path, "one", uri="1", token="1")
    _write_secret(tmp_path, "two", token="2")
    catalog = Catalog(
        properties={"type": "rest", "uri": "0"}, properties_from=_name_sources("one", "two")
    )
    resolved = load_catalog_properties(catalog, tmp_path)
    assert resolved == {"type": "rest", "uri": "1", "token": "2"}


def _make_trusting_catalog(folder: Path, **keys: str) -> Catalog:
    _write_secret(
        folder, "lake-ca", **{key.replace("_", "."): value for key, value in keys.items()}
    )
    source = {"caFrom": {"secretRef": {"name": "lake-ca"}}}
    return Catalog.model_validate({"properties": {"type": "rest"}, "tls": source})


def test_certificates_of_a_secret_are_a_property_without_what_stands_between_them(
    tmp_path: Path,
) -> None:
    pem = Authority.make(tmp_path / "authority").ca.read_text(encoding="utf-8").strip()
    catalog = _make_trusting_catalog(tmp_path, ca_crt=f"# Főtanúsítvány\n{pem}\n\n{pem}\n")
    resolved = load_catalog_properties(catalog, tmp_path)
    assert resolved == {"type": "rest", authorities.PROPERTY: f"{pem}\n{pem}"}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"ca_pem": "x"}, r"^Secret 'lake-ca' \(catalog.tls.caFrom\) has no key 'ca.crt'; put"),
        ({"ca_crt": "swordfish"}, r"lake-ca.*'ca.crt' is not a certificate in PEM; put text"),
        (
            {"ca_crt": "-----BEGIN CERTIFICATE-----\nc3dvcmRmaXNo\n-----END CERTIFICATE-----"},
            "is not a certificate in PEM",
        ),
    ],
)
def test_a_secret_without_certificates_is_named_and_tried_again(
    tmp_path: Path, keys: dict[str, str], expected: str
) -> None:
    with pytest.raises(Unauthorized, match=expected) as raised:
        load_catalog_properties(_make_trusting_catalog(tmp_path, **keys), tmp_path)
    assert "swordfish" not in raised.value.message


def test_properties_without_secrets_need_no_directory() -> None:
    catalog = Catalog(properties={"type": "rest"})
    assert load_catalog_properties(catalog, None) == {"type": "rest"}


def test_a_stamp_is_another_once_a_mounted_secret_is_replaced(tmp_path: Path) -> None:
    """As Kubernetes does it: keys are links through `..data` into a folder of the time."""
    for folder, text in (("..first", "one"), ("..other", "two")):
        (tmp_path / "search" / folder).mkdir(parents=True)
        (tmp_path / "search" / folder / "password").write_text(text)
    data, fresh = (tmp_path / "search" / name for name in ("..data", "..data_tmp"))
    data.symlink_to("..first")
    (tmp_path / "search" / "password").symlink_to("..data/password")
    before = stamp_secrets(tmp_path)
    assert stamp_secrets(tmp_path) == before
    fresh.symlink_to("..other")
    fresh.replace(data)
    assert stamp_secrets(tmp_path) != before
    assert stamp_secrets(None) == frozenset()
