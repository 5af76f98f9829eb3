"""Why Spark does not start is said by an error that is retried, or that names who must act."""

import os
import subprocess
import sys

import pytest

from icdc_cli.embedded.lake import QUICK_START
from icdc_testing.kube.api_stub import ApiStub, serve_stub

pytestmark = pytest.mark.spark

START = """
from icdc_api.errors import IcdcError
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.jvm.session import create_application_session
try:
    session = create_application_session("start")
    with translate_source_errors("shop.orders"):
        session.range(9).groupBy("id").count().collect()
except IcdcError as error:
    print(f"{type(error).__name__}: {error}")
"""


def start(master: str, **conf: str) -> str:
    """Start Spark in a process of its own; return the name and the message of what it raises."""
    properties = {
        "spark.kubernetes.namespace": "shops",
        "spark.kubernetes.driver.pod.name": "shop-c1-1-driver",
        "spark.ui.enabled": "false",
        **conf,
    }
    words = [f"--conf {name}={value}" for name, value in properties.items()]
    env = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": " ".join(["--master", master, *words, "pyspark-shell"]),
        # A start is all that these JVMs do: a third of their CPU is the second compiler's.
        "SPARK_SUBMIT_OPTS": QUICK_START,
        # Ten repetitions of a request that fails are of no use here.
        "KUBERNETES_REQUEST_RETRY_BACKOFFLIMIT": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", START], env=env, capture_output=True, text=True, timeout=300
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("code", "error"),
    [(401, "Unauthorized"), (403, "Unauthorized"), (404, "DriverLost"), (503, "StartTimeout")],
)
def test_what_the_api_server_answers_to_the_driver_decides_who_acts(code: int, error: str) -> None:
    stub = ApiStub()
    stub.failure = code, 'pods "shop-c1-1-driver": no'
    with serve_stub(stub):
        said = start(f"k8s://{stub.url}")
    assert said.startswith(f"{error}: the "), said
    assert ("spec.spark.driver.serviceAccount" in said) == (error == "Unauthorized")


@pytest.mark.parametrize("host", ["127.0.0.1", "kubernetes.invalid"])
def test_an_api_server_that_is_not_reached_is_tried_again(host: str) -> None:
    # Nobody listens at port 1.
    said = start(f"k8s://http://{host}:1")
    assert said.startswith("StartTimeout: the driver does not start"), said
    assert "ConnectException" in said or "UnknownHostException" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.executor.heartbeatInterval", "1.5s"),
        ("spark.sql.shuffle.partitions", "many"),
        ("spark.sql.shuffle.partitions", "0"),
    ],
    ids=["read at the start", "read by a job", "out of range"],
)
def test_a_property_that_spark_does_not_take_is_named_with_its_value(name: str, value: str) -> None:
    assert start("local[1]", **{name: value}).startswith(
        f"BadSpec: spec.spark.conf: {name}: '{value}': "
    )


def test_a_jvm_that_does_not_start_is_no_defect_of_ours() -> None:
    said = start("local[1]", **{"spark.driver.memory": "999999g"})
    assert "\nSubmission: the driver does not start, because its JVM does not" in said, said
