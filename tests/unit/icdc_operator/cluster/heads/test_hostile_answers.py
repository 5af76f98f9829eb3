"""A REST catalog whose answers try to choose code, files and servers for the reader of heads."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from icdc_api.errors import IcdcError, SourceUnavailable
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.reader.metadata_files import read
from icdc_operator.cluster.heads.settings import ReaderSettings
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.readers import open_catalog
from icdc_testing.lake.catalogs.rest_catalog import RestCatalog

from . import interpreter_audit

pytestmark = pytest.mark.unit

ORDERS = ("shop", "orders")
METADATA = {"format-version": 2, "current-snapshot-id": 7}


class HostileSite:
    """A catalog that has `shop.orders`, another server, and a file that nobody should open."""

    def __init__(self, catalog: RestCatalog, other: RestCatalog, folder: Path) -> None:
        self.catalog, self.other = catalog, other
        catalog.put("shop.orders", dict(METADATA))
        self.secret = folder / "secret"
        self.secret.write_text("swordfish", encoding="utf-8")
        self.marker = folder / "started"

    @property
    def elsewhere(self) -> str:
        return f"http://127.0.0.1:{self.other.port}"

    def answer_config(self, what: str, properties: Any, status: int = 200) -> None:
        """To GET /v1/config."""
        both = {"defaults": {}, "overrides": {}, what: properties}
        self.catalog.answers["/v1/config"] = (status, both)

    def read_heads(self, **own: str) -> object:
        """Return the heads of `shop.orders` or the error; assert that nothing else was touched."""
        outcome: object
        with interpreter_audit.audit() as events:
            try:
                given = {**self.catalog.properties, **own}
                outcome = open_catalog(given).read_heads(ORDERS)
            except IcdcError as error:
                outcome = error
        names = {event for event, _ in events}
        assert not names & interpreter_audit.STARTS
        assert str(self.secret) not in {str(event[1][0]) for event in events if event[0] == "open"}
        assert "no_such_module" not in {event[1][0] for event in events if event[0] == "import"}
        assert interpreter_audit.list_ports(events) == {self.catalog.port}
        assert not self.marker.exists()
        assert self.other.requests == []
        return outcome


@pytest.fixture
def site(tmp_path: Path) -> Iterator[HostileSite]:
    with ExitStack() as stack:
        running = rest_catalog.serve
        yield HostileSite(stack.enter_context(running()), stack.enter_context(running()), tmp_path)


def list_hostile_properties(site: HostileSite) -> dict[str, dict[str, Any]]:
    """Return hostile properties by what they are after."""
    command = {"args": ["touch", str(site.marker)]}
    secret, elsewhere = str(site.secret), site.elsewhere
    return {
        "a process": {"auth": {"type": "custom", "impl": "subprocess.Popen", "custom": command}},
        "a module": {"auth": {"type": "custom", "impl": "no_such_module.Trap", "custom": {}}},
        "a file as certificate": {"ssl": {"client": {"cert": secret, "key": secret}}},
        "a file as authority": {"ssl": {"cabundle": secret}},
        "a file of Google": {"auth": {"type": "google", "google": {"credentials_path": secret}}},
        "a FileIO": {"py-io-impl": "no_such_module.Trap"},
        "a catalog": {"py-catalog-impl": "no_such_module.Trap"},
        "a token server": {"credential": "a:b", "oauth2-server-uri": f"{elsewhere}/token"},
        "a token server of its own": {
            "auth": {
                "type": "oauth2",
                "oauth2": {"client_id": "a", "client_secret": "b", "token_url": elsewhere},
            }
        },
        "the operator's cloud role": {"rest.sigv4-enabled": "true", "client.profile-name": "x"},
        "a signer": {"s3.signer": "S3V4RestSigner", "s3.signer.uri": elsewhere},
        "a proxy": {"s3.proxy-uri": elsewhere, "header.Proxy-Authorization": "x"},
        "nested values": {"warehouse": {"a": {"b": []}}, "header.X": ["a"], "token": 7},
        "no values": {"auth": None, "ssl": "x", "snapshot-loading-mode": {}},
    }


CASES = (
    "a process",
    "a module",
    "a file as certificate",
    "a file as authority",
    "a file of Google",
    "a FileIO",
    "a catalog",
    "a token server",
    "a token server of its own",
    "the operator's cloud role",
    "a signer",
    "a proxy",
    "nested values",
    "no values",
)


@pytest.mark.parametrize("what", ["defaults", "overrides"])
@pytest.mark.parametrize("case", CASES)
def test_an_answer_chooses_no_code_no_file_and_no_server(
    site: HostileSite, what: str, case: str
) -> None:
    assert sorted(CASES) == sorted(list_hostile_properties(site))
    site.answer_config(what, list_hostile_properties(site)[case])
    assert site.read_heads() == {"main": 7}


@pytest.mark.parametrize("what", ["defaults", "overrides"])
@pytest.mark.parametrize("case", ["a process", "a file as certificate"])
@pytest.mark.parametrize(
    ("status", "below", "asked"),
    [
        (201, "", ""),
        (203, "", ""),
        (200, "/a b", "/a%20b"),
        (200, "/%7ea", "/~a"),
        (200, "/a/../b", "/b"),
    ],
)
def test_no_status_and_no_spelling_of_its_address_lets_an_answer_choose(
    site: HostileSite, what: str, case: str, status: int, below: str, asked: str
) -> None:
    site.answer_config(what, list_hostile_properties(site)[case], status)
    site.catalog.answers = {asked + path: answer for path, answer in site.catalog.answers.items()}
    assert site.read_heads(uri=site.catalog.properties["uri"] + below) == {"main": 7}


@pytest.mark.parametrize("what", ["defaults", "overrides"])
@pytest.mark.parametrize("case", ["a process", "a file as certificate"])
def test_an_answer_chooses_nothing_after_a_redirect_within_the_catalog(
    site: HostileSite, what: str, case: str
) -> None:
    site.answer_config(what, list_hostile_properties(site)[case])
    site.catalog.answers["/v1/moved"] = site.catalog.answers.pop("/v1/config")
    site.catalog.redirects["/v1/config"] = "/v1/moved"
    assert site.read_heads() == {"main": 7}


@pytest.mark.parametrize("what", ["defaults", "overrides"])
def test_a_catalog_does_not_move_its_readers_to_another_server(
    site: HostileSite, what: str
) -> None:
    site.answer_config(what, {"uri": site.elsewhere})
    outcome = site.read_heads()
    # What the pipeline says goes before defaults, and after overrides.
    expected = {"defaults": dict, "overrides": OutOfSight}[what]
    assert isinstance(outcome, expected)


def test_an_address_that_libraries_read_differently_moves_no_reader(site: HostileSite) -> None:
    own = site.catalog.properties["uri"].removeprefix("http://")
    site.answer_config("overrides", {"uri": f"{site.elsewhere}\\@{own}"})
    assert isinstance(site.read_heads(), SourceUnavailable)


@pytest.mark.parametrize("key", ["prefix", "namespace-separator", "uri"])
@pytest.mark.parametrize("value", [7, None, {"a": "b"}, ["a"], {"a": {"b": "c"}}])
def test_values_that_are_no_text_end_as_unreadable(
    site: HostileSite, key: str, value: object
) -> None:
    site.answer_config("overrides", {key: value})
    assert isinstance(site.read_heads(), SourceUnavailable)


@pytest.mark.parametrize("what", ["defaults", "overrides"])
@pytest.mark.parametrize("properties", [None, [], "x", 7, {"": []}])
def test_an_answer_that_is_no_map_is_unreadable_or_empty(
    site: HostileSite, what: str, properties: object
) -> None:
    site.answer_config(what, properties)
    outcome = site.read_heads()
    assert outcome == {"main": 7} or isinstance(outcome, SourceUnavailable)


def test_parts_of_paths_are_taken_over(site: HostileSite) -> None:
    site.answer_config(
        "overrides", {"prefix": "lakes/one", "uri": f"{site.catalog.properties['uri']}/"}
    )
    answer = site.catalog.answers.pop("/v1/namespaces/shop/tables/orders")
    site.catalog.answers["/v1/lakes/one/namespaces/shop/tables/orders"] = answer
    assert site.read_heads() == {"main": 7}


@pytest.mark.parametrize(
    "path", ["/v1/config", "/v1/namespaces/shop/tables/orders", "/v1/oauth/tokens"]
)
def test_no_redirect_to_another_server_is_followed(site: HostileSite, path: str) -> None:
    site.catalog.redirects[path] = f"{site.elsewhere}/v1/anything"
    token = {"credential": "a:b", "oauth2-server-uri": f"{site.catalog.properties['uri']}{path}"}
    outcome = site.read_heads(**(token if "oauth" in path else {}))
    assert isinstance(outcome, OutOfSight)
    assert "redirects" in outcome.message


def test_a_redirect_within_the_catalog_is_followed(site: HostileSite) -> None:
    site.catalog.redirects["/v1/config"] = "/v1/moved"
    site.catalog.answers["/v1/moved"] = (200, {"defaults": {}, "overrides": {}})
    assert site.read_heads() == {"main": 7}


def test_credentials_that_an_answer_has_for_files_are_not_used(site: HostileSite) -> None:
    path = "/v1/namespaces/shop/tables/orders"
    status, answer = site.catalog.answers[path]
    config = {"s3.endpoint": site.elsewhere, "py-io-impl": "no_such_module.Trap", "token": {}}
    metadata = {**METADATA, "properties": {"py-io-impl": "no_such_module.Trap"}}
    site.catalog.answers[path] = (status, {**answer, "config": config, "metadata": metadata})
    assert site.read_heads() == {"main": 7}


@pytest.mark.parametrize(
    "location",
    ["hdfs://n/m.json", "hf://x/m.json", "viewfs://n/m", "abfss://c@a/m", "m.json", "/m.json", ""],
)
def test_a_location_chooses_no_library_and_no_folder(location: str) -> None:
    with interpreter_audit.audit() as events, pytest.raises(OutOfSight):
        read({"warehouse": "file:///"}, location, ReaderSettings())
    assert not {name for name, _ in events} & {"import", "open", "socket.connect"}
