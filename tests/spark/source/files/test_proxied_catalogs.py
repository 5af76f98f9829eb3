"""Catalogs and object stores behind a forward proxy, in Spark with the jars of the image.

Nobody here can look up a name that ends with .example, so whoever is asked was asked through it.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from icdc_api import authorities
from icdc_testing.lake.catalogs import service as catalog_service
from icdc_testing.lake.catalogs.service import MANIFESTS
from icdc_testing.network.forward_proxy import ForwardProxy, forward
from icdc_testing.network.tls import Authority

from .catalog_probe import probe

pytestmark = pytest.mark.spark

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
S3 = "org.apache.iceberg.aws.s3.S3FileIO"
LOGIN = ("ann", "secret")
REACHED = "DataFileMissing"
"""The store was asked for a file, which it does not have."""


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardProxy]:
    """A proxy, and none for this process yet."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with forward() as running:
        yield running


def load(folder: Path, **catalogs: dict[str, str]) -> dict[str, Any]:
    """Load the table of each catalog in one Spark; return the errors that end them."""
    question = {
        "catalogs": {
            label: {"name": "lake", "properties": properties}
            for label, properties in catalogs.items()
        },
        "table": "shop.orders",
        "constants": [],
    }
    errors: dict[str, Any] = probe(question, folder)["errors"]
    return errors


def make_rest(uri: str, **more: str) -> dict[str, str]:
    return {"type": "rest", "uri": uri, "io-impl": S3, "warehouse": "s3://lake", **more}


def test_a_catalog_and_its_store_are_reached_through_a_tunnel(
    proxy: ForwardProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.make(tmp_path / "authority")
    names = ["DNS:catalog.example", "DNS:store.example", "DNS:lake.store.example"]
    tls = authority.issue("server", names=names).make_server_context()
    proxy.login = LOGIN
    # For https:// alone: the clients of AWS read the other variable.
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with catalog_service.serve(tls) as service, forward() as strict:
        strict.refuses = True
        port = urlsplit(service.url).port
        service.vends, service.url = True, f"https://store.example:{port}"
        trusted = {authorities.PROPERTY: authority.ca.read_text(encoding="utf-8")}
        catalog = make_rest(f"https://catalog.example:{port}", **trusted)
        own = {
            "rest.client.proxy.hostname": "127.0.0.1",
            "rest.client.proxy.port": str(strict.port),
        }
        errors = load(tmp_path, tunnelled=catalog, refused={**catalog, **own})
        assert errors["tunnelled"]["kind"] == REACHED, errors
        # Iceberg says of its answer what it says of the catalog's.
        assert errors["refused"]["kind"] == "Unauthorized", errors
        assert "or the proxy refuses the way there" in errors["refused"]["message"]
        assert strict.asked
        assert service.asked[-1] == f"HEAD {MANIFESTS}"
        tunnels = {f"CONNECT {name}.example:{port}" for name in ("catalog", "store")}
        assert set(proxy.asked) == tunnels


def test_plain_http_and_exceptions(
    proxy: ForwardProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", ".store.example,10.0.0.0/8")
    with ExitStack() as stack:
        services = [stack.enter_context(catalog_service.serve()) for _ in range(3)]
        passed, beside, excepted = services
        literal = stack.enter_context(catalog_service.serve(host="::1"))
        literal.vends = True
        for service in services:
            service.vends = True
        ports = [urlsplit(service.url).port for service in services]
        # Both through the proxy; the store is this host, which never is; the store is an exception,
        # and nobody can look it up.
        passed.url = f"http://files.example:{ports[0]}"
        excepted.url = f"http://a.store.example:{ports[2]}"
        errors = load(
            tmp_path,
            literal=make_rest(literal.url, **{"s3.endpoint": literal.url}),
            **{
                name: make_rest(f"http://catalog.example:{port}")
                for name, port in zip(("passed", "beside", "excepted"), ports, strict=True)
            },
        )
    kinds = {label: error["kind"] for label, error in errors.items()}
    assert kinds == {
        "passed": REACHED,
        "beside": REACHED,
        "literal": REACHED,
        "excepted": "SourceUnavailable",
    }
    assert literal.asked[-1] == f"HEAD {MANIFESTS}"
    asked = [what.partition("?")[0] for what in proxy.asked]
    assert {what for what in asked if MANIFESTS in what} == {f"HEAD {passed.url}{MANIFESTS}"}
    assert beside.asked[-1] == f"HEAD {MANIFESTS}"
    tables = {what for what in asked if what.endswith("/tables/orders")}
    assert len(tables) == 3
