"""Builds Spark sessions; nothing else in the application configures Spark.

One driver JVM serves all tables of a pipeline. Each table gets a session of its own, because a
catalog's properties (credentials among them) belong to the session's SQL configuration: they are
then seen neither by another table nor by the application's environment page. Spark publishes what
a session has of its own with each execution, so their values are redacted.
"""

from collections.abc import Mapping

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm.time_outs import add_time_outs

REDACTED = (
    r"(?i)^spark[.]sql[.]catalog[.]|secret|passw(or)?d|token|access[.-]?key|account[.-]?key"
    r"|api[.-]?key|private[.-]?key|encryption[.-]?key|[.]sas[.]|connection[.-]string"
    r"|authorization|credential"
)
"""Names of properties whose values are redacted: Spark's own expression, and what it misses."""

APPLICATION_CONF: Mapping[str, str] = {
    # MERGE, CALL and branches in SQL; also what the row-lineage columns need on older writers.
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # Documents hold timestamps in UTC and decimals in plain notation: both depend on these two.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
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
    "spark.redaction.regex": REDACTED,
    "spark.sql.redaction.options.regex": f"(?i)url|{REDACTED}",
    # A speculative copy of a sink task could still write after its batch was advanced.
    "spark.speculation": "false",
}
"""What the application needs whatever the pipeline says; `spec.spark.conf` may not change it."""

_ROW_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""pyspark's loggers of failed expressions: they log values of the row."""


def create_application_session(name: str) -> SparkSession:
    """Create the first session of the application; all other settings come from spark-submit."""
    builder = SparkSession.builder.appName(name)
    for key, value in APPLICATION_CONF.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def create_table_session(
    application: SparkSession, catalog: str, properties: Mapping[str, str]
) -> SparkSession:
    """Create a session with one catalog, under its own name.

    The catalog has time-outs. Its cache is off: by default Spark would not see the commits of other
    writers.
    """
    for name in _ROW_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    session = application.newSession()
    prefix = f"spark.sql.catalog.{catalog}"
    # Names without values, left by earlier sessions: see `_redact_in_event_log`.
    for key in session.conf.getAll:
        if key.startswith(f"{prefix}."):
            session.conf.unset(key)
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {**add_time_outs(properties), "cache-enabled": "false"}.items():
        _redact_in_event_log(application, f"{prefix}.{key}")
        session.conf.set(f"{prefix}.{key}", value)
    return session


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


def use_pool(session: SparkSession, table: str) -> None:
    """Run the jobs of the calling thread in the fair-scheduler pool of the table."""
    session.sparkContext.setLocalProperty("spark.scheduler.pool", table)
    session.sparkContext.setJobDescription(table)
