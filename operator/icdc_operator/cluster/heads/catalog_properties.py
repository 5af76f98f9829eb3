"""Translate catalog properties of Iceberg's Java library into those of pyiceberg.

An allow-list: some properties of pyiceberg name a class to import, and whoever writes a pipeline
must not choose code that the operator runs. Pure; opens nothing.

    Java                                           pyiceberg
    type: jdbc, uri: jdbc:postgresql://db/x        uri: postgresql+psycopg2://db/x?connect_timeout=5
    s3.path-style-access: "true"                   s3.force-virtual-addressing: "false"
    client.assume-role.arn: arn:…                  client.role-arn: arn:…
    py-io-impl: some.Class                         dropped
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from icdc_api.errors import FailureClass, IcdcError, WhoActs

CONNECT_SECONDS = 5
"""Time-out of a connection to a catalog or to a store."""

ANSWER_SECONDS = 10
"""Time-out of a catalog or a store that sends nothing."""


class OutOfSight(IcdcError):  # noqa: N818 - what it says of a catalog
    """The operator cannot read this catalog; a run can. Repairs of the catalog change nothing."""

    failure_class = FailureClass.SOURCE_UNAVAILABLE
    who_acts = WhoActs.NOBODY


class CatalogKind(StrEnum):
    """The kinds of catalogs that pyiceberg can read."""

    REST = "rest"
    """A catalog of any vendor that is asked over HTTP."""
    SQL = "sql"
    """A database with Iceberg's two tables; `type: jdbc` in the spec."""
    GLUE = "glue"
    """The Glue Data Catalog of AWS."""
    HIVE = "hive"
    """A Hive metastore, by Thrift."""
    DYNAMODB = "dynamodb"
    """A table of DynamoDB, in AWS."""


