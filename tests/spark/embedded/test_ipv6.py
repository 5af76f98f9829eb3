"""Spark with the application's session at addresses of IPv6, and executors of its own."""

from pathlib import Path

import pytest

from icdc_cli.embedded.lake import QUICK_START
from icdc_testing.runs.own_executors import run_program

pytestmark = pytest.mark.spark

CODE = """
import json, os, shlex, sys
from icdc_spark.iceberg.jvm.session import create_application_session

settings = json.loads(sys.argv[1])
options = [word for item in settings.items() for word in ("--conf", "=".join(item))]
os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*options, "pyspark-shell"])
spark = create_application_session("test")
numbers = spark.sparkContext.parallelize(range(8), 2)
pairs = numbers.map(lambda number: (number % 2, 1)).reduceByKey(lambda one, other: one + other)
print(json.dumps(sorted(pairs.collect())))
spark.stop()
"""


@pytest.mark.parametrize("option", ["", " -Djava.net.preferIPv6Addresses=true"])
def test_executors_find_a_driver_at_an_address_of_ipv6(option: str, tmp_path: Path) -> None:
    conf = {
        "spark.master": "local-cluster[1,1,1024]",
        # As the pod's address and the name of its Service are in a cluster.
        "spark.driver.bindAddress": "::1",
        "spark.driver.host": "[::1]",
        "spark.driver.extraJavaOptions": f"{QUICK_START}{option}",
    }
    assert run_program(CODE, conf, tmp_path) == [[[0, 4], [1, 4]]]
