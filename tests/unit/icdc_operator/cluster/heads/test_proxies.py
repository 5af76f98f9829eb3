"""Requests that a proxy carries: to no address that is refused without one."""

from collections.abc import Iterator

import pytest
from botocore.httpsession import URLLib3Session
from requests.adapters import HTTPAdapter

from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.reader.limits import proxies
from icdc_operator.cluster.heads.reader.limits.addresses import (
    AccessRefused,
    Addresses,
    AddressGuard,
)
from icdc_operator.cluster.heads.reader.metadata_files import read
from icdc_operator.cluster.heads.settings import ReaderSettings
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.readers import open_catalog
from icdc_testing.lake.catalogs.rest_catalog import RestCatalog

pytestmark = pytest.mark.unit

ORDERS = ("shop", "orders")


@pytest.fixture(autouse=True)
def own_senders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes back what `proxies.install` does to this process."""
    for client in (HTTPAdapter, URLLib3Session):
        monkeypatch.setattr(client, "send", client.send)


@pytest.fixture
def catalog() -> Iterator[RestCatalog]:
    """The proxy: whatever it is asked for, it records."""
    with rest_catalog.serve() as running:
        yield running


@pytest.mark.parametrize("host", ["169.254.169.254", "lake.invalid"])
def test_a_proxy_is_not_asked_for_what_is_not_connected_to(
    catalog: RestCatalog, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", catalog.properties["uri"])
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(OutOfSight, match=r"heads\.allowHosts"):
        open_catalog({"type": "rest", "uri": f"http://{host}/"})
    assert catalog.requests == []
    allowing = ReaderSettings(allow_hosts=("127.0.0.1", "*.invalid", "169.254.169.254"))
    catalog.answers = {f"http://{host}/v1/config": catalog.answers["/v1/config"]}
    open_catalog({"type": "rest", "uri": f"http://{host}/"}, settings=allowing)
    assert len(catalog.requests) == 1


@pytest.mark.parametrize(
    ("location", "properties"),
    [
        ("s3://b/m", {"s3.endpoint": "http://169.254.169.254", "s3.anonymous": "true"}),
        ("s3://169/m", {"s3.endpoint": "http://lake.invalid", "s3.anonymous": "true"}),
        ("gs://b/m", {"gcs.service.host": "http://169.254.169.254", "gcs.oauth2.token": "t"}),
    ],
)
def test_a_proxy_is_not_asked_for_files_where_nothing_is_connected_to(
    catalog: RestCatalog, location: str, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", catalog.properties["uri"])
    monkeypatch.delenv("NO_PROXY", raising=False)
    proxies.install(AddressGuard(Addresses(ReaderSettings())))
    with pytest.raises(AccessRefused):
        read({**properties, "s3.region": "r"}, location, ReaderSettings())
    assert catalog.requests == []


KEYS = {"client.access-key-id": "a", "client.secret-access-key": "b", "client.region": "r"}
METADATA_HOST = "http://169.254.169.254"


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "glue", "glue.endpoint": METADATA_HOST},
        {
            "catalog-impl": "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog",
            "dynamodb.table-name": "t",
        },
        {"type": "rest", "uri": METADATA_HOST},
    ],
    ids=["glue", "dynamodb", "rest"],
)
def test_a_proxy_of_the_environment_is_asked_for_no_catalog_at_a_refused_address(
    catalog: RestCatalog, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, catalog.properties["uri"])
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", METADATA_HOST)
    with pytest.raises(OutOfSight, match=r"heads\.allowHosts"):
        open_catalog(
            {**KEYS, "warehouse": "s3://w", **properties}, settings=ReaderSettings()
        ).read_heads(ORDERS)
    assert catalog.requests == []


def test_a_proxy_of_the_environment_is_asked_for_no_role_at_a_refused_address(
    catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", catalog.properties["uri"])
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", METADATA_HOST)
    proxies.install(AddressGuard(Addresses(ReaderSettings())))
    with pytest.raises(AccessRefused):
        read({**KEYS, "client.role-arn": "arn:aws:iam::1:role/x"}, "s3://b/m", ReaderSettings())
    assert catalog.requests == []


def test_a_proxy_that_a_catalog_names_is_not_used() -> None:
    given = {"type": "glue", **KEYS, "s3.proxy-uri": "http://proxy:3128"}
    with pytest.raises(OutOfSight, match=r"s3\.proxy-uri"):
        open_catalog(given)