@dataclass(frozen=True)
class PyCatalog:
    """A catalog in the terms of pyiceberg."""

    kind: CatalogKind
    """Which class of pyiceberg reads it."""
    name: str
    """Name of the catalog; a JDBC catalog finds its rows by it."""
    properties: Mapping[str, Any] = field(repr=False)
    """Not in the repr, because they may hold credentials."""
    authority: str | None = field(default=None, repr=False)
    """Certificates, as PEM, that are trusted beside the usual ones."""

    @property
    def digest(self) -> str:
        """Hash of all that this holds: equal for equal catalogs, and no secret."""
        whole = json.dumps([self.kind, self.name, self.properties, self.authority], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()


_KINDS = {
    "rest": CatalogKind.REST,
    "jdbc": CatalogKind.SQL,
    "glue": CatalogKind.GLUE,
    "hive": CatalogKind.HIVE,
}
_IMPLEMENTATIONS = {
    "org.apache.iceberg.rest.RESTCatalog": CatalogKind.REST,
    "org.apache.iceberg.jdbc.JdbcCatalog": CatalogKind.SQL,
    "org.apache.iceberg.aws.glue.GlueCatalog": CatalogKind.GLUE,
    "org.apache.iceberg.hive.HiveCatalog": CatalogKind.HIVE,
    "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog": CatalogKind.DYNAMODB,
}

# The properties that are passed on, by who reads them: a REST catalog, the reader of metadata files
# (which all but REST catalogs need), and the clients of Glue, DynamoDB and Hive.
_AWS = r"client\.(region|access-key-id|secret-access-key|session-token|role-arn|role-session-name)"
_REST = re.compile(
    r"uri|warehouse|prefix|credential|token|oauth2-server-uri|scope|audience|resource"
    rf"|namespace-separator|header\..+|rest\.sigv4-enabled|rest\.signing-(name|region)|{_AWS}"
)
_FILES = re.compile(
    rf"warehouse|{_AWS}|s3\.(endpoint|region|access-key-id|secret-access-key|session-token"
    r"|anonymous|force-virtual-addressing|role-arn|role-session-name)"
    r"|adls\.(account-name|account-key|sas-token.*|connection-string|tenant-id|client-id"
    r"|client-secret)|gcs\.(project-id|oauth2\.token|oauth2\.token-expires-at|service\.host)"
)
_GLUE = re.compile(r"glue\.(id|endpoint|region)")
_DYNAMODB = re.compile(r"table-name")
_HIVE = re.compile(r"uri|hive\.kerberos-(authentication|service-name)|ugi")

_OTHER_NAMES = {
    "dynamodb.table-name": "table-name",
    "client.assume-role.arn": "client.role-arn",
    "client.assume-role.session-name": "client.role-session-name",
    "client.assume-role.region": "client.region",
    "rest.access-key-id": "client.access-key-id",
    "rest.secret-access-key": "client.secret-access-key",
    "rest.session-token": "client.session-token",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
}

_POSTGRES_PARAMETERS = frozenset(
    {"sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "gssencmode"}
)
"""Parameters of PostgreSQL's JDBC driver that libpq knows by the same name."""
_POSTGRES_FILES = ("sslcert", "sslkey", "sslrootcert")


def translate(name: str, properties: Mapping[str, str]) -> PyCatalog:
    """Return the catalog in pyiceberg's terms. Raises OutOfSight where pyiceberg cannot read it."""
    kind = _find_kind(properties)
    given = {_OTHER_NAMES.get(key, key): value for key, value in properties.items()}
    # These two are found by their region.
    if kind not in (CatalogKind.GLUE, CatalogKind.DYNAMODB) and not given.get("uri"):
        raise OutOfSight("the catalog has no property uri")
    match kind:
        case CatalogKind.REST:
            return PyCatalog(kind, name, _translate_rest(given))
        case CatalogKind.SQL:
            return PyCatalog(kind, name, {"uri": _build_sql_uri(given), **_translate_files(given)})
        case CatalogKind.GLUE:
            return PyCatalog(kind, name, {**_select(_GLUE, given), **_translate_files(given)})
        case CatalogKind.HIVE:
            return PyCatalog(kind, name, {**_select(_HIVE, given), **_translate_files(given)})
        case CatalogKind.DYNAMODB:
            if "dynamodb.endpoint" in given:
                raise OutOfSight("pyiceberg does not support dynamodb.endpoint")
            return PyCatalog(kind, name, {**_select(_DYNAMODB, given), **_translate_files(given)})


def _find_kind(properties: Mapping[str, str]) -> CatalogKind:
    # As in Iceberg, where both together are an error.
    named, implementation = properties.get("type"), properties.get("catalog-impl")
    if named and implementation:
        raise OutOfSight("the catalog has both type and catalog-impl")
    kind = _IMPLEMENTATIONS.get(implementation or "")
    if kind is None and not implementation:
        kind = _KINDS.get((named or "").lower())
    if kind is None:
        # Values may come from a Secret by mistake, so none is repeated.
        what = "catalog-impl" if implementation else "type"
        readable = ", ".join(_IMPLEMENTATIONS if implementation else _KINDS)
        raise OutOfSight(f"pyiceberg cannot read catalogs of this {what}; it can read {readable}")
    return kind


def _select(allowed: re.Pattern[str], given: Mapping[str, str]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if allowed.fullmatch(key)}


def _translate_rest(given: Mapping[str, str]) -> dict[str, Any]:
    result = _select(_REST, given)
    # Old tables have megabytes of history; heads need only what a branch or a tag names.
    result["snapshot-loading-mode"] = "refs"
    match given.get("rest.auth.type", "oauth2").lower():
        case "oauth2":
            pass
        case "none":
            # With either of them pyiceberg logs in all the same.
            result = {k: v for k, v in result.items() if k not in ("credential", "token")}
        case "sigv4":
            result["rest.sigv4-enabled"] = "true"
        case "basic":
            keys = ("username", "password")
            basic = {key: given.get(f"rest.auth.basic.{key}", "") for key in keys}
            result["auth"] = {"type": "basic", "basic": basic}
        case _:
            raise OutOfSight("pyiceberg does not support this rest.auth.type")
    return result


def _translate_files(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties by which a metadata file is read."""
    if "s3.proxy-uri" in given:
        # Whoever writes a pipeline must not choose a server that connects in the operator's place.
        raise OutOfSight(
            "the operator does not use the proxy of a catalog (s3.proxy-uri), only that of its "
            "chart (extraEnv)"
        )
    result = _select(_FILES, given)
    if "s3.path-style-access" in given:
        style = given["s3.path-style-access"].lower()
        result["s3.force-virtual-addressing"] = "false" if style == "true" else "true"
    seconds = str(CONNECT_SECONDS)
    return {**result, "s3.connect-timeout": seconds, "s3.request-timeout": seconds}


def _build_sql_uri(given: Mapping[str, str]) -> str:
    """Return a JDBC address in SQLAlchemy's form."""
    uri = given["uri"]
    if uri.startswith("jdbc:sqlite:"):
        return _build_sqlite_uri(uri.removeprefix("jdbc:sqlite:"))
    if uri.startswith("jdbc:postgresql:"):
        return _build_postgres_uri(uri.removeprefix("jdbc:"), given)
    raise OutOfSight(
        "the operator can read only JDBC catalogs of jdbc:postgresql: and jdbc:sqlite:"
    )


def _build_sqlite_uri(rest: str) -> str:
    path = rest.removeprefix("file:").partition("?")[0]
    if not path or path.startswith(":"):
        raise OutOfSight("a database in memory is visible only to its own process")
    # Read-only: in any other mode SQLite creates a file that is missing.
    return f"sqlite:///file:{quote(path)}?mode=ro&uri=true"


def _split_host(host: str) -> tuple[str, str]:
    """Return name and port; an address of IPv6 is in brackets in a URL, and not for libpq."""
    name, port = host, ""
    if ":" in host and not host.endswith("]"):
        name, _, port = host.rpartition(":")
    return name.strip("[]"), port or "5432"


def _build_postgres_uri(uri: str, given: Mapping[str, str]) -> str:
    address = urlsplit(uri)
    # `jdbc.` properties go to the driver, just as parameters of the address do.
    driver = {k.removeprefix("jdbc."): v for k, v in given.items() if k.startswith("jdbc.")}
    parameters = {**dict(parse_qsl(address.query)), **driver}
    user, password = parameters.get("user", ""), parameters.get("password", "")
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    query = {key: value for key, value in parameters.items() if key in _POSTGRES_PARAMETERS}
    for name in _POSTGRES_FILES:
        # To libpq `engine:key` names a library to load.
        if name in query and (not query[name].startswith("/") or ":" in query[name]):
            raise OutOfSight(f"{name} of the catalog must be an absolute path without a colon")
    # What the JDBC driver does for `ssl=true`; libpq would by itself not check the certificate.
    if parameters.get("ssl", "false").lower() in ("true", "") and "sslmode" not in query:
        query["sslmode"] = "verify-full"
    if parameters.get("currentSchema"):
        query["options"] = f"-csearch_path={parameters['currentSchema']}"
    query["connect_timeout"] = str(CONNECT_SECONDS)
    hosts = address.netloc or "localhost"
    if "," in hosts:
        # Several hosts (failover) do not fit SQLAlchemy's URL; libpq takes them as lists.
        parts = [_split_host(host) for host in hosts.split(",")]
        query["host"] = ",".join(name for name, _ in parts)
        query["port"] = ",".join(port for _, port in parts)
        hosts = ""
    at = f"{login}@" if login else ""
    database = quote(unquote(address.path).lstrip("/"), safe="")
    return f"postgresql+psycopg2://{at}{hosts}/{database}?{urlencode(query)}"
