"""Builds Spark sessions; nothing else in the application configures Spark.

One driver JVM serves all tables of a pipeline. Each table gets a session of its own, because a
catalog's properties (credentials among them) belong to the session's SQL configuration: they are
then seen neither by another table nor by the application's environment page. Spark publishes what
a session has of its own with each execution, so their values are redacted.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from icdc_api import authorities
from icdc_api.errors import IcdcError
from icdc_api.job.proxies import read_proxies
from icdc_api.redaction import SECRET_NAMES
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.clients.proxy_properties import except_catalog, set_proxies
from icdc_spark.iceberg.jvm.clients.time_outs import add_time_outs
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.jvm.start_errors import translate_start_errors
from icdc_spark.iceberg.jvm.trust import trust_authority

LOG = logging.getLogger(__name__)

APPLICATION_CONF: Mapping[str, str] = {
    # MERGE, CALL and branches in SQL; also what the row-lineage columns need on older writers.
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # Documents hold timestamps in UTC and decimals in plain notation: both depend on these two.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Expressions and filters mean the same in every run. These are Spark's own defaults.
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Or `${env:NAME}` in a row filter would be the driver's environment, Secrets included.
    "spark.sql.variable.substitute": "false",
    # Otherwise a null would be written, not left out, where its column has a default value.
    "spark.sql.jsonGenerator.writeNullIfWithDefaultValue": "false",
    # Planning would take minutes, and all memory, for a table with nested columns: constraints of
    # whole documents are rewritten under every alias, and none of them is of use here.
    "spark.sql.constraintPropagation.enabled": "false",
    # A damaged page of a Parquet file fails the read; by default it would give wrong values.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # One table must not wait for another's stages.
    "spark.scheduler.mode": "FAIR",
    # Spark's note of which line of Python made an expression: it costs a third of all calls to the
    # JVM, and no message of ours shows it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Python workers that start with their modules loaded: see `worker_daemon`.
    "spark.python.daemon.module": "icdc_spark.process.worker_daemon",
    # Pages, event log and logs show neither the properties of catalogs, whatever they are called
    # (header.Authorization, s3.access-key-id, …), nor what further names of credentials are for.
    "spark.redaction.regex": SECRET_NAMES,
    "spark.sql.redaction.options.regex": f"(?i)url|{SECRET_NAMES}",
    # A speculative copy of a sink task could still write after its batch was advanced.
    "spark.speculation": "false",
}
"""What the application needs whatever the pipeline says; `spec.spark.conf` may not change it."""

_CLOSEABLE = "java.io.Closeable"
_POOL_HOOK = "DelayedShutdownHook-for-"
"""How Guava names the thread that ends a pool of threads when the JVM ends."""
_LISTING_HOOKS = threading.Lock()
"""Held while hooks are listed and removed: the JVM's list is not made for two threads."""

_ROW_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""pyspark's loggers of failed expressions: they log values of the row."""


class SessionClosedError(Exception):
    """The session of a table was used after it was closed: an error in this program."""


class TableSession:
    """The session of one table, and what its catalog has open.

    A catalog holds connections, threads and clients of the object store, which the JVM frees late
    or never. So whoever opens a session closes it, also where a step failed:

        with closing(open_table_session(application, "lake", properties)) as opened:
            IcebergTable.load(opened.spark, "lake", "shop.orders")    # connects
                                                                      # disconnects

    For one thread at a time.
    """

    def __init__(
        self, session: SparkSession, catalog: str, mark: Callable[..., None] = lambda **_: None
    ) -> None:
        """`catalog` is the name under which `session` knows its only catalog.

        `mark` is called with `is_open` now, and when all is closed.
        """
        self._session: SparkSession | None = session
        self._catalog = catalog
        self._mark = mark
        mark(is_open=True)

    @property
    def spark(self) -> SparkSession:
        """The session of Spark; SessionClosedError after `close`."""
        if self._session is None:
            raise SessionClosedError(f"the session of catalog {self._catalog} is closed")
        return self._session

    def close(self) -> None:
        """Close the catalog with all that it has open, and forget the session; at most once.

        Tasks of a failed attempt that still run fail then: locally they share the clients of the
        driver. Raises nothing: a catalog that fails to close must not hide why its table ended.
        """
        session, self._session = self._session, None
        if session is None:
            return
        try:
            with translate_source_errors(self._catalog):
                _close_catalog(session, self._catalog)
        except IcdcError as error:
            # Such as of a JVM that has ended, and everything with it.
            LOG.warning("the catalog %s was not closed in order: %s", self._catalog, error)
        self._mark(is_open=False)


def create_application_session(name: str) -> SparkSession:
    """Create the first session of the application; all other settings come from spark-submit.

    Raises an error of `translate_start_errors` where Spark does not start.
    """
    builder = SparkSession.builder.appName(name)
    for key, value in APPLICATION_CONF.items():
        builder = builder.config(key, value)
    with translate_start_errors():
        _check_sql_properties()
        assert SparkContext._jvm is not None
        set_proxies(SparkContext._jvm.java.lang.System, read_proxies(os.environ))
        _find_loopback()
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def _check_sql_properties() -> None:
    """Check the values that spark-submit has for properties of Spark SQL.

    Spark itself reads them with the first query. By then pyspark cannot say what is wrong: for the
    text of any error it reads a property of the session, which fails in the same way, without end.
    """
    SparkContext._ensure_initialized()
    assert SparkContext._jvm is not None
    properties = SparkContext._jvm.org.apache.spark.sql.internal.SQLConf()
    for key, value in SparkConf().getAll():
        if key.startswith("spark.sql."):
            properties.setConfString(key, value)


