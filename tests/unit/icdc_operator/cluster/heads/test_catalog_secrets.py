"""Catalog properties from Secrets: only with the flag, kept for a while, never told."""

import asyncio
import base64
from pathlib import Path

import pytest

from icdc_api.errors import IcdcError, Unauthorized
from icdc_api.spec.catalog import Catalog
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.catalog_secrets import CACHE_SECONDS, CatalogSecrets
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api_errors import Denied, Unavailable
from icdc_testing.network.tls import Authority
from icdc_testing.operator.adapter.fakes.api import FakeServer, make_fault, refuse

pytestmark = pytest.mark.unit

PATH = kinds.SECRET.build_path("default", "lake")
CATALOG = Catalog.model_validate(
    {
        "properties": {"type": "rest", "uri": "http://c"},
        "propertiesFrom": [{"secretRef": {"name": "lake"}}, {"secretRef": {"name": "more"}}],
    },
    by_alias=True,
    by_name=False,
)
PLAIN = Catalog(properties={"type": "rest"})


class SecretsWorld:
    """Two Secrets on a fake API server, and a clock."""

    def __init__(self, *, allowed: bool = True) -> None:
        self.server = FakeServer()
        self.seconds = 0.0
        self.put("lake", token=b"swordfish\n", uri=b"http://other")
        self.put("more", uri=b"http://last")
        self.secrets = CatalogSecrets(
            self.server.make_api(), allowed=allowed, clock=lambda: self.seconds
        )

    def put(self, name: str, **values: bytes) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in values.items()}
        path = kinds.SECRET.build_path("default", name)
        self.server.add(path, {"metadata": {"name": name}, "data": data})

    def read_properties(self, catalog: Catalog = CATALOG) -> dict[str, str]:
        return asyncio.run(self.secrets.read_properties("default", catalog))

    def catch_refusal(self) -> IcdcError:
        with pytest.raises(IcdcError) as raised:
            self.read_properties()
        assert "swordfish" not in str(raised.value)
        return raised.value


def test_a_later_secret_wins_over_an_earlier_one_and_both_over_the_spec() -> None:
    expected = {"type": "rest", "uri": "http://last", "token": "swordfish"}
    assert SecretsWorld().read_properties() == expected


def test_without_the_flag_no_secret_is_asked_for() -> None:
    world = SecretsWorld(allowed=False)
    error = world.catch_refusal()
    assert isinstance(error, OutOfSight)
    assert "--read-catalog-secrets" in error.message
    assert world.read_properties(PLAIN) == {"type": "rest"}
    assert world.server.requests == []


def test_a_secret_is_read_again_only_after_some_minutes() -> None:
    world = SecretsWorld()
    world.read_properties()
    world.put("lake", token=b"rotated")
    world.seconds = CACHE_SECONDS - 1
    assert world.read_properties()["token"] == "swordfish"
    assert len(world.server.requests) == 2
    world.seconds = CACHE_SECONDS
    assert world.read_properties()["token"] == "rotated"


def test_a_refusal_of_the_catalog_has_its_secrets_read_anew() -> None:
    world = SecretsWorld()
    world.read_properties()
    world.put("lake", token=b"rotated")
    world.secrets.forget("default", CATALOG)
    assert world.read_properties()["token"] == "rotated"


def test_the_authority_of_a_catalog_is_read_where_secrets_are_and_again_once_it_is_refused(
    tmp_path: Path,
) -> None:
    source = {"caFrom": {"secretRef": {"name": "lake-ca"}}}
    catalog = Catalog.model_validate({"properties": {"type": "rest"}, "tls": source})
    closed = SecretsWorld(allowed=False)
    with pytest.raises(OutOfSight, match=r"its catalog has tls\.caFrom"):
        closed.read_properties(catalog)
    world = SecretsWorld()

    def read() -> str | None:
        return asyncio.run(world.secrets.read_authority("default", catalog))

    world.put("lake-ca", other=b"swordfish")
    with pytest.raises(Unauthorized, match=r"Secret 'lake-ca' .* has no key 'ca\.crt'"):
        read()
    first, second = (Authority.make(tmp_path / name).ca.read_bytes() for name in ("one", "two"))
    # At once, and not after the minutes of the cache: the refusal was not what stays in it.
    world.put("lake-ca", **{"ca.crt": first})
    assert read() == first.decode().strip()
    world.put("lake-ca", **{"ca.crt": second})
    assert read() == first.decode().strip()
    world.secrets.forget("default", catalog)
    assert read() == second.decode().strip()
    assert asyncio.run(world.secrets.read_authority("default", PLAIN)) is None


def test_a_secret_that_cannot_be_read_is_said_without_its_values() -> None:
    world = SecretsWorld()
    world.put("lake", token=b"swordfish\xff")
    assert isinstance(world.catch_refusal(), Unauthorized)
    world.server.fault = make_fault("GET", "secrets", refuse(403, "secrets is forbidden"))
    assert isinstance(world.catch_refusal(), Denied)
    world.server.fault = make_fault("GET", "secrets", refuse(503, "later"))
    assert isinstance(world.catch_refusal(), Unavailable)
    world.server.fault = lambda method, path: None
    del world.server.objects[PATH]
    assert "no Secret 'lake'" in world.catch_refusal().message
