"""A catalog whose certificate a private authority has signed, as the operator reads it."""

import asyncio
import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from botocore.httpsession import URLLib3Session
from requests.adapters import HTTPAdapter

from icdc_api import authorities
from icdc_api.errors import SourceUnavailable, Unauthorized
from icdc_operator.cluster.heads.catalog_properties import translate
from icdc_operator.cluster.heads.catalog_secrets import CatalogSecrets
from icdc_operator.cluster.heads.connections import OfOwnProcess
from icdc_operator.cluster.heads.reader.tables import read_tables
from icdc_operator.cluster.heads.table_facts import TableFacts
from icdc_operator.cluster.heads.table_heads import Head, HeadReader, Unseen, list_branches
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.metrics import Metrics
from icdc_testing.lake.catalogs import service as catalog_service
from icdc_testing.lake.catalogs.readers import ON_LOOPBACK
from icdc_testing.lake.catalogs.service import CatalogService
from icdc_testing.network.tls import Authority
from icdc_testing.operator.adapter.fakes.api import FakeServer
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

KEYS = {"client.access-key-id": "a", "client.secret-access-key": "b", "client.region": "r"}


class PrivateSite:
    """A service of a private authority, and the process that reads it."""

    def __init__(self, service: CatalogService, authority: Authority) -> None:
        self.service = service
        self.certificates = authority.ca.read_text(encoding="utf-8")
        self.readers = OfOwnProcess(ON_LOOPBACK)
        self.readers.start()

    def read(self, properties: dict[str, str], authority: str | None) -> int | None:
        """Return the head of the table, by a child of its own."""
        return asyncio.run(self._read(properties, authority))

    async def _read(self, properties: dict[str, str], authority: str | None) -> int | None:
        catalog = replace(translate("lake", properties), authority=authority)
        connection = await self.readers.connect(catalog)
        try:
            return await connection.read_head(("shop", "orders"), "main", 60)
        finally:
            connection.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSite]:
    authority = Authority.make(tmp_path_factory.mktemp("authority"))
    tls = authority.issue("server", names=["IP:127.0.0.1"]).make_server_context()
    with catalog_service.serve(tls) as service:
        service.vends = True
        made = PrivateSite(service, authority)
        yield made
        made.readers.close()


def test_a_catalog_and_its_token_server_are_trusted_by_its_own_authority_alone(
    site: PrivateSite, tmp_path: Path
) -> None:
    url = site.service.url
    tokens = {"oauth2-server-uri": f"{url}/token", "credential": "a:b"}
    properties = {"type": "rest", "uri": url, **tokens}
    another = Authority.make(tmp_path).ca.read_text(encoding="utf-8")
    for wrong in (None, another):
        with pytest.raises(Unauthorized, match=r"of 127\.0\.0\.1 .*; catalog\.tls\.caFrom names"):
            site.read(properties, wrong)
    assert site.service.all == []
    # A child that trusts it changes nothing for the next one.
    assert site.read(properties, site.certificates) == 7
    assert "POST /token" in site.service.asked
    with pytest.raises(Unauthorized):
        site.read(properties, None)


def test_the_store_of_metadata_files_is_trusted_by_the_same_authority(site: PrivateSite) -> None:
    location = {"table_type": "ICEBERG", "metadata_location": "s3://lake/m.json"}
    site.service.glue = {"DatabaseName": "shop", "Name": "orders", "Parameters": location}
    url = site.service.url
    properties = {"type": "glue", "glue.endpoint": url, "s3.endpoint": url, **KEYS}
    # It is asked, and has no such file.
    with pytest.raises(SourceUnavailable, match=r"cannot be read( at 127\.0\.0\.1)?: ClientError"):
        site.read(properties, site.certificates)
    assert site.service.asked[-1] == "GET /lake/m.json"


def test_the_next_poll_trusts_what_the_secret_has_by_then(
    site: PrivateSite, tmp_path: Path
) -> None:
    server = FakeServer()
    path = kinds.SECRET.build_path("default", "lake-ca")
    given = {"properties": {"type": "rest", "uri": site.service.url, "token": "t"}}
    trusting = {**given, "tls": {"caFrom": {"secretRef": {"name": "lake-ca"}}}}
    branches = list_branches(make_spec("shop.orders", catalog=trusting))
    another = Authority.make(tmp_path).ca.read_text(encoding="utf-8")
    secrets = CatalogSecrets(server.make_api(), allowed=True)
    reader = HeadReader(secrets, Metrics(), OfOwnProcess(ON_LOOPBACK))

    async def poll() -> list[Head | Unseen]:
        heads = []
        for text in (another, "nothing", site.certificates):
            data = {"ca.crt": base64.b64encode(text.encode()).decode()}
            server.add(path, {"metadata": {"name": "lake-ca"}, "data": data})
            heads.append((await reader.read("default", branches))["shop.orders"])
        reader.close()
        return heads

    first, second, third = asyncio.run(poll())
    assert isinstance(first, Unseen)
    assert "is not trusted" in first.reason
    assert isinstance(second, Unseen)
    assert "'ca.crt' is not a certificate in PEM" in second.reason
    assert third == Head("7")


def test_a_host_reads_tables_by_the_authority_that_runs_will_trust(
    site: PrivateSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in (
        (HTTPAdapter, "init_poolmanager"),
        (HTTPAdapter, "proxy_manager_for"),
        (URLLib3Session, "_get_ssl_context"),
    ):
        # So that it is taken back: elsewhere only children trust it.
        monkeypatch.setattr(owner, name, getattr(owner, name))
    properties = {"type": "rest", "uri": site.service.url, "token": "t"}
    refused = read_tables("lake", properties, ["shop.orders"])["shop.orders"]
    assert isinstance(refused, Unauthorized)
    trusting = {**properties, authorities.PROPERTY: site.certificates}
    facts = read_tables("lake", trusting, ["shop.orders"])["shop.orders"]
    assert isinstance(facts, TableFacts)
    assert facts.columns == ("id",)
