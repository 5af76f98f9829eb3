"""Holds the addresses, credentials and trust for OpenSearch, and makes clients from them.

A `Connection` is plain data, so that it travels to executors, which may lack the driver's mounted
Secrets. It must not know indices or documents.
"""

import base64
import importlib
import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
from opensearchpy import OpenSearch
from opensearchpy.helpers.signer import AWSV4Signer

from icdc_api import authorities
from icdc_api.errors import BadSpec, Unauthorized
from icdc_api.job.proxies import DIRECT, Proxies, describe_proxy, read_proxies, split_proxy
from icdc_api.spec import sink
from icdc_api.spec.secrets import has_credentials, read_secret
from icdc_spark.opensearch.client.foreign_answers import OpenSearchConnection
from icdc_spark.opensearch.client.retry import DRIVER_SECONDS

DEFAULT_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Connection:
    """The addresses of an OpenSearch, and the credentials for it."""

    hosts: tuple[str, ...]
    """URLs; a request goes to any of them."""
    username: str | None = None
    """For basic authentication; None without, or with AWS."""
    password: str | None = field(default=None, repr=False)
    """Its password."""
    aws_region: str | None = None
    """The region for which requests are signed; None where they are not."""
    aws_service: str = "es"
    """The name of the AWS service for which requests are signed."""
    ca_pem: str | None = field(default=None, repr=False)
    """The certificates that are trusted, as PEM; None for those of the system."""
    verify: bool = True
    """False if any certificate is accepted."""
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    """Seconds that a request may take."""
    secret: str | None = None
    """Name of the Secret that the credentials came from; only for messages."""
    proxies: Proxies = DIRECT
    """The proxies of the driver, which count for executors as well."""

    @property
    def where(self) -> str:
        """Return the addresses and the proxy on the way there, for messages."""
        through = dict.fromkeys(filter(None, map(self.proxies.find, self.hosts)))
        proxy = "".join(f" (through the proxy {describe_proxy(url)})" for url in through)
        return ", ".join(self.hosts) + proxy


def from_spec(spec: sink.OpenSearch, secrets_dir: Path | None) -> Connection:
    """Return the connection of `spec.sink.opensearch`, with credentials read from its Secrets.

    Raises Unauthorized, which names the Secret and the keys that are missing.
    """
    secret = spec.credentials_from.secret_ref.name if spec.credentials_from else None
    keys = read_secret(secrets_dir, secret) if secret else {}
    if secret and not has_credentials(keys):
        raise Unauthorized(
            f"Secret {secret!r} (sink.opensearch.credentialsFrom) has neither the keys "
            "'username' and 'password' nor 'awsRegion'."
        )
    return Connection(
        hosts=tuple(spec.hosts),
        username=keys.get("username"),
        password=keys.get("password"),
        aws_region=keys.get("awsRegion"),
        aws_service=keys.get("awsService", "es"),
        ca_pem=_read_authority(spec.tls, secrets_dir),
        verify=not spec.tls.insecure_skip_verify,
        secret=secret,
        proxies=read_proxies(os.environ),
    )


PRIMARIES = "_primary"
"""The preference of every search. By default it asks any copy of a shard, and with segment
replication a replica shows what was written, also after a refresh, only once it has copied the
segments."""


NO_SEARCH_PIPELINE = "_none"
"""The pipeline of every search. An index may name one for its readers, which hides documents or
changes them."""


class Client(OpenSearch):
    """An OpenSearch client with its connection, whose searches ask primaries."""

    connection: Connection
    """Where it is connected to, for messages."""
    patience: float = DRIVER_SECONDS
    """Seconds for which requests are repeated that may be."""

    def search(self, **asked: Any) -> Any:
        """Search primaries."""
        return super().search(**asked, preference=PRIMARIES, search_pipeline=NO_SEARCH_PIPELINE)

    def count(self, **asked: Any) -> Any:
        """Count in primaries, by a search; `count` stands beside what a search answers.

        The API for counts runs the index's search pipeline, and does not say when time is up.
        """
        whole = {**asked.pop("body", {}), "size": 0, "track_total_hits": True}
        answer = self.search(**asked, body=whole)
        return {**answer, "count": answer["hits"]["total"]["value"]}

    def create_pit(self, **asked: Any) -> Any:
        """Open a point in time of primaries; later searches in it ask the same copies."""
        return super().create_pit(**asked, preference=PRIMARIES)

    def delete_by_query(self, **asked: Any) -> Any:
        """Delete what is found in primaries."""
        params = {**asked.pop("params", {}), "search_pipeline": NO_SEARCH_PIPELINE}
        return super().delete_by_query(**asked, params=params, preference=PRIMARIES)


