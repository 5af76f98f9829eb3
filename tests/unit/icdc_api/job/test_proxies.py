"""Which requests go through a forward proxy, and what each client is told of it."""

import re
import traceback

import pytest

from icdc_api.errors import BadSpec
from icdc_api.job.proxies import Proxies, describe_proxy, read_proxies

pytestmark = pytest.mark.unit

PROXY = "http://proxy:3128"
USUAL = "localhost,127.0.0.1,::1,.svc,.cluster.local,10.96.0.0/12,fd00::1"


def read(exceptions: str = "", **variables: str) -> Proxies:
    return read_proxies(
        {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, **variables}
        | ({"NO_PROXY": exceptions} if exceptions else {})
    )


@pytest.mark.parametrize(
    ("exceptions", "url", "goes_through"),
    [
        ("", "https://search.example:9200", True),
        ("", "http://search.example", True),
        ("", "http://[2001:db8::1]:9200", True),
        ("", "https://10.96.0.1", True),
        # Never: this host, and names that only a cluster or a host can look up.
        ("", "http://localhost:9200", False),
        ("", "http://127.0.0.2:9200", False),
        ("", "http://[::1]:9200", False),
        ("", "http://search:9200", False),
        # Nothing that is sent by HTTP, or no URL at all.
        ("", "jdbc:postgresql://db.example/x", False),
        ("", "thrift://hive.example:9083", False),
        ("", "", False),
        ("", "http://[bad", False),
        ("", "http://search.example:99999", False),
        (USUAL, "http://search.lake.svc:9200", False),
        (USUAL, "http://search.lake.svc.:9200", False),
        (USUAL, "http://search.lake.svc.cluster.local:9200", False),
        (USUAL, "http://minio.mysvc:9000", True),
        (USUAL, "https://10.97.1.2", False),
        (USUAL, "https://10.112.0.1", True),
        (USUAL, "https://[fd00::1]:443", False),
        (USUAL, "https://[fd00:0:0::1]", False),
        (USUAL, "https://[fd00::2]", True),
        ("example.com", "https://example.com", False),
        ("example.com", "https://a.example.com", False),
        ("example.com", "https://anexample.com", True),
        ("*.example.com", "https://a.example.com", False),
        ("EXAMPLE.com", "https://A.Example.COM", False),
        (" a.example , b.example ", "https://b.example", False),
        ("a.example:9200", "https://a.example:9200", False),
        ("a.example:9200", "https://a.example", True),
        ("a.example:443", "https://a.example", False),
        ("*", "https://a.example", False),
        ("fd00::/8", "https://[fd12::1]", False),
        ("[fd00::1]", "https://[fd00::1]", False),
        (",", "https://a.example", True),
    ],
)
def test_a_request_goes_through_the_proxy_unless_its_host_is_an_exception(
    exceptions: str, url: str, goes_through: bool
) -> None:
    assert read(exceptions).find(url) == (PROXY if goes_through else None)


@pytest.mark.parametrize(
    ("variables", "http", "https"),
    [
        ({}, None, None),
        ({"HTTP_PROXY": PROXY}, PROXY, None),
        ({"HTTPS_PROXY": PROXY}, None, PROXY),
        ({"https_proxy": "http://small:1", "HTTPS_PROXY": PROXY}, None, "http://small:1"),
        ({"HTTPS_PROXY": "proxy:3128"}, None, PROXY),
        ({"HTTPS_PROXY": " "}, None, None),
        # What not every client can use.
        ({"HTTPS_PROXY": "socks5://proxy:1080"}, None, None),
        ({"HTTPS_PROXY": "https://proxy:3129"}, None, None),
    ],
)
def test_the_variables_are_read_as_curl_reads_them(
    variables: dict[str, str], http: str | None, https: str | None
) -> None:
    proxies = read_proxies(variables)
    assert (proxies.find("http://a.example"), proxies.find("https://a.example")) == (http, https)


