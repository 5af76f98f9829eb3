"""OpenSearch behind a forward proxy: what is asked of it, and what a message says when it fails.

Nobody here can look up a name that ends with .example, so what arrives came through the proxy.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_api.spec.sink import OpenSearch
from icdc_spark.opensearch.client.connection import Connection, from_spec, open_client
from icdc_spark.opensearch.client.http import BulkEndpoint, NoAnswerError
from icdc_spark.opensearch.client.target_errors import translate_errors
from icdc_testing.network.echo_server import echo
from icdc_testing.network.forward_proxy import ForwardProxy, forward
from icdc_testing.network.tls import Authority, Certificates

pytestmark = pytest.mark.unit

NAME = "search.example"
LOGIN = ("ann", "swordfish")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    authority = Authority.make(Path(tmp_path_factory.mktemp("tls")))
    return authority.issue("server", names=[f"DNS:{NAME}"])


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardProxy]:
    """A proxy that the variables name."""
    with forward() as running:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.delenv(name.lower(), raising=False)
            monkeypatch.setenv(name, running.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        yield running


def connect(host: str) -> Connection:
    return from_spec(OpenSearch.model_validate({"hosts": [host]}), None)


def ask(connection: Connection) -> object:
    client = open_client(connection)
    try:
        with translate_errors(connection):
            return client.info()
    finally:
        client.close()


def test_plain_http_is_passed_on(proxy: ForwardProxy) -> None:
    with echo() as port:
        host = f"http://{NAME}:{port}"
        assert ask(connect(f"{host}/behind")) == {"path": "/behind/", "host": f"{NAME}:{port}"}
        assert proxy.asked == [f"GET {host}/behind/"]


@pytest.mark.parametrize("login", [None, LOGIN])
def test_https_goes_through_a_tunnel_and_is_checked_by_its_own_certificate(
    login: tuple[str, str] | None,
    proxy: ForwardProxy,
    certificates: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy.login = login
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca" / "ca.crt").write_bytes(certificates.ca.read_bytes())
    with echo(certificates.make_server_context()) as port:
        spec = {
            "hosts": [f"https://{NAME}:{port}"],
            "tls": {"caFrom": {"secretRef": {"name": "ca"}}},
        }
        connection = from_spec(OpenSearch.model_validate(spec), tmp_path)
        assert ask(connection) == {"path": "/", "host": f"{NAME}:{port}"}
        assert proxy.asked == [f"CONNECT {NAME}:{port}"]
        assert "swordfish" not in f"{connection} {connection.where}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_host_is_never_asked_for_through_a_proxy(host: str, proxy: ForwardProxy) -> None:
    with echo() as port:
        ask(connect(f"http://{host}:{port}"))
    assert proxy.asked == []


def test_an_exception_is_reached_directly(
    proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", ".example")
    with pytest.raises(TargetUnavailable, match=r"example:9200 cannot be .* cannot be resolved\.$"):
        ask(connect(f"http://{NAME}:9200"))
    assert proxy.asked == []


def test_a_refusal_of_the_proxy_is_told_with_the_proxy_and_without_its_login(
    proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.refuses, proxy.login = True, LOGIN
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with pytest.raises(TargetUnavailable) as refused:
        ask(connect(f"https://{NAME}:9200"))
    assert refused.value.message == (
        f"OpenSearch at https://{NAME}:9200 (through the proxy http://127.0.0.1:{proxy.port}) "
        "cannot be reached: the proxy refuses it (403 Forbidden)."
    )


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_a_proxy_never_got_was_not_sent(
    scheme: str, proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody listens there.
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", "http://127.0.0.1:1")
    endpoint = BulkEndpoint(connect(f"{scheme}://{NAME}"), opaque_id="x", pool=1)
    with pytest.raises(NoAnswerError, match="the proxy does not answer") as lost:
        endpoint.send("orders", b"")
    endpoint.close()
    assert not lost.value.ambiguous


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_a_proxy_may_have_passed_on_may_have_been_applied(
    scheme: str, proxy: ForwardProxy
) -> None:
    proxy.drops = True
    endpoint = BulkEndpoint(connect(f"{scheme}://{NAME}"), opaque_id="x", pool=1)
    with pytest.raises(NoAnswerError) as lost:
        endpoint.send("orders", b"")
    endpoint.close()
    assert len(proxy.asked) == 1
    assert lost.value.ambiguous
