"""A Spark with executors of its own: who does not know the secret of a run gets no tasks of it.

In place of a cluster Spark starts its executors itself here, as processes, and they talk to each
other over the network as in pods. The properties are those of runs; the secret, which Spark makes
itself in a cluster, is given.
"""

from pathlib import Path

import pytest

from icdc_operator.manifests.application import ENCRYPTION_CONF
from icdc_testing.runs.own_executors import run_program

pytestmark = pytest.mark.spark

SECRET = {"spark.authenticate.secret": "known-to-this-run-alone"}
ROWS = 20_000
# Prints the sum of a shuffle between executors, then what became of an executor that is a stranger:
# in a pod beside the run all it needs is the address of the driver.
RUN = f"""
import json, os, subprocess, sys, time
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local-cluster[2,1,512]")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
context = session.sparkContext
shuffled = session.range({ROWS}).selectExpr("id", "repeat(cast(id as string), 20) text")
shuffled = shuffled.repartition(4, "text").selectExpr("sum(id)", "sum(length(text))")
print(json.dumps(list(shuffled.collect()[0])), flush=True)
stranger = subprocess.Popen(
    [os.environ["SPARK_HOME"] + "/bin/spark-class",
     "org.apache.spark.executor.CoarseGrainedExecutorBackend",
     "--driver-url", "spark://CoarseGrainedScheduler@127.0.0.1:" + context.getConf().get(
         "spark.driver.port"),
     "--executor-id", "stranger", "--hostname", "127.0.0.1", "--cores", "1",
     "--app-id", context.applicationId, "--resourceProfileId", "0"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
def is_in():
    return "stranger" in str(context._jsc.sc().getExecutorIds().mkString(",")).split(",")
while stranger.poll() is None and not is_in():
    time.sleep(0.1)
print(json.dumps(is_in()), flush=True)
stranger.kill()
stranger.wait()
session.stop()
"""


@pytest.mark.parametrize("encrypted", [True, False])
def test_only_who_knows_the_secret_of_a_run_gets_tasks_of_it(
    encrypted: bool, tmp_path: Path
) -> None:
    conf = {**ENCRYPTION_CONF, **SECRET} if encrypted else {}
    # The two sums of the shuffle, and whether the stranger was taken in.
    sums, taken_in = run_program(RUN, conf, tmp_path)
    text = sum(20 * len(str(number)) for number in range(ROWS))
    assert sums == [ROWS * (ROWS - 1) // 2, text]
    assert taken_in is not encrypted