@pytest.mark.parametrize(
    "value",
    [
        "http://ann:swordfish#1@proxy:3128",
        "http://ann:1234#swordfish@proxy:3128",
        "http://ann:sword/fish@proxy:3128",
        "http://ann:12/swordfish@proxy:3128",
        "ann:sword?fish@proxy:3128",
        "http://ann:12?swordfish@proxy:3128",
        "http://ann:sword[fish@proxy:3128",
        "http://ann:sword fish@proxy:3128",
        "http://ann:swordfish@proxy:99999",
        "http://ann:swordfish@proxy:0",
        "http://ann:swordfish@proxy:http",
        "http://ann:swordfish@:3128",
        "http://ann:swordfish@proxy:3128/pac?swordfish",
        "http://",
    ],
)
@pytest.mark.parametrize("name", ["HTTP_PROXY", "https_proxy"])
def test_what_is_no_address_of_a_proxy_is_told_without_a_part_of_it(name: str, value: str) -> None:
    with pytest.raises(BadSpec) as refused:
        read_proxies({name: value})
    assert refused.value.message == (
        f"{name.upper()} is not http://HOST:PORT; in its login, write / as %2F, ? as %3F and # as "
        "%23"
    )
    shown = "".join(traceback.format_exception(refused.value))
    assert re.search("sword|fish|1234", shown) is None


@pytest.mark.parametrize(
    "value",
    ["http://proxy:3128/", "HTTP://proxy:3128", "http://[fd00::1]:3128", "http://a:p%23%2F@b:1"],
)
def test_other_ways_to_write_the_address_are_taken(value: str) -> None:
    assert read_proxies({"HTTPS_PROXY": value}).find("https://a.example") == value


@pytest.mark.parametrize(
    ("exception", "patterns"),
    [
        (".svc", ["svc", "*.svc"]),
        ("*.corp.example", ["corp.example", "*.corp.example"]),
        ("search.example:9200", ["search.example", "*.search.example"]),
        ("10.0.0.1", ["10.0.0.1"]),
        ("10.0.0.0/8", ["10.*"]),
        ("192.168.0.0/16", ["192.168.*"]),
        ("10.96.0.0/15", ["10.96.*", "10.97.*"]),
        ("10.1.2.4/31", ["10.1.2.4", "10.1.2.5"]),
        ("fd00::1", ["[fd00::1]"]),
        ("fd00::/8", []),
        ("*", ["*"]),
    ],
)
def test_an_exception_becomes_patterns_of_the_jvm(exception: str, patterns: list[str]) -> None:
    known = read(exception).list_java_properties()["http.nonProxyHosts"].split("|")
    assert known == ["localhost", "127.*", "[::1]", *patterns]


def test_the_clients_of_aws_read_one_proxy_for_both_kinds_of_addresses() -> None:
    only_https = read_proxies({"HTTPS_PROXY": "http://ann:p%40ss@proxy:3128"})
    properties = only_https.list_java_properties()
    del properties["http.nonProxyHosts"]
    assert properties == {
        f"{scheme}.proxy{name}": value
        for scheme in ("http", "https")
        for name, value in (
            ("Host", "proxy"),
            ("Port", "3128"),
            ("User", "ann"),
            ("Password", "p@ss"),
        )
    }
    assert read_proxies({"HTTP_PROXY": PROXY}).list_java_properties().keys() == {
        "http.proxyHost",
        "http.proxyPort",
        "http.nonProxyHosts",
    }
    assert read_proxies({"NO_PROXY": USUAL}).list_java_properties() == {}


REST = {"rest.client.proxy.hostname": "proxy", "rest.client.proxy.port": "3128"}
AWS = "org.apache.iceberg.aws"
DIRECT_AWS = {
    "http-client.proxy-use-system-property-values": "false",
    "http-client.proxy-use-environment-variable-values": "false",
}