def _find_loopback() -> None:
    """Have pyspark look for the JVM at the loopback address at which it listens.

    Spark's own guide to IPv6 sets the property, and expects the variable in pods.
    """
    assert SparkContext._jvm is not None
    if SparkContext._jvm.java.lang.System.getProperty("java.net.preferIPv6Addresses") == "true":
        os.environ["SPARK_PREFER_IPV6"] = "true"


def open_table_session(
    application: SparkSession,
    catalog: str,
    properties: Mapping[str, str],
    mark: Callable[..., None] = lambda **_: None,
) -> TableSession:
    """Open a session as `create_table_session` creates it, which its caller closes.

    `mark`: see `TableSession`.
    """
    return TableSession(create_table_session(application, catalog, properties), catalog, mark)


def create_table_session(
    application: SparkSession, catalog: str, properties: Mapping[str, str]
) -> SparkSession:
    """Create a session with one catalog, under its own name.

    The catalog has time-outs, the proxies of this process, and is trusted by the authorities among
    its properties. Its cache is off: by default Spark would not see the commits of other writers.
    """
    for name in _ROW_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    if authorities.PROPERTY in properties:
        trust_authority(application, properties[authorities.PROPERTY])
    session = application.newSession()
    prefix = f"spark.sql.catalog.{catalog}"
    # Names without values, left by earlier sessions: see `_redact_in_event_log`.
    for key in session.conf.getAll:
        if key.startswith(f"{prefix}."):
            session.conf.unset(key)
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    proxies = read_proxies(os.environ)
    if proxies:
        system = cast(Any, application._jvm).java.lang.System
        except_catalog(system, proxies, properties.get("uri", ""))
    every = proxies.add_to_catalog(add_time_outs(properties))
    for key, value in {**every, "cache-enabled": "false"}.items():
        _redact_in_event_log(application, f"{prefix}.{key}")
        session.conf.set(f"{prefix}.{key}", value)
    return session


def _close_catalog(session: SparkSession, catalog: str) -> None:
    bridge = Bridge(session)
    try:
        manager = bridge.java_session.sessionState().catalogManager()
        # Only one that was used: asked for by name, Spark would create it, and connect, to close
        # it. It stays in the manager: `reset` would empty that, but also create the folder of
        # Spark's own warehouse in the working directory, which may be read-only.
        if manager.listCatalogs(bridge.get_statics("scala.Option").empty()).contains(catalog):
            spark3 = bridge.get_statics("org.apache.iceberg.spark.Spark3Util")
            java_catalog = spark3.loadIcebergCatalog(bridge.java_session, catalog)
            if bridge.is_a(java_catalog, _CLOSEABLE):
                java_catalog.close()
    finally:
        # Also of a catalog that fails to close. They may hold credentials.
        for key in session.conf.getAll:
            if key.startswith(f"spark.sql.catalog.{catalog}"):
                session.conf.unset(key)
        # `Bridge` made the session the active one of this thread, which would keep it in memory.
        bridge.get_statics("org.apache.spark.sql.SparkSession").clearActiveSession()
        _remove_pool_hooks(bridge)


def _remove_pool_hooks(bridge: Bridge) -> None:
    """Remove the shutdown hooks of Iceberg's pools of threads, so that sessions are freed.

    A REST catalog registers a hook for its pool and never removes it. A hook is a thread, which has
    inherited the session that was active when it was made: 0.4 MB for each catalog ever opened. The
    pools' own threads are daemons, so the JVM ends without the hooks as well.
    """
    # `Runtime` removes a hook, but tells nobody which there are. Spark itself opens this package.
    hooks = bridge.load_class("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks")
    hooks.setAccessible(True)
    runtime = bridge.get_statics("java.lang.Runtime").getRuntime()
    with _LISTING_HOOKS:
        present = hooks.get(None)
        if present is None:
            # The JVM is ending, and all that it holds with it.
            return
        for hook in present.keySet().toArray():
            if hook.getName().startswith(_POOL_HOOK):
                runtime.removeShutdownHook(hook)


def _redact_in_event_log(application: SparkSession, key: str) -> None:
    """Have Spark redact a property of a session in the event log.

    Each job is logged with all settings of its session, and Spark redacts only those whose names
    are in the application's own configuration. So the name is put there, with an empty value.
    """
    # Later sessions inherit the empty value; `create_table_session` unsets it at once.
    application.sparkContext._jsc.sc().conf().set(key, "")


def make_case_sensitive(session: SparkSession) -> None:
    """Make `a` and `A` two columns in the session.

    Only for a table that has both: for others a filter may name a column in any case, as everywhere
    in Spark.
    """
    session.conf.set("spark.sql.caseSensitive", "true")


def mark_jobs(session: SparkSession, table: str, tag: str) -> None:
    """Mark the jobs of the calling thread as those of a table.

    They run in the fair-scheduler pool of the table, and carry the tag and no other: by it they are
    observed and cancelled (`table_jobs`).
    """
    context = session.sparkContext
    context.setLocalProperty("spark.scheduler.pool", table)
    context.setJobDescription(table)
    # The thread may have worked for another table before.
    context.clearJobTags()
    context.addJobTag(tag)
