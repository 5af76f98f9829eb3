"""What Prometheus reads of a driver: of a real one, with an executor of its own.

As a program it prints the recording that the tests of the dashboards read, after a change of Spark:

    python -m icdc_testing.runs.driver_metrics > tests/support/icdc_testing/runs/driver.prom
"""

import re
import sys
import tempfile
from pathlib import Path

from icdc_operator.manifests.application import BASE_CONF
from icdc_operator.manifests.pods.templates import METRICS_PATH
from icdc_testing.runs.own_executors import run_program

RECORDING = Path(__file__).with_name("driver.prom")
_CONF = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.ui.prometheus.enabled": BASE_CONF["spark.ui.prometheus.enabled"],
}
# Prints what the driver shows once its executor has shuffled something.
_RUN = f"""
import json, sys, urllib.request
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local-cluster[1,1,512]")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
session.range(1000).repartition(2).count()
address = session.sparkContext.uiWebUrl + "{METRICS_PATH}"
with urllib.request.urlopen(address, timeout=60) as answer:
    print(json.dumps(answer.read().decode()), flush=True)
session.stop()
"""


def read_driver(scratch: Path) -> str:
    """Return what a driver shows under METRICS_PATH, as text of Prometheus."""
    (text,) = run_program(_RUN, _CONF, scratch)
    assert isinstance(text, str)
    return text


def list_series(text: str) -> set[tuple[str, frozenset[str]]]:
    """Return the names of all series, each with the names of its labels."""
    found = re.findall(r"^(\w+)\{(.*)\}", text, re.MULTILINE)
    return {(name, frozenset(re.findall(r'(\w+)="', labels))) for name, labels in found}


def main() -> None:
    """Print a new recording."""
    with tempfile.TemporaryDirectory(prefix="icdc-driver-") as scratch:
        sys.stdout.write(read_driver(Path(scratch)))


if __name__ == "__main__":
    main()