@pytest.mark.parametrize(
    ("properties", "added"),
    [
        ({"type": "rest", "uri": "https://catalog.example"}, REST),
        ({"type": "rest", "uri": "http://catalog:8181"}, {}),
        ({"type": "rest", "uri": "https://catalog.lake.svc"}, {}),
        ({"type": "rest", "uri": "https://c.example", "rest.client.proxy.hostname": "mine"}, {}),
        ({"type": "glue"}, {}),
        ({"s3.endpoint": "https://s3.example"}, {}),
        ({"s3.endpoint": "http://minio:9000"}, DIRECT_AWS),
        ({"s3.endpoint": "http://minio:9000", "http-client.proxy-endpoint": "http://p:1"}, {}),
        (
            {"uri": "https://catalog.example", "s3.endpoint": "http://minio:9000"},
            {**REST, **DIRECT_AWS},
        ),
        # What the list of the JVM says of a store leaves the proxy to the other clients of AWS.
        ({"s3.endpoint": "https://minio.lake.svc"}, {}),
        ({"s3.endpoint": "https://MINIO.lake.svc"}, {}),
        ({"s3.endpoint": "http://10.97.1.2:9000"}, {}),
        ({"s3.endpoint": "http://127.0.0.1:9000"}, {}),
        ({"s3.endpoint": "http://localhost:9000"}, {}),
        ({"s3.endpoint": "https://minio.lake.svc."}, DIRECT_AWS),
        ({"s3.endpoint": "http://[fd00::1]:9000"}, DIRECT_AWS),
        ({"s3.endpoint": "http://[::1]:9000"}, DIRECT_AWS),
        # AWS itself would be asked without a proxy.
        ({"type": "glue", "s3.endpoint": "http://minio:9000"}, {}),
        ({"type": "dynamodb", "s3.endpoint": "http://minio:9000"}, {}),
        ({"catalog-impl": f"{AWS}.glue.GlueCatalog", "s3.endpoint": "http://minio:9000"}, {}),
        ({"lock-impl": f"{AWS}.dynamodb.DynamoDbLockManager", "s3.endpoint": "http://minio:1"}, {}),
        ({"encryption.kms-type": "aws", "s3.endpoint": "http://minio:9000"}, {}),
        ({"s3.endpoint": "http://minio:9000", "client.assume-role.arn": "arn:aws:iam::1:x"}, {}),
        ({"io-impl": f"{AWS}.s3.S3FileIO", "s3.endpoint": "http://minio:9000"}, DIRECT_AWS),
    ],
)
def test_a_catalog_gets_what_its_clients_do_not_read_from_variables(
    properties: dict[str, str], added: dict[str, str]
) -> None:
    assert read(USUAL).add_to_catalog(properties) == {**added, **properties}
    assert read_proxies({}).add_to_catalog(properties) == properties


def test_a_name_without_a_dot_is_an_exception_of_the_jvm_where_it_is_listed() -> None:
    properties = {"s3.endpoint": "http://minio:9000"}
    assert read("minio").add_to_catalog(properties) == properties


@pytest.mark.parametrize(
    ("variable", "endpoint"),
    [("HTTPS_PROXY", "http://s3.example"), ("HTTP_PROXY", "https://s3.example")],
)
def test_a_store_without_a_proxy_for_its_kind_of_address_is_asked_directly(
    variable: str, endpoint: str
) -> None:
    made = read_proxies({variable: PROXY}).add_to_catalog({"s3.endpoint": endpoint})
    assert made == {"s3.endpoint": endpoint, **DIRECT_AWS}


@pytest.mark.parametrize(
    ("properties", "goes_through"),
    [
        ({}, True),
        ({"client.region": "eu-west-1"}, False),
        ({"s3.endpoint": "https://s3.example"}, True),
        ({"s3.endpoint": "http://minio:9000"}, False),
    ],
)
def test_a_store_is_that_of_amazon_unless_the_properties_name_another(
    properties: dict[str, str], goes_through: bool
) -> None:
    found = read(".s3.eu-west-1.amazonaws.com").find_for_store(properties)
    assert found == (PROXY if goes_through else None)


def test_the_login_of_a_proxy_reaches_the_catalogs_client_and_no_message() -> None:
    proxies = read_proxies({"HTTPS_PROXY": "http://ann:p%40ss@proxy:3128"})
    properties = proxies.add_to_catalog({"uri": "https://catalog.example"})
    assert properties["rest.client.proxy.username"] == "ann"
    assert properties["rest.client.proxy.password"] == "p@ss"
    assert re.search("ann|p@ss|p%40ss", repr(proxies)) is None
    assert describe_proxy(proxies.https) == PROXY
