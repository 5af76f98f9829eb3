"""Add time-outs to the properties of catalogs that have none by default.

Iceberg's REST client and the drivers of databases wait for ever for an answer, Hive's client for
ten minutes and more. The clients of AWS have limits of their own. A limit that the pipeline sets
stays as it is. This module knows names of properties, and no values of users.
"""

from collections.abc import Mapping

CONNECT_SECONDS = 10
"""To open a connection."""
ANSWER_SECONDS = 60
"""Between two packets of an answer: a catalog may compute for a while on a large table."""

_MILLISECONDS = 1000
_REST = {
    "rest.client.connection-timeout-ms": str(CONNECT_SECONDS * _MILLISECONDS),
    "rest.client.socket-timeout-ms": str(ANSWER_SECONDS * _MILLISECONDS),
}
_HIVE = {"hadoop.hive.metastore.client.socket.timeout": f"{ANSWER_SECONDS}s"}
"""A property of the Hadoop configuration, which a catalog of a session sets by `hadoop.`."""
_JDBC = {
    # The driver gets what follows `jdbc.`. PostgreSQL counts in seconds, MySQL in milliseconds.
    "jdbc:postgresql:": {
        "jdbc.connectTimeout": str(CONNECT_SECONDS),
        "jdbc.socketTimeout": str(ANSWER_SECONDS),
    },
    "jdbc:mysql:": {
        "jdbc.connectTimeout": str(CONNECT_SECONDS * _MILLISECONDS),
        "jdbc.socketTimeout": str(ANSWER_SECONDS * _MILLISECONDS),
    },
}
_JDBC["jdbc:mariadb:"] = _JDBC["jdbc:mysql:"]

_TYPES = {"RESTCatalog": "rest", "HiveCatalog": "hive", "JdbcCatalog": "jdbc"}


def add_time_outs(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with the time-outs of the type of catalog that they describe."""
    implementation = properties.get("catalog-impl")
    if implementation is not None:
        kind = _TYPES.get(implementation.rpartition(".")[2], "")
    else:
        kind = properties.get("type", "hive").lower()  # Iceberg's own default
    limits: Mapping[str, str] = {}
    if kind == "rest":
        limits = _REST
    elif kind == "hive":
        limits = _HIVE
    elif kind == "jdbc":
        uri = properties.get("uri", "")
        limits = next((of for start, of in _JDBC.items() if uri.startswith(start)), {})
    # The user's own properties come last, so they win.
    return {**limits, **properties}
