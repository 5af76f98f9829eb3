"""Time-outs of catalogs that have none by default, where the pipeline sets none.

Iceberg's client for REST and the drivers of databases wait for ever for an answer, Hive's for ten
minutes and more; those of AWS have limits of their own. It knows names of properties, no values
of users.
"""

from collections.abc import Mapping

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
"""Between two packets of an answer: a catalog at work on a large table may take a while."""

_MILLISECONDS = 1000
_REST = {
    "rest.client.connection-timeout-ms": str(CONNECT_SECONDS * _MILLISECONDS),
    "rest.client.socket-timeout-ms": str(ANSWER_SECONDS * _MILLISECONDS),
}
_HIVE = {"hadoop.hive.metastore.client.socket.timeout": f"{ANSWER_SECONDS}s"}
"""Of the Hadoop configuration, which a session's catalog may change by `hadoop.`."""
_JDBC = {
    # A driver's own properties follow `jdbc.`; the two speak of seconds and of milliseconds.
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


def with_time_outs(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, with limits for whatever kind of catalog they describe."""
    named = properties.get("catalog-impl")
    if named is not None:
        kind = _TYPES.get(named.rpartition(".")[2], "")
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
    return {**limits, **properties}
