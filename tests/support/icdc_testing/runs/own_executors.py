"""Run programs whose Spark has executors of its own: Spark starts them as processes of this host.

In place of a cluster they talk to each other over the loopback, as in pods over the network.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark

from icdc_cli.embedded.jdk import find_spark_jdk
from icdc_cli.embedded.lake import QUICK_START

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def run_program(code: str, conf: Mapping[str, str], scratch: Path, *arguments: str) -> list[Any]:
    """Run Python code to its end; return the values that it prints as lines of JSON.

    Its first argument is the settings of its Spark as JSON, `conf` laid over those for this host.
    AssertionError with the end of its log where it fails.
    """
    settings = {**_SETTINGS, "spark.local.dir": str(scratch), **conf}
    env = {
        **os.environ,
        "JAVA_HOME": str(find_spark_jdk().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(scratch / "work"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(settings), *arguments],
        env=env,
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