class _ProxiedConnection(OpenSearchConnection):
    """The connection to one host, through a proxy unless it is an exception."""

    def __init__(self, *args: Any, proxies: Proxies, **options: Any) -> None:
        # First, because the class above opens the pool when it is made.
        self._proxies = proxies
        self._trust: ssl.SSLContext | None = options.get("ssl_context")
        self._sockets: int = options["pool_maxsize"]
        super().__init__(*args, **options)

    def _create_urllib3_pool(self) -> None:
        proxy = self._proxies.find(self.host)
        if proxy is None:
            super()._create_urllib3_pool()
            return
        login = split_proxy(proxy)
        manager = urllib3.ProxyManager(
            proxy,
            proxy_headers=_encode_login("proxy-authorization", login.user, login.password)
            if login.user
            else {},
            maxsize=self._sockets,
            timeout=self.timeout,
            ssl_context=self._trust,
        )
        self.pool = _ProxiedPool(manager, self.host)


class _ProxiedPool:
    """What the library uses of a pool of connections to `host`, through a proxy."""

    def __init__(self, manager: urllib3.ProxyManager, host: str) -> None:
        self._manager = manager
        self._host = host

    def urlopen(self, method: str, path: str, body: bytes | None, **options: Any) -> Any:
        """Send one request; a redirect is the answer."""
        url = f"{self._host}{path}"
        return self._manager.urlopen(method, url, redirect=False, body=body, **options)

    def close(self) -> None:
        """Close the sockets."""
        self._manager.clear()


def open_client(connection: Connection, *, pool: int = 4) -> Client:
    """Make a client that never retries by itself: the caller knows what may be repeated.

    `pool` is the number of sockets that stay open per host.
    """
    # The library logs whole bodies at DEBUG and stack traces at WARNING; rows are not to be logged.
    logging.getLogger("opensearch").setLevel(logging.ERROR)
    made = Client(
        hosts=list(connection.hosts),
        **_choose_class(connection.proxies),
        http_auth=_build_signer(connection),
        headers=_build_headers(connection),
        ssl_context=_build_ssl_context(connection),
        timeout=connection.timeout,
        pool_maxsize=pool,
        # A request that timed out may have been applied: only the caller knows whether it may be
        # sent again.
        max_retries=0,
        retry_on_timeout=False,
    )
    made.connection = connection
    return made


def _choose_class(proxies: Proxies) -> dict[str, Any]:
    if not proxies:
        return {"connection_class": OpenSearchConnection}
    return {"connection_class": _ProxiedConnection, "proxies": proxies}


def _read_authority(tls: sink.Tls, secrets_dir: Path | None) -> str | None:
    # Not read where it would not be used: its Secret need not exist then.
    if tls.ca_from is None or tls.insecure_skip_verify:
        return None
    name = tls.ca_from.secret_ref.name
    authority = read_secret(secrets_dir, name).get(authorities.KEY)
    if not authority:
        raise Unauthorized(
            f"Secret {name!r} (sink.opensearch.tls.caFrom) has no key {authorities.KEY!r}."
        )
    return authority


def _build_headers(connection: Connection) -> dict[str, str]:
    # The header is made here because the library encodes credentials as Latin-1.
    if connection.username is None or connection.password is None:
        return {}
    return _encode_login("authorization", connection.username, connection.password)


def _encode_login(header: str, user: str, password: str) -> dict[str, str]:
    """Return the header for basic authentication."""
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    return {header: f"Basic {encoded}"}


def _build_ssl_context(connection: Connection) -> ssl.SSLContext | None:
    if not any(host.startswith("https:") for host in connection.hosts):
        return None
    try:
        context = ssl.create_default_context(cadata=connection.ca_pem)
    except ssl.SSLError as error:
        raise BadSpec("sink.opensearch.tls.caFrom: 'ca.crt' is not a PEM certificate.") from error
    if not connection.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return context


def _build_signer(connection: Connection) -> Callable[..., dict[str, str]] | None:
    """Return the signer (SigV4) for Amazon OpenSearch Service; None where there is no region.

    Credentials are those of the usual AWS chain. Unauthorized where there are none.
    """
    if connection.aws_region is None:
        return None
    # Loaded only where it is needed: every Python worker would have it otherwise.
    session = importlib.import_module("botocore.session").Session()
    credentials = session.get_credentials()
    if credentials is None:
        raise Unauthorized("No AWS credentials were found for signing requests to OpenSearch.")
    return AWSV4Signer(credentials, connection.aws_region, connection.aws_service).sign
