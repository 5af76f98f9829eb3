"""What a JVM asks directly, by its own choice of proxies; without Spark."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from icdc_api.job.proxies import DIRECT, read_proxies
from icdc_spark.iceberg.jvm.clients.proxy_properties import except_catalog, set_proxies

pytestmark = pytest.mark.unit

PROXIES = read_proxies({"HTTP_PROXY": "http://proxy.corp:3128", "NO_PROXY": ".svc"})
NAMES = ("Host", "Port", "User", "Password")


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, token = launch_gateway(jarpath=str(jar), die_on_exit=True, enable_auth=True)
    opened = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    yield opened
    opened.shutdown()


@pytest.fixture
def system(gateway: JavaGateway) -> Any:
    """Java's `System`, without proxies yet."""
    found: Any = gateway.jvm.java.lang.System
    for name in (*(f"http.proxy{one}" for one in NAMES), "https.proxyHost", "http.nonProxyHosts"):
        found.clearProperty(name)
    return found


def asks_directly(gateway: JavaGateway, url: str) -> bool:
    jvm: Any = gateway.jvm
    chosen = jvm.java.net.ProxySelector.getDefault().select(jvm.java.net.URI(url))
    return [str(one) for one in chosen] == ["DIRECT"]


@pytest.mark.parametrize(
    ("uri", "directly"),
    [
        ("http://nessie:19120/api/v2", True),
        ("http://[fd00::1]:19120/api/v2", True),
        ("http://nessie.lake.svc:19120", True),
        ("http://nessie.example:19120", False),
    ],
)
def test_a_catalog_is_asked_directly_where_it_is_no_matter_of_a_proxy(
    uri: str, directly: bool, gateway: JavaGateway, system: Any
) -> None:
    proxies = replace(PROXIES, exceptions=(".svc", "fd00::/8"))
    set_proxies(system, proxies)
    except_catalog(system, proxies, uri)
    except_catalog(system, proxies, uri)
    assert asks_directly(gateway, uri) is directly
    assert asks_directly(gateway, "http://other.lake.svc")
    assert not asks_directly(gateway, "http://other.example")
    listed = system.getProperty("http.nonProxyHosts").split("|")
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("uri", ["", "jdbc:postgresql://db/lake", "thrift://hive:9083", "http://["])
def test_what_is_not_asked_by_http_changes_nothing(uri: str, system: Any) -> None:
    set_proxies(system, PROXIES)
    except_catalog(system, PROXIES, uri)
    assert system.getProperty("http.nonProxyHosts") == "localhost|127.*|[::1]|svc|*.svc"


def test_a_proxy_for_the_other_kind_of_address_is_none_for_a_catalog(
    gateway: JavaGateway, system: Any
) -> None:
    # The clients of AWS need the property of http:// for https:// too.
    proxies = read_proxies({"HTTPS_PROXY": "http://proxy.corp:3128"})
    set_proxies(system, proxies)
    assert not asks_directly(gateway, "http://nessie.example")
    except_catalog(system, proxies, "http://nessie.example")
    assert asks_directly(gateway, "http://nessie.example")


def test_proxies_of_the_pipeline_stay_as_they_are(system: Any) -> None:
    system.setProperty("http.proxyHost", "mine")
    set_proxies(system, PROXIES)
    except_catalog(system, PROXIES, "http://nessie:19120")
    assert system.getProperty("http.proxyHost") == "mine"
    assert system.getProperty("http.nonProxyHosts") is None


def test_without_a_proxy_nothing_is_set(system: Any) -> None:
    set_proxies(system, DIRECT)
    except_catalog(system, DIRECT, "http://nessie:19120")
    assert system.getProperty("http.nonProxyHosts") is None
