"""Loads a table of each of many catalogs, in a Spark with the jars of the image.

A program of its own, because those jars are not on the class path of the other tests' Spark:

    {"catalogs": {LABEL: {"name": …, "properties": …}}, "table": …, "constants": [CLASS]}
      → {"errors": {LABEL: {"kind": …, "message": …, …}}, "constants": [TEXT], "postgres": [TEXT],
         "trusted": NUMBER}

`errors` are those of the application; `constants` the texts that those classes of Iceberg name,
`postgres` the properties of PostgreSQL's driver, `trusted` counts the certificates that clients
trust in the end.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_api import authorities
from icdc_api.errors import IcdcError
from icdc_api.job.proxies import read_proxies
from icdc_cli.embedded import jars, jdk, lake
from icdc_spark.iceberg.jvm import session as sessions
from icdc_spark.iceberg.jvm import trust
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.clients.proxy_properties import set_proxies
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.process import lakeshell
from icdc_testing import SOURCES
from icdc_testing.kube.server_process import end_with_parent

_SECONDS = 180.0
_STATIC = 8  # of java.lang.reflect.Modifier
_KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIDOFTHETEST",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_QUICK = {
    # What is not there is not waited for.
    "spark.hadoop.ipc.client.connect.max.retries": "0",
    "spark.hadoop.hive.metastore.connect.retries": "1",
    "spark.hadoop.hive.metastore.failure.retries": "0",
    "spark.hadoop.hive.metastore.client.connect.retry.delay": "0",
}


def probe(question: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the answer, from a process that has ended by then."""
    # Fetched once, in minutes, which must not eat the time of what needs them.
    _fetch_libraries()
    retained = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    done = subprocess.run(
        [*end_with_parent(), sys.executable, __file__],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        env={
            **retained,
            **_KEYS,
            "PYTHONPATH": SOURCES,
            "JAVA_HOME": str(jdk.find_spark_jdk().home),
        },
        cwd=folder,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _fetch_libraries() -> list[Path]:
    return [*jars.fetch_jars(jars.SPARK_SET), *jars.fetch_jars(jars.IMAGE_SET)]


def find_error(spark: SparkSession, catalog: dict[str, Any], table: str) -> dict[str, str]:
    """Load the table and read the list of its files; return the error that ends it.

    `authority` is what Python workers would be handed to open the files.
    """
    session = sessions.create_table_session(spark, catalog["name"], catalog["properties"])
    handed = ""
    try:
        loaded = IcebergTable.load(session, catalog["name"], table)
        with translate_source_errors(table):
            handed = str(loaded.java.io().properties().get(authorities.PROPERTY) or "")
            loaded.java.currentSnapshot().allManifests(loaded.java.io())
    except IcdcError as exc:
        return {"kind": type(exc).__name__, "message": exc.message, "authority": handed}
    return {"kind": "", "message": ""}


def list_constants(bridge: Bridge, class_name: str) -> list[str]:
    """Return the texts that a class has as constants, private ones too."""
    texts = []
    for field in bridge.load_class(class_name).getDeclaredFields():
        static = int(field.getModifiers()) & _STATIC
        if static and str(field.getType().getName()) == "java.lang.String":
            field.setAccessible(True)
            texts.append(str(field.get(None)))
    return texts


def main() -> None:
    """Answer the question on standard input."""
    question = json.load(sys.stdin)
    builder = SparkSession.builder.master("local[1]")
    conf = {
        **sessions.APPLICATION_CONF,
        **_QUICK,
        "spark.driver.extraClassPath": os.pathsep.join(map(str, _fetch_libraries())),
        "spark.driver.extraJavaOptions": lake.QUICK_START,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    bridge = Bridge(spark)
    set_proxies(bridge.get_statics("java.lang.System"), read_proxies(os.environ))
    answer = {
        "errors": {
            label: find_error(spark, catalog, question["table"])
            for label, catalog in question["catalogs"].items()
        },
        "constants": [
            text for name in question["constants"] for text in list_constants(bridge, name)
        ],
        "postgres": [
            str(property_.getName())
            for property_ in bridge.get_statics("org.postgresql.PGProperty").values()
        ],
        "trusted": len(trust._list_trusted(bridge)),
    }
    lakeshell.stop(spark)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
