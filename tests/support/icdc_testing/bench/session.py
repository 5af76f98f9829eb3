"""The Spark of benchmarks, and of other programs that need one of their own."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_cli.embedded.jars import fetch_jars
from icdc_cli.embedded.jdk import find_spark_jdk


def start_bench_session(
    name: str,
    folder: Path,
    *,
    memory: str = "1500m",
    conf: Mapping[str, str] | None = None,
    master: str = "local[2]",
) -> SparkSession:
    """Return a Spark, of two cores by default, that keeps what it scratches in the folder.

    `memory` is the heap of its driver, `conf` are further properties.
    """
    os.environ["JAVA_HOME"] = str(find_spark_jdk().home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    chosen = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, fetch_jars("spark"))),
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "scratch"),
        "spark.ui.enabled": "false",
        **(conf or {}),
    }
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def list_stages(spark: SparkSession, *quantiles: float) -> list[Any]:
    """Return Spark's metrics of all stages until now, unordered; per task at these quantiles."""
    context: Any = spark.sparkContext
    jvm: Any = spark._jvm
    scala = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    wanted = context._gateway.new_array(jvm.double, len(quantiles))
    for position, quantile in enumerate(quantiles):
        wanted[position] = quantile
    nothing = jvm.java.util.ArrayList()
    listed = scala.statusStore().stageList(nothing, False, bool(quantiles), wanted, nothing)
    return [listed.apply(position) for position in range(listed.size())]
