"""Addresses, credentials and trust, through a proxy that asks for them."""

from pathlib import Path

import pytest

from icdc_api.errors import BadSpec, TargetUnavailable, Unauthorized
from icdc_api.spec.sink import OpenSearch
from icdc_spark.opensearch.client.connection import Connection, from_spec, open_client
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.forward_proxy import forward
from icdc_testing.network.tls import make_certificates

pytestmark = pytest.mark.spark

USER, PASSWORD = "replicator", "pä:ss wörd"


def make_spec(**parts: object) -> OpenSearch:
    values: dict[str, object] = {"hosts": ["https://search:9200"], **parts}
    return OpenSearch.model_validate(values)


def write_secret(folder: Path, name: str, **keys: str) -> dict[str, object]:
    (folder / name).mkdir()
    for key, value in keys.items():
        (folder / name / key.replace("_", ".")).write_text(value + "\n", encoding="utf-8")
    return {"secretRef": {"name": name}}


def test_credentials_and_trust_come_from_the_secrets(tmp_path: Path) -> None:
    connection = from_spec(
        make_spec(
            credentialsFrom=write_secret(tmp_path, "search", username=USER, password=PASSWORD),
            tls={"caFrom": write_secret(tmp_path, "ca", ca_crt="PEM")},
        ),
        tmp_path,
    )
    assert connection == Connection(
        hosts=("https://search:9200",),
        username=USER,
        password=PASSWORD,
        ca_pem="PEM",
        secret="search",
    )
    assert PASSWORD not in repr(connection)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"username": "u"}, "Secret 'search' .* neither the keys 'username' and 'password'"),
        ({}, "Secret 'search' .* neither the keys"),
    ],
)
def test_a_secret_without_its_keys_is_named(
    tmp_path: Path, keys: dict[str, str], message: str
) -> None:
    wanted = make_spec(credentialsFrom=write_secret(tmp_path, "search", **keys))
    with pytest.raises(Unauthorized, match=message):
        from_spec(wanted, tmp_path)


def test_a_secret_without_an_authority_is_named(tmp_path: Path) -> None:
    wanted = make_spec(tls={"caFrom": write_secret(tmp_path, "ca", other="x")})
    with pytest.raises(Unauthorized, match=r"Secret 'ca' .* has no key 'ca.crt'"):
        from_spec(wanted, tmp_path)


def test_an_authority_that_is_no_certificate_is_refused() -> None:
    with pytest.raises(BadSpec, match="is not a PEM certificate"):
        open_client(Connection(hosts=("https://search:9200",), ca_pem="nonsense"))


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """A connection that signs, on a host without credentials or a cloud to ask for them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    keys = write_secret(tmp_path, "aws", awsRegion="eu-west-1", awsService="aoss")
    connection = from_spec(make_spec(credentialsFrom=keys), tmp_path)
    assert (connection.aws_region, connection.aws_service) == ("eu-west-1", "aoss")
    return connection


def test_signing_for_aws_without_credentials_is_refused(aws: Connection) -> None:
    with pytest.raises(Unauthorized, match="No AWS credentials"):
        open_client(aws)


def test_signing_for_aws_takes_credentials_from_the_usual_places(
    aws: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    open_client(aws).close()


def test_basic_authentication_over_tls(clean_indices: str, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "tls")
    trusted = certificates.ca.read_text(encoding="utf-8")
    credentials = (USER, PASSWORD)
    with FaultProxy(
        clean_indices, credentials=credentials, tls=certificates.make_server_context()
    ) as proxy:
        good = Connection(
            hosts=(proxy.url,), username=USER, password=PASSWORD, ca_pem=trusted, secret="search"
        )
        store = StateStore(good)
        store.ensure_index()
        assert store.load("orders") is None
        store.close()
        unverified = StateStore(
            Connection(hosts=(proxy.url,), username=USER, password=PASSWORD, verify=False)
        )
        assert unverified.load("orders") is None
        unverified.close()
        untrusted = StateStore(Connection(hosts=(proxy.url,), username=USER, password=PASSWORD))
        with pytest.raises(Unauthorized, match="is not trusted"):
            untrusted.load("orders")
        untrusted.close()
        wrong = StateStore(
            Connection(
                hosts=(proxy.url,), username=USER, password="x", ca_pem=trusted, secret="search"
            )
        )
        with pytest.raises(Unauthorized, match="the credentials in Secret 'search' are not acc"):
            wrong.load("orders")
        wrong.close()


def test_a_node_behind_a_forward_proxy_is_written_through_it(
    clean_indices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A name that nobody here can look up.
    host = clean_indices.replace("127.0.0.1", "search.example")
    with forward() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        store = StateStore(from_spec(make_spec(hosts=[host]), None))
        store.ensure_index()
        assert store.load("orders") is None
        store.close()
        addresses = {asked.split()[1].partition("/icdc-state")[0] for asked in proxy.asked}
        assert addresses <= {host, f"{host}/"}
        assert any(asked.startswith(f"PUT {host}/icdc-state") for asked in proxy.asked)


def test_an_unreachable_host_is_named_after_the_retries(proxy: FaultProxy) -> None:
    proxy.stop()
    store = StateStore(Connection(hosts=(proxy.url,)), patience=0.3)
    with pytest.raises(TargetUnavailable, match=f"{proxy.url} cannot be reached"):
        store.load("orders")
    store.close()


def test_a_server_that_does_not_speak_the_scheme_of_its_address_is_told_so(
    clean_indices: str, tmp_path: Path
) -> None:
    tls = make_certificates(tmp_path / "tls").make_server_context()
    with FaultProxy(clean_indices, tls=tls) as encrypted:
        for url, hint in (
            (clean_indices.replace("http:", "https:"), "unless a proxy fails, its address is http"),
            (encrypted.url.replace("https:", "http:"), "as a server does that .* expects https://"),
        ):
            store = StateStore(Connection(hosts=(url,), verify=False), patience=0.3)
            with pytest.raises(TargetUnavailable, match=f"cannot be reached: it .*{hint}"):
                store.load("orders")
            store.close()
