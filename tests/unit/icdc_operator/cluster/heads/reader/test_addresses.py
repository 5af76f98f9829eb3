"""Which addresses the catalogs of pipelines may have."""

import pytest
from sqlalchemy import make_url

from icdc_operator.cluster.heads.reader.jdbc import pin_addresses
from icdc_operator.cluster.heads.reader.limits.addresses import (
    AccessRefused,
    Addresses,
    AddressGuard,
)
from icdc_operator.cluster.heads.reader.process import resolve_api_server
from icdc_operator.cluster.heads.settings import ReaderSettings

pytestmark = pytest.mark.unit

API_SERVER = "10.96.0.1"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1:fffe::a9fe:a9fe",
        "::127.0.0.1",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fe80::1",
        "fe80::1%eth0",
        "100.100.100.200",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        API_SERVER,
        "::ffff:10.96.0.1",
        "no address",
        "",
    ],
)
def test_this_host_cloud_metadata_and_the_api_server_are_refused(address: str) -> None:
    assert not Addresses(ReaderSettings(), [API_SERVER]).allows("catalog.example.com", address)


@pytest.mark.parametrize(
    "address",
    ["10.96.0.2", "10.0.0.1", "192.168.1.1", "8.8.8.8", "fd12::1", "64:ff9b::8.8.8.8"],
)
def test_catalogs_inside_the_cluster_and_outside_are_allowed(address: str) -> None:
    assert Addresses(ReaderSettings(), [API_SERVER]).allows("rest.lake.svc.cluster.local", address)


@pytest.mark.parametrize(
    ("allow", "deny", "host", "address", "expected"),
    [
        (("localhost",), (), "localhost", "127.0.0.1", True),
        (("localhost",), (), "127.0.0.1", "127.0.0.1", False),
        (("127.0.0.0/8",), (), "anything", "127.0.0.1", True),
        (("*.corp.example",), ("*",), "lake.corp.example", "10.1.1.1", True),
        (("*.corp.example",), ("*",), "LAKE.corp.example.", "10.1.1.1", True),
        (("*.corp.example",), ("*",), "corp.example.evil", "10.1.1.1", False),
        ((), ("10.0.0.0/8",), "lake.corp.example", "10.1.1.1", False),
        ((), ("10.0.0.0/8",), "lake.corp.example", "::ffff:10.1.1.1", False),
        ((), ("10.0.0.0/8",), "lake.corp.example", "11.1.1.1", True),
        ((), ("lake.*",), "lake.corp.example", "11.1.1.1", False),
        ((API_SERVER,), (), "kubernetes.default", API_SERVER, True),
        (("127.*",), (), "anything", "127.0.0.1", True),
        (("10.*",), (), "10.evil.example", "169.254.169.254", False),
        (("10.?.*",), (), "10.1.evil.example", "169.254.169.254", False),
        (("10.*.example",), (), "10.lake.example", "127.0.0.1", True),
        (("::*",), (), "x", "::1", True),
        (("fe80:*",), (), "x", "fe80::1%eth0", True),
        ((), ("*",), "lake.corp.example", "11.1.1.1", False),
        ((), ("*.de",), "lake.face.de", "11.1.1.1", False),
        ((), ("11.*",), "lake.corp.example", "11.1.1.1", False),
    ],
)
def test_what_is_allowed_goes_before_what_is_denied_and_both_before_the_rule(
    allow: tuple[str, ...], deny: tuple[str, ...], host: str, address: str, expected: bool
) -> None:
    addresses = Addresses(ReaderSettings(allow_hosts=allow, deny_hosts=deny), [API_SERVER])
    assert addresses.allows(host, address) is expected


def test_the_api_server_is_known_by_its_address_where_its_host_is_a_name() -> None:
    addresses = resolve_api_server({"KUBERNETES_SERVICE_HOST": "localhost"})
    assert "127.0.0.1" in addresses
    assert resolve_api_server({}) == frozenset()


def test_libpq_gets_the_addresses_that_were_checked() -> None:
    guard = AddressGuard(Addresses(ReaderSettings(allow_hosts=("127.0.0.1",))))
    url = pin_addresses(make_url("postgresql+psycopg2://u@127.0.0.1:5433/x?sslmode=require"), guard)
    assert (url.host, url.port) == (None, None)
    assert dict(url.query) == {
        "sslmode": "require",
        "host": "127.0.0.1",
        "hostaddr": "127.0.0.1",
        "port": "5433",
    }
    several = "postgresql+psycopg2:///x?host=127.0.0.1%2C127.0.0.1&port=1%2C2"
    assert pin_addresses(make_url(several), guard).query["hostaddr"] == "127.0.0.1,127.0.0.1"
    with pytest.raises(AccessRefused):
        pin_addresses(
            make_url("postgresql+psycopg2://localhost/x"), AddressGuard(Addresses(ReaderSettings()))
        )
