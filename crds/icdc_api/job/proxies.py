"""Which forward proxy a request of a run goes through, by HTTP_PROXY, HTTPS_PROXY and NO_PROXY.

Libraries read these variables in different ways, and some not at all: the clients of OpenSearch and
of Iceberg's REST catalog ignore them, that of AWS takes `.svc` in NO_PROXY for a whole name. So it
is decided here for all of them. Pure: the environment is an argument.

    HTTPS_PROXY=http://proxy:3128, NO_PROXY=.corp.example,10.0.0.0/8
    https://search.example:9200    http://proxy:3128
    https://search.corp.example    none: an exception
    https://10.1.2.3               none: an exception
    https://search:9200            none: only the cluster or the host itself knows such a name
    https://localhost:9200         none
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from icdc_api.errors import BadSpec

HTTP, HTTPS, EXCEPTIONS = "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"
VARIABLES = (HTTP, HTTPS, EXCEPTIONS)
"""The variables that are read; in small letters they come first, as for curl and requests."""

EXCEPTIONS_OF_JAVA = "http.nonProxyHosts"
"""The system property with the patterns of hosts without a proxy, whatever the kind of URL."""

_LOOPBACK = ("localhost", "127.*", "[::1]")
_WITHOUT = {
    "http-client.proxy-use-system-property-values": "false",
    "http-client.proxy-use-environment-variable-values": "false",
}
"""Properties of a catalog with which its clients of AWS use no proxy."""
_TYPES = {"type": ("glue", "dynamodb"), "encryption.kms-type": ("aws",)}
_CLASSES = ("catalog-impl", "lock-impl", "encryption.kms-impl")
"""Properties that name what may be a client of AWS beside the store."""
_ROLE = "client.assume-role."
"""How properties begin with which STS is asked for the credentials of the store."""


@dataclass(frozen=True)
class ProxyAddress:
    """The parts of the URL of a proxy."""

    host: str
    """Its name or address."""
    port: int
    """Its port."""
    user: str = ""
    """The user name of its login; empty without."""
    password: str = field(default="", repr=False)
    """The password of its login."""


@dataclass(frozen=True)
class Proxies:
    """The proxies for both kinds of URLs, and for what none is used."""

    http: str = field(default="", repr=False)
    """URL of the proxy for http://; empty for none. It may hold a login."""
    https: str = field(default="", repr=False)
    """The same for https://."""
    exceptions: tuple[str, ...] = ()
    """Names, addresses and networks that are reached directly."""

    def __bool__(self) -> bool:
        return bool(self.http or self.https)

    def find(self, url: str) -> str | None:
        """Return the URL of the proxy for `url`; None where it is reached directly."""
        try:
            address = urlsplit(url)
            port = address.port or (443 if address.scheme == "https" else 80)
        except ValueError:
            return None  # whoever asks there says what is wrong with it
        proxy = {"http": self.http, "https": self.https}.get(address.scheme)
        host = (address.hostname or "").rstrip(".")
        if not proxy or _is_near(host):
            return None
        return None if any(_matches(one, host, port) for one in self.exceptions) else proxy

    def find_for_store(self, properties: Mapping[str, str]) -> str | None:
        """Return the URL of the proxy for the S3 that the properties of a table name."""
        region = properties.get("client.region", "us-east-1")
        return self.find(properties.get("s3.endpoint") or f"https://s3.{region}.amazonaws.com")

    def list_java_properties(self) -> dict[str, str]:
        """Return the system properties for clients of a JVM that read them; empty without a proxy.

        AWS's use the proxy of http:// for https:// too, so it is set whichever there is.
        """
        properties: dict[str, str] = {}
        for scheme, url in (("http", self.http or self.https), ("https", self.https)):
            if not url:
                continue
            proxy = split_proxy(url)
            properties |= {
                f"{scheme}.proxyHost": proxy.host,
                f"{scheme}.proxyPort": f"{proxy.port}",
            }
            if proxy.user:
                properties[f"{scheme}.proxyUser"] = proxy.user
                properties[f"{scheme}.proxyPassword"] = proxy.password
        if properties:
            patterns = (pattern for one in self.exceptions for pattern in _list_patterns(one))
            properties[EXCEPTIONS_OF_JAVA] = "|".join(dict.fromkeys((*_LOOPBACK, *patterns)))
        return properties

    def find_direct_host(self, url: str) -> str | None:
        """Return the host of `url` as a pattern of the JVM; None for one behind a proxy.

        None also without a proxy, and for what is not asked by HTTP.
        """
        try:
            address = urlsplit(url)
            host = address.hostname
        except ValueError:
            return None
        near = self and host and address.scheme in ("http", "https") and self.find(url) is None
        return (f"[{host}]" if ":" in (host or "") else host) if near else None

    def add_to_catalog(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of a catalog, with what its clients do not see by themselves.

        Its REST client takes a proxy from properties alone. Those of AWS go by the list of the JVM,
        where a name without a dot cannot be told from others: they use no proxy at all then, unless
        one of them asks AWS itself. What the pipeline sets comes first.
        """
        added: dict[str, str] = {}
        url = self.find(properties.get("uri", ""))
        if url and "rest.client.proxy.hostname" not in properties:
            proxy = split_proxy(url)
            added["rest.client.proxy.hostname"] = proxy.host
            added["rest.client.proxy.port"] = str(proxy.port)
            if proxy.user:
                added["rest.client.proxy.username"] = proxy.user
                added["rest.client.proxy.password"] = proxy.password
        chosen = "http-client.proxy-endpoint" in properties
        if not chosen and self._is_lost_on_java(properties) and not _asks_aws(properties):
            added |= _WITHOUT
        return {**added, **properties}

    def _is_lost_on_java(self, properties: Mapping[str, str]) -> bool:
        """Return whether the clients of AWS would take a proxy for a store that is an exception."""
        endpoint = properties.get("s3.endpoint", "")
        listed = self.list_java_properties().get(EXCEPTIONS_OF_JAVA)
        if not endpoint or listed is None or self.find(endpoint) is not None:
            return False
        try:
            host = urlsplit(endpoint).hostname or ""
        except ValueError:
            return False  # whoever asks there says what is wrong with it
        # They read a pattern as a regular expression, in which brackets mean something else.
        patterns = "|".join(re.escape(one).replace(r"\*", ".*") for one in listed.split("|"))
        return ":" in host or re.fullmatch(patterns, host) is None


DIRECT = Proxies()
"""No proxy for anything."""


def read_proxies(environment: Mapping[str, str]) -> Proxies:
    """Return what the variables say; a proxy that is not reached by plain HTTP is left out.

    BadSpec, without the value, for an address of a proxy that is none.
    """
    http, https, exceptions = (
        (environment.get(name.lower()) or environment.get(name) or "").strip() for name in VARIABLES
    )
    entries = (entry.strip().lower() for entry in exceptions.split(","))
    return Proxies(_complete(HTTP, http), _complete(HTTPS, https), tuple(filter(None, entries)))


def split_proxy(url: str) -> ProxyAddress:
    """Return the parts of the URL of a proxy."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return ProxyAddress(parts.hostname or "", parts.port or 80, user, password)


def describe_proxy(url: str) -> str:
    """Return the URL of a proxy for messages: without the login."""
    return f"http://{urlsplit(url).netloc.rpartition('@')[2]}"


def _complete(name: str, url: str) -> str:
    """Return a URL that libraries take; empty for one of another kind, such as socks5://."""
    whole = url if "://" in url or not url else f"http://{url}"
    if not whole.lower().startswith("http://"):
        return ""
    if not _is_address(whole):
        raise BadSpec(
            f"{name} is not http://HOST:PORT; in its login, write / as %2F, ? as %3F and # as %23"
        )
    return whole


def _is_address(url: str) -> bool:
    """Return whether a URL has a host and a port that can exist, and nothing behind them.

    A part of a password stands there where a character of it is not escaped.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return (
        bool(parts.hostname)
        and port != 0
        and parts.path in ("", "/")
        and re.search(r"[?#\s]", url) is None
    )


def _asks_aws(properties: Mapping[str, str]) -> bool:
    """Return whether more than the store is asked with the settings of its client."""
    return (
        any(properties.get(name, "").lower() in types for name, types in _TYPES.items())
        or any(".iceberg.aws." in properties.get(name, "") for name in _CLASSES)
        or any(name.startswith(_ROLE) for name in properties)
    )


def _is_near(host: str) -> bool:
    """Return whether no proxy can know the host: this one, or a name without a dot."""
    address = _parse_address(host)
    return "." not in host if address is None else address.is_loopback


def _matches(exception: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY is about a host."""
    address, network = _parse_address(host), _parse_network(exception)
    if network is not None:
        return address is not None and address in network
    name, _, of_port = exception.partition(":")
    if of_port and of_port != str(port):
        return False
    name = name.removeprefix("*").lstrip(".")
    # Without a name left it was a star, which stands for all.
    return not name or host == name or host.endswith(f".{name}")


def _list_patterns(exception: str) -> Iterator[str]:
    """Yield patterns of the list of the JVM for an entry of NO_PROXY.

    .svc -> svc, *.svc    10.96.0.0/15 -> 10.96.*, 10.97.*    fd00::1 -> [fd00::1]

    A network of IPv6 has none, and a port is left out: the property can say neither.
    """
    network = _parse_network(exception)
    if isinstance(network, ipaddress.IPv4Network):
        octets = max(1, -(-network.prefixlen // 8))
        for part in network.subnets(new_prefix=octets * 8):
            known = str(part.network_address).split(".")[:octets]
            yield ".".join(known if octets == 4 else [*known, "*"])
    elif network is not None:
        if network.num_addresses == 1:
            yield f"[{network.network_address}]"
    else:
        name = exception.partition(":")[0].removeprefix("*").lstrip(".")
        yield from (name, f"*.{name}") if name else ("*",)


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network, or the one of a single address, with or without brackets."""
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None
