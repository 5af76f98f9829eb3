"""Follow tables in an object store, in a Spark with the jars of the image.

A program of its own, because those jars are not on the class path of the other tests' Spark. Each
line of its standard input is a pipeline, each line of its answer that begins with `=` the report of
a run of that pipeline to its end:

    {"url": NODE, "folder": PATH, "tables": [ENTRY], "spec": {…}}   ->   ={REPORT}
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport
from icdc_cli.embedded import jars, jdk, lake
from icdc_spark.iceberg.jvm import session as sessions
from icdc_testing import SOURCES
from icdc_testing.kube.server_process import end_with_parent
from icdc_testing.lake.lake import CATALOG
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.spark_conf import UNCOMPILED

_JARS = (jars.SPARK_SET, jars.IMAGE_SET)
_NAMES_ANEW = "-Dsun.net.inetaddr.ttl=0"
"""Look a name up whenever it is needed: else it is known for half a minute more."""


class StoreRuns:
    """The program, as the test sees it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, folder: Path, url: str, tables: list[dict[str, Any]], **spec: Any) -> RunReport:
        """Run a pipeline to its end and return its last report."""
        given = {"folder": str(folder), "url": url, "tables": tables, "spec": spec}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("="):
                return RunReport.model_validate_json(line[1:])
        raise AssertionError(f"the program ended with {self._process.wait()}")


@contextmanager
def start_program(folder: Path, *, python: Path = Path(sys.executable)) -> Iterator[StoreRuns]:
    """Run the program in the block, started by `python`; its log is in `folder`."""
    retained = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environment = {
        **retained,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": SOURCES,
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(jdk.find_spark_jdk().home),
    }
    for wanted in _JARS:
        # Here: where the program knows no names it cannot fetch them.
        jars.fetch_jars(wanted)
    with (folder / "store-runs.log").open("w") as log:
        process = subprocess.Popen(
            [*end_with_parent(), str(python), __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=folder,
        )
    try:
        yield StoreRuns(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


def _start_spark() -> SparkSession:
    libraries = [jar for wanted in _JARS for jar in jars.fetch_jars(wanted)]
    conf: dict[str, str] = {
        **sessions.APPLICATION_CONF,
        **UNCOMPILED,
        "spark.driver.extraClassPath": os.pathsep.join(map(str, libraries)),
        "spark.driver.extraJavaOptions": f"{lake.QUICK_START} {_NAMES_ANEW}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # The harness takes its own catalog from the session; a pipeline here names another one.
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": "none",
    }
    # Tasks are tried again as on a cluster.
    builder: Any = SparkSession.builder.master("local[2,4]").appName("store-runs")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> None:
    """Run pipelines until standard input ends."""
    spark = _start_spark()
    for line in sys.stdin:
        given = json.loads(line)
        folder = Path(given["folder"])
        harness = Harness(spark, given["url"], folder, given["tables"], **given["spec"])
        sys.stdout.write(f"={harness.run().model_dump_json(by_alias=True)}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
