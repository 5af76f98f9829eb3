"""Files in a store whose certificate only the authority of the catalog has signed."""

from pathlib import Path

import pytest

from icdc_api import authorities
from icdc_spark.readers.file_access import open_file_io
from icdc_testing.lake.catalogs import service as catalog_service
from icdc_testing.network.forward_proxy import forward
from icdc_testing.network.tls import Authority

pytestmark = pytest.mark.unit

FILE = "s3://lake/a.parquet"


def test_a_worker_trusts_the_authority_of_the_catalog_beside_the_usual_ones(
    tmp_path: Path,
) -> None:
    authority = Authority.make(tmp_path / "authority")
    tls = authority.issue("server", names=["IP:127.0.0.1"]).make_server_context()
    with catalog_service.serve(tls) as service:
        names = ("s3.access-key-id", "s3.secret-access-key", "s3.region")
        properties = {"s3.endpoint": service.url, **dict.fromkeys(names, "x")}
        with pytest.raises(OSError, match="curlCode: 60"):
            open_file_io(properties, FILE).new_input(FILE).open()
        assert service.all == []
        properties[authorities.PROPERTY] = authority.ca.read_text(encoding="utf-8")
        with pytest.raises(FileNotFoundError):
            open_file_io(properties, FILE).new_input(FILE).open()
        assert service.asked == ["HEAD /lake/a.parquet"]


@pytest.mark.parametrize(("exceptions", "found"), [("", FileNotFoundError), (".example", OSError)])
def test_a_worker_reads_a_store_through_the_proxy_unless_it_is_an_exception(
    exceptions: str, found: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    with catalog_service.serve() as service, forward() as proxy:
        # A name that nobody here can look up.
        store = service.url.replace("127.0.0.1", "store.example")
        names = ("s3.access-key-id", "s3.secret-access-key", "s3.region")
        properties = {"s3.endpoint": store, **dict.fromkeys(names, "x")}
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", exceptions)
        with pytest.raises(found):
            open_file_io(properties, FILE).new_input(FILE).open()
        assert proxy.asked == ([] if exceptions else [f"HEAD {store}/lake/a.parquet"])


@pytest.mark.parametrize(
    ("variables", "properties", "region"),
    [
        ({"AWS_REGION": "eu-west-1"}, {}, None),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, {}, None),
        ({"AWS_REGION": "eu-west-1"}, {"client.region": "us-west-2"}, "us-west-2"),
        ({"AWS_REGION": "us-west-2", "AWS_DEFAULT_REGION": "eu-west-1"}, {}, "us-west-2"),
        ({}, {"client.region": "us-west-2"}, "us-west-2"),
        ({"AWS_REGION": "us-west-2"}, {"s3.cross-region-access-enabled": "true"}, ""),
    ],
)
def test_a_worker_chooses_the_proxy_by_the_region_of_its_environment_as_the_jvm_does(
    variables: dict[str, str],
    properties: dict[str, str],
    region: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    given = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".eu-west-1.amazonaws.com"}
    for name, value in {**given, **variables}.items():
        monkeypatch.setenv(name, value)
    found = open_file_io(properties, FILE).properties
    # pyarrow asks for a region that it does not know, and then not through the proxy.
    known = {"client.region": region} if region else {}
    through = {**properties, "s3.proxy-uri": "http://proxy:3128", **known}
    assert found == (properties if region is None else through)


@pytest.mark.parametrize("name", ["a b", "a%20b", "a#b", "?b", "what?#?", "é=1;x", "plain"])
def test_a_location_is_the_path_of_a_file_as_it_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "a.parquet"
    path.parent.mkdir()
    path.write_bytes(b"here")
    for location in (f"file:{path}", f"file://{path}", str(path)):
        with open_file_io({}, location).new_input(location).open() as stream:
            assert stream.read() == b"here"


def test_a_key_of_an_object_is_asked_for_as_it_is() -> None:
    with catalog_service.serve() as service:
        names = ("s3.access-key-id", "s3.secret-access-key", "s3.region")
        properties = {"s3.endpoint": service.url, **dict.fromkeys(names, "x")}
        location = "s3://lake/a#b/c?.parquet"
        with pytest.raises(FileNotFoundError):
            open_file_io(properties, location).new_input(location).open()
        assert service.asked == ["HEAD /lake/a%23b/c%3F.parquet"]
